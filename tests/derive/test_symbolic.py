"""Gradients against sympy's derivative of the whole loss, written out at a small size: elementwise, to 40 digits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lossdsl.check.check import check
from lossdsl.check.typed import CheckedLoss
from lossdsl.derive.derive import derive
from lossdsl.derive.prove import Proof, prove, prove_gradient, prove_graph
from lossdsl.derive.symbolic.compare import compare, draw, small_sizes
from lossdsl.derive.symbolic.written import NotWrittenError, to_sympy
from lossdsl.derive.transport import from_json, to_json
from lossdsl.ir.graph import Graph, JointGraph
from lossdsl.ir.lower import lower
from lossdsl.plugins import discover
from lossdsl.registry import Registry
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse
from tests.losses import CASES, FULL, STANDARD, sampled

REGISTRY = discover({})  # found once: looking takes longer than most of what is tested here

PACK = sampled(others=6)


def checked(text: str, name: str = "test.loss") -> CheckedLoss:
    source = Source(name, text)
    return check(parse(source), source, REGISTRY)


@cache
def graphs_of(path: Path) -> tuple[Graph, JointGraph]:
    graph = lower(checked(path.read_text(), path.name), REGISTRY)
    return graph, derive(graph, REGISTRY)


@pytest.mark.parametrize("path", PACK, ids=lambda p: p.stem)
def test_the_pack(path: Path) -> None:
    """Without and with an ignored row, in turn from loss to loss; all of both where time is no matter."""
    for seed in (1, 2) if FULL else (1 + PACK.index(path) % 2,):
        assert compare(*graphs_of(path), REGISTRY, seed) == []


@pytest.mark.parametrize("path", sorted(CASES.glob("*.loss")), ids=lambda p: p.stem)
def test_the_cases(path: Path) -> None:
    assert compare(*graphs_of(path), REGISTRY, 1) == []


@pytest.mark.parametrize(
    "body",
    [
        "tanh(x) * sigmoid(y)",
        "erf(x) + atan(y)",
        "lgamma(exp(x)) - digamma(exp(y))",
        "acos(tanh(x)) * asin(tanh(y))",
        "exp(-abs(x - y)) * sign(x)",
        "mod(x, 3) * floor(y)",
        "clip(x, -1, y) + max(x, y, 0) - min(x, y)",
        "sqrt(softplus(x)) / (1 + relu(y))",
        "exp(x)^y + exp(y)^(-2)",
        "sin(x) * cos(y) + tan(tanh(x))",
        "log1p(exp(x)) + expm1(y) + logaddexp(x, y)",
    ],
)
def test_primitives_through_the_reverse_pass(body: str) -> None:
    text = f"loss t\ninput x[N]\ninput y[N]\nreturn {body}\n"
    graph = lower(checked(text), REGISTRY)
    for seed in (1, 3):
        assert compare(graph, derive(graph, REGISTRY), REGISTRY, seed) == []


@pytest.mark.parametrize("path", PACK if FULL else PACK[::4], ids=lambda p: p.stem)
def test_a_wrong_sign_is_seen(path: Path) -> None:
    """A JointGraph with the sign of a gradient turned: the comparison must be able to fail, for every loss."""
    graph, joint = graphs_of(path)
    for name, n in joint.graph.outputs:
        if name.startswith("grad.") and joint.graph.nodes[n].op != "const":
            g = joint.graph
            turned = replace(g.nodes[n], op="neg", args=(n,), attrs=())
            outputs = tuple((k, len(g.nodes) if k == name else m) for k, m in g.outputs)
            planted = JointGraph(replace(g, nodes=(*g.nodes, turned), outputs=outputs))
            wrong = next(filter(None, (compare(graph, planted, REGISTRY, seed) for seed in range(1, 9))), None)
            if wrong is not None:  # else this one is 0 at every point, as that of logits of which none is taken
                assert {w.entry.partition("[")[0] for w in wrong} == {name}
                return
    raise AssertionError("no gradient is seen to be wrong")


def test_a_wrong_partial_derivative_is_seen() -> None:
    """Planted in a record: sigmoid' a millionth too large. The whole gradient no longer holds."""
    base = REGISTRY
    sigmoid = replace(base.primitives["sigmoid"], partials=lambda f, x: (f.sigmoid(x) * f.sigmoid(-x) * 1.000001,))
    planted = Registry({**base.primitives, "sigmoid": sigmoid}, base.reductions)
    graph = lower(checked("loss t\ninput x[N]\nreturn sigmoid(x)\n"), base)
    assert compare(graph, derive(graph, base), base, 1) == []
    (first, second) = compare(graph, derive(graph, planted), base, 1)
    assert first.entry == "grad.x[0]"
    assert second.entry == "grad.x[1]"
    assert float(first.derived) / float(first.sympy) == pytest.approx(1.000001, rel=1e-9)


SYMMETRIC = "x[D, D'] + x[D -> D', D' -> D]"


