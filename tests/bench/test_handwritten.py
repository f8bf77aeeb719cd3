"""A loss as one writes it by hand is the loss, to float64's digits, and reads as one would write it."""

from __future__ import annotations

import pytest
import torch

from lossdsl import bench
from lossdsl.bench.baselines import by_hand
from lossdsl.bench.candidates import by_autograd, by_module
from lossdsl.bench.comparing import difference, results
from lossdsl.bench.handwritten import NoWordError, handwritten
from lossdsl.ir.lower import lower
from lossdsl.pipeline import build, front
from lossdsl.plugins import discover
from lossdsl.source.text import Source

REGISTRY = discover()
LOSSES = ["adaptive_temperature_ce", "focal", "jsd", "multi_margin", "nce_rce", "softpick", "weighted_cross_entropy"]


def source(full: str) -> Source:
    file = REGISTRY.losses[full]
    return Source(file.path, file.read())


def written(full: str, sizes: dict[str, int] | None = None) -> torch.fx.GraphModule:
    checked = front(source(full), REGISTRY).checked
    extents = sizes or {a.name.rstrip("'"): 6 if a.batch else 9 for a in checked.axes}
    params = {p.name: p.default for p in checked.params if not p.modes}
    return handwritten(lower(checked, REGISTRY), [i.name for i in checked.inputs], params, extents)


@pytest.mark.parametrize("full", [f"std/{name}" for name in LOSSES])
def test_it_is_the_loss(full: str) -> None:
    module = written(full).to(torch.float64)
    built = build(source(full), REGISTRY, "torch")
    sizes = {a.name.rstrip("'"): 6 if a.batch else 9 for a in built.checked.axes}
    tensors = bench.draw(built.checked, sizes, torch.float64)
    places = [i for i, x in enumerate(tensors) if x.requires_grad]
    wanted = results(by_module(built, places)(tensors))
    found = results(by_autograd(module, places)(tensors))
    assert difference(found, wanted, 1e-7) == ""  # terms cancel: it saves no digits


def test_it_reads_as_one_would_write_it() -> None:
    code = written("std/cross_entropy", {"N": 64, "C": 50}).code
    assert [line.split(";")[0].strip() for line in code.strip().splitlines()[1:]] == [
        "reshape = target.reshape([64, 1])",
        "log_softmax = torch.log_softmax(logits, 1)",
        "gather = log_softmax.gather(1, reshape)",
        "neg = -gather",
        "mean = neg.mean()",
        "return mean",
    ]


def test_islands_have_no_word() -> None:  # a root's unknown
    with pytest.raises(NoWordError, match=r"^var$"):
        written("std/sparsemax_loss")


def test_a_map_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ours is: a mean that `torch.compile` fused into it would spare the map itself, which is what is asked for."""
    built = build(source("std/softpick"), REGISTRY, "torch")
    sizes = {a.name: 6 if a.batch else 9 for a in built.checked.axes}
    graph = lower(built.checked, REGISTRY)
    module = handwritten(graph, ["logits"], {"eps": 1e-8}, sizes, reduced=False).to(torch.float64)
    tensors = bench.draw(built.checked, sizes, torch.float64)
    assert module(*tensors).shape == (6, 9)
    found, wanted = (results(run(tensors)) for run in (by_autograd(module, [0]), by_module(built, [0])))
    assert difference(found, wanted, 1e-7) == ""
    compiled: list[torch.nn.Module] = []
    monkeypatch.setattr(torch, "compile", lambda f, dynamic: compiled.append(f) or f)
    by_hand(built, REGISTRY, [0], sizes, torch.float64, compiled=True)
    assert compiled[0](*tensors).shape == (6, 9)
