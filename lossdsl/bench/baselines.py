"""What backends are compared with: the loss as torch has it, and floors that nothing can be quicker than."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from lossdsl.bench.candidates import IGNORED, Run, by_autograd
from lossdsl.bench.handwritten import NoWordError, handwritten
from lossdsl.ir.lower import lower
from lossdsl.pipeline import Built, build, split_heads
from lossdsl.registry import Registry
from lossdsl.source.text import Source

TILE = 384  # rows


def by_hand(
    whole: Built,
    registry: Registry,
    places: Sequence[int],
    sizes: Mapping[str, int],
    dtype: torch.dtype,
    compiled: bool,
) -> Run:
    """The loss as one writes it by hand, its gradient by autograd; `compiled` by `torch.compile`."""
    params = {p.name: p.default for p in whole.checked.params if not p.modes}
    try:
        graph = lower(whole.checked, registry)
        names = [i.name for i in whole.checked.inputs]
        module = handwritten(graph, names, params, sizes, reduced=whole.checked.kind != "map")
    except NoWordError:
        return _composed(whole, places, compiled)
    module = module.to(dtype)
    function = torch.compile(module, dynamic=False) if compiled else module

    def mean(*tensors: Tensor) -> Tensor:  # halves as torch's autocast has losses
        value: Tensor = function(*(x.to(dtype) if x.is_floating_point() else x for x in tensors))
        return value

    return by_autograd(mean, places)


def _composed(whole: Built, places: Sequence[int], compiled: bool) -> Run:
    """The value by the text of the torch backend."""
    program = next(k.program for k in whole.kernels if k.name == "value")
    function = whole.artifact.load().value
    names = [i.name for i in whole.checked.inputs]
    params = {p.name: torch.tensor(p.default, dtype=torch.float64) for p in whole.checked.params if not p.modes}
    params["ignore_index"] = torch.tensor(IGNORED, dtype=torch.float64)
    order = [b.name for b in program.buffers if b.role in ("in", "param")]
    outs = [b.name for b in program.buffers if b.role == "out"]

    def mean(*tensors: Tensor) -> Tensor:
        given = dict(zip(names, tensors, strict=True))
        found = dict(zip(outs, function(*(given[n] if n in given else params[n] for n in order)), strict=True))
        rows: Tensor = found["rows"]
        return rows.sum() / (found["weight"].sum() if "weight" in found else max(rows.numel(), 1))

    return by_autograd(torch.compile(mean, dynamic=False) if compiled else mean, places)


def plain(
    source: Source, registry: Registry, backend: str, device: str, headed: Built, modes: Mapping[str, str]
) -> Callable[..., Tensor]:
    """A loss without its heads, whose products are whole before it sees them."""
    built = build(source, registry, backend, device=device, modes=split_heads(modes)[0])
    loss = getattr(built.artifact.load(), str(built.artifact.manifest["class"]))()
    names = [i.name for i in headed.checked.inputs]
    heads = {h.logits: h for h in headed.heads}
    wanted = [i.name for i in built.checked.inputs]

    def run(*tensors: Tensor) -> Tensor:
        given = dict(zip(names, tensors, strict=True))
        for name, h in heads.items():
            given[name] = torch.nn.functional.linear(given[h.hidden], given[h.weight], given[h.bias])
        value: Tensor = loss(*(given[name] for name in wanted))
        return value

    return run


def floors(tensors: Sequence[Tensor], places: Sequence[int]) -> dict[str, Run]:
    """Passes over the tensors that get a gradient, by the names that the package has for them."""
    plain = [tensors[i].detach() for i in places]
    there = [x.clone() for x in plain]
    first = max(plain, key=lambda x: x.numel())
    out = torch.empty_like(first)
    return {
        "clone": lambda given: [given[i].detach().clone() for i in places],
        "copy": lambda given: [y.copy_(given[i].detach()) for y, i in zip(there, places, strict=True)],
        "exp": lambda given: torch.exp(first, out=out),
    }


def products(built: Built) -> Run:
    """The matrix products of value and gradient of each head: logits, and gradients of hidden states and weight."""
    names = [i.name for i in built.checked.inputs]

    def run(tensors: Sequence[Tensor]) -> list[Tensor]:
        kept = []
        for head in built.heads:
            x, w = (tensors[names.index(n)].detach() for n in (head.hidden, head.weight))
            x = x.reshape(-1, x.shape[-1])
            z = x.new_empty(min(TILE, len(x)), len(w))
            dx, dw = torch.empty_like(x), torch.zeros_like(w)
            for start in range(0, len(x), TILE):
                part = x[start : start + TILE]
                tile = torch.mm(part, w.t(), out=z[: len(part)])
                torch.mm(tile, w, out=dx[start : start + TILE])
                dw.addmm_(tile.t(), part)
            kept += [dx, dw]
        return kept

    return run