@pytest.mark.parametrize(
    "body",
    [
        f"logdet[D, D']({SYMMETRIC} + 9 * (D == D'))",
        "sum[D'](solve[D, D'](x + 3 * (D == D'), y)^2)",
        "max[D](x) * prod[D'](y[D -> D']) + sum[D, D'](cumsum[D](x^3))",
        "root(t in [-30, 30]: t + sinh_like)",
    ],
)
def test_operations_through_the_reverse_pass(body: str) -> None:
    body = body.replace("sinh_like", "exp(t) - exp(-t) - sum[D, D'](x) - sum[D](y)")
    text = f"loss t\ninput x[N, D, D']\ninput y[N, D]\nreturn {body}\n"
    graph = lower(checked(text.replace("x[D, D']", "x").replace("max[D](x)", "max[D](y)")), REGISTRY)
    joint = derive(graph, REGISTRY)
    for seed in (1, 3):
        assert compare(graph, joint, REGISTRY, seed) == []


def test_eigenvalues_are_written_in_ascending_order() -> None:
    text = "loss t\ninput x[N, D, D']\nreturn sum[K]((K + 1) * eigvals[D, D' -> K](x + x[D -> D', D' -> D]))\n"
    graph = lower(checked(text), REGISTRY)
    sizes = small_sizes(graph)
    leaves = draw(graph, sizes, 1)
    written = to_sympy(graph, REGISTRY, leaves, sizes, ["rows"])
    x = np.vectorize(float, otypes=[float])(leaves["x"])
    for n in range(sizes["N"]):
        low, high = np.linalg.eigvalsh(x[n] + x[n].T)
        value = written.outputs["rows"][n,].subs(written.point)
        assert float(value) == pytest.approx(low + 2 * high, rel=1e-13)


def test_what_can_not_be_written_out_is_named() -> None:
    text = "loss t\ninput x[N, T, T']\nreturn sum[K](eigvals[T, T' -> K](x + x[T -> T', T' -> T]))\n"
    graph = lower(checked(text), REGISTRY)
    with pytest.raises(NotWrittenError, match="eigvals of 3 rows"):
        compare(graph, derive(graph, REGISTRY), REGISTRY, 1)


@pytest.mark.parametrize("path", [*PACK, *sorted(CASES.glob("*.loss"))], ids=lambda p: p.stem)
def test_graphs_travel_as_json(path: Path) -> None:
    graph, joint = graphs_of(path)
    for g in (graph, joint.graph):
        bare = replace(g, nodes=tuple(replace(n, origin=None) for n in g.nodes))
        assert from_json(json.loads(json.dumps(to_json(g)))) == bare


# --- in a child process -----------------------------------------------------------------------------------------------


def test_a_proof() -> None:
    proof = prove_gradient(checked((STANDARD / "cross_entropy.loss").read_text()), REGISTRY)
    assert str(proof) == "proved"
    assert proof.points == 3


def test_a_refutation_has_its_counterexample() -> None:
    graph, joint = graphs_of(STANDARD / "mean_absolute_error.loss")
    n = joint.graph.output("grad.logits")
    node = joint.graph.nodes[n]
    assert node.op == "select"
    nodes = list(joint.graph.nodes)
    nodes[n] = replace(node, args=(node.args[0], node.args[2], node.args[1]))
    proof = prove_graph(graph, JointGraph(replace(joint.graph, nodes=tuple(nodes))), REGISTRY)
    assert proof.status == "refuted"
    assert "grad.logits[0, 0] is derived as" in proof.detail
    assert "target = [" in proof.detail


def test_time_and_memory_are_bounded() -> None:
    graph, joint = graphs_of(CASES / "nt_xent.loss")
    assert prove_graph(graph, joint, REGISTRY, timeout=0.01) == Proof("timeout")
    assert prove_graph(graph, joint, REGISTRY, timeout=30, memory=2**26) == Proof("timeout")


def test_what_was_found_in_time_is_kept() -> None:
    """The child's lines, each better than the one before."""
    graph, joint = graphs_of(STANDARD / "bce.loss")
    request = {"graph": to_json(graph), "joint": to_json(joint.graph), "defaults": {}, "points": 2}
    assert [str(p) for p in prove(request)] == ["held at 1 point", "held at 2 points", "proved"]


def test_a_proof_may_wait_for_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is what the child computes: one that stands still for twice as long as it may compute still answers."""
    from lossdsl.derive import prove

    graph, joint = graphs_of(STANDARD / "mean_absolute_error.loss")
    patient = subprocess.Popen

    def paused(*args: Any, **more: Any) -> Any:
        child = patient(*args, **more)
        os.kill(child.pid, signal.SIGSTOP)
        threading.Timer(5.0, os.kill, (child.pid, signal.SIGCONT)).start()
        return child

    monkeypatch.setattr(prove.subprocess, "Popen", paused)
    assert prove_graph(graph, joint, REGISTRY, timeout=2.5).status == "proved"


def test_a_call_that_no_signal_of_python_ends_is_ended() -> None:
    """A power of two large numbers is one call, which looks at no signals."""
    code = "from lossdsl.derive.limits import compute_at_most; compute_at_most(1); 9**387420489"
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert done.returncode == -signal.SIGXCPU
    assert time.monotonic() - started < 30
