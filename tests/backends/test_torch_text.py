"""The emitted text: readable, formatted, deterministic, and made of names that the identifier table gave."""

from __future__ import annotations

import ast
import builtins
import keyword
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch._dynamo.testing

from lossdsl.backends.torch.emit import emit, helper_texts
from lossdsl.backends.torch.names import Identifiers
from lossdsl.check.check import check
from lossdsl.derive.derive import derive
from lossdsl.ir.lower import lower
from lossdsl.plan.names import ascii_name
from lossdsl.plan.plan import plan
from lossdsl.registry import Registry
from lossdsl.source.text import Source, Span
from lossdsl.syntax.parse import parse
from tests.backends.emitted import arguments, by_buffer, module, text
from tests.plan.graphs import GRAPHS, Draft, arrays, joint

GOLDEN = Path(__file__).parent / "golden"
FOCAL = '''loss focal
"""The focal loss."""
input logits[N, C]
input target[N]: index C
param γ = 2.0 in [0, inf)

p = softmax(logits)[target]
return -(1 - p)^γ * log(p)
'''
DICE = """loss dice
input logits[N, C]
input target[N]: index C
param smooth = 1e-6 in [0, inf)
p = softmax(logits)
t = C == target
return mean[C](1 - (2 * sum[N](p * t) + smooth) / (sum[N](p + t) + smooth))
"""


def compiled(loss: str, registry: Registry) -> str:
    source = Source("test.loss", loss)
    j = derive(lower(check(parse(source), source, registry), registry), registry)
    return text(emit(plan(j, registry), source, registry))


@pytest.mark.parametrize(("name", "loss"), [("focal", FOCAL), ("dice", DICE)])
def test_golden(name: str, loss: str, registry: Registry) -> None:
    """LOSSDSL_UPDATE_GOLDEN=1 writes the files anew."""
    found = compiled(loss, registry)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("LOSSDSL_UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")
    assert compiled(loss, registry) == found


def test_what_is_emitted_passes_the_linter_and_the_formatter(tmp_path: Path, registry: Registry) -> None:
    """With ruff's own rules and 88 columns, whatever the project around it says."""
    for name in GRAPHS:
        (tmp_path / f"{name}.py").write_text(text(emit(plan(joint(name, registry), registry), None, registry)))
    for name, loss in (("focal", FOCAL), ("dice", DICE)):
        (tmp_path / f"text_{name}.py").write_text(compiled(loss, registry))
    ruff = [sys.executable, "-m", "ruff"]
    checked = subprocess.run(
        [*ruff, "check", "--isolated", "--select", "E4,E7,E9,F,I", "."], cwd=tmp_path, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout
    formatted = subprocess.run(
        [*ruff, "format", "--isolated", "--diff", "."], cwd=tmp_path, capture_output=True, text=True
    )
    assert formatted.returncode == 0, formatted.stdout
    wide = [line for p in tmp_path.glob("*.py") for line in p.read_text().splitlines() if len(line) > 88]
    assert not wide


HOSTILE = ["class", "lambda_", "torch", "Tensor", "print", "dtype", "value", "_times", "inf", "self", "γ", "__import__"]


def hostile(registry: Registry) -> tuple[str, Source]:
    """A loss whose inputs have the names of everything that code could confuse them with."""
    nasty = '"""; import os  # \\u202e \\x07\r # noqa'
    source = Source("x", f"return {nasty} + class + print")
    d = Draft(registry, "hostile", ("N",), ("N",))
    total = d.b.ref(d.b.const(0))
    d.b.origin = Span(0, len(source.text))
    for name in HOSTILE:
        total = total + d.f.exp(d.real(name, "N"))
    return text(emit(plan(derive(d.graph(rows=total), registry), registry), source, registry)), source


def test_names_and_text_of_a_file_stay_out_of_the_code(registry: Registry) -> None:
    code, source = hostile(registry)
    tree = ast.parse(code)
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    arguments = {a.arg for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) for a in n.args.args}
    helpers = set(helper_texts())
    assert not arguments & ({*dir(builtins), *keyword.kwlist, "torch", "Tensor"} | helpers)
    assert "os" not in names
    assert not any(isinstance(n, ast.Import) and n.names[0].name != "torch" for n in ast.walk(tree))
    assert all(line.isprintable() for line in code.splitlines())
    assert "# return" in code
    compile(code, "hostile", "exec")
    assert source.text not in code


def test_identifiers_are_distinct_words() -> None:
    table = Identifiers()
    found = [table.new(w) for w in ("m", "m", "if", "1x", "@rows", "a.b", "", "x" * 100, "x" * 100, "len")]
    assert found == [*("m", "m_1", "if_", "x1x", "rows", "a_b", "x", "x" * 24, "x" * 24 + "_1", "len_")]
    assert ascii_name("Ωmega") == "Omegamega"


@pytest.mark.parametrize("name", ["cross_entropy", "focal", "brier", "class_weights", "dice", "tokens"])
def test_one_graph_for_all_sizes(name: str, registry: Registry) -> None:
    """Under torch.compile with fullgraph: no Python branch on data, no graph a value of a parameter."""
    j = joint(name, registry)
    p = plan(j, registry)
    functions = module(emit(p, None, registry))
    for program in p.programs[:2]:
        kind = program.name.rsplit(".")[-1]
        torch._dynamo.reset()
        graphs = torch._dynamo.testing.CompileCounter()
        optimised = torch.compile(getattr(functions, kind), backend=graphs, fullgraph=True, dynamic=True)
        given = arguments(program, by_buffer(arrays(j.graph, 3)))
        for scale in (1, 2, 3):
            called = [
                torch.cat([a] * scale) if a.ndim and b.axes[0] in "NB" else a
                for a, b in zip(given, program.buffers, strict=False)
            ]
            called = [
                a * (1 + scale / 10) if a.ndim == 0 and a.is_floating_point() and b.dtype == "real" else a
                for a, b in zip(called, program.buffers, strict=False)
            ]
            for found, expected in zip(optimised(*called), getattr(functions, kind)(*called), strict=True):
                assert torch.equal(found, expected)
        assert graphs.frame_count == 1


@pytest.mark.parametrize("name", [n for n in GRAPHS if n != "ranked"])
def test_empty_batches_single_classes_and_fake_tensors(name: str, registry: Registry) -> None:
    j = joint(name, registry)
    p = plan(j, registry)
    functions = module(emit(p, None, registry))
    for program in (q for q in p.programs if not q.name.endswith(".both")):
        function = getattr(functions, program.name.rsplit(".")[-1])
        given = arguments(program, by_buffer(arrays(j.graph, 3)))
        buffers = [b for b in program.buffers if b.role in ("in", "param")]
        outs = [b for b in program.buffers if b.role == "out"]
        for size in ({"N": 0, "B": 0}, {"C": 1}, {"N": 1, "B": 1}):
            if name in ("margin", "masked") and "C" in size:
                continue  # a maximum over the other classes, of which there are none
            called = []
            for a, b in zip(given, buffers, strict=True):
                for i, axis in enumerate(b.axes):
                    a = a.narrow(i, 0, size.get(axis.rstrip("'"), a.shape[i]))
                called.append(
                    a.clamp(max=0) if "C" in size and not a.is_floating_point() and a.dtype != torch.bool else a
                )
            sizes = {
                axis: n for a, b in zip(called, buffers, strict=True) for axis, n in zip(b.axes, a.shape, strict=True)
            }
            results = function(*called)
            for b, found in zip(outs, results, strict=True):
                assert found.shape == tuple(sizes[x] for x in b.axes), (program.name, size)
            meta = function(*(a.to("meta") for a in called))
            assert [(m.shape, m.dtype) for m in meta] == [(r.shape, r.dtype) for r in results]
