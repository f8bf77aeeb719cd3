"""A row of `examples/migrating/` run: the call of the other library and ours on the same tensors, value and gradient.

`python -m tests.migrating.harness kornia` runs a table against the library itself, where it is installed.
"""

from __future__ import annotations

import importlib
import math
import re
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

import lossdsl
from lossdsl.packs.migrating import Row, read_rows

PLACES = {  # what a library's names are looked up in
    "torch": ("torch",),
    "timm": ("timm.loss",),
    "kornia": ("kornia.losses",),
    "monai": ("monai.losses",),
    "segmentation_models_pytorch": (
        "segmentation_models_pytorch.losses",
        "segmentation_models_pytorch.losses._functional",
    ),
    "entmax": ("entmax",),
    "pytorch_metric_learning": (
        "pytorch_metric_learning.losses",
        "pytorch_metric_learning.miners",
        "pytorch_metric_learning.reducers",
    ),
}


HELD: dict[str, Tensor] = {}  # what a loss of theirs keeps of the last tensors


def tensors() -> dict[str, Tensor]:
    """The tensors that the calls name, in float64; real scores and embeddings want gradients."""
    draw = torch.Generator().manual_seed(7)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    def whole(high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, generator=draw)

    wanted = {
        "logits": 2 * normal(6, 4),
        "student": 2 * normal(6, 4),
        "maps": normal(2, 4, 3, 5),
        "score": 2 * normal(6, 4),
        "mask_score": 2 * normal(2, 1, 3, 5),
        "x": normal(8, 5),
        "w": normal(4, 5),
        "anchor": normal(6, 5),
        "positive": normal(6, 5),
        "negative": normal(6, 5),
        "chosen": -2 - normal(6).abs(),
        "rejected": -2 - normal(6).abs(),
        "logp": -normal(3, 5).abs(),
    }
    given = {
        "target": whole(4, 6),
        "soft_target": normal(6, 4).softmax(1),
        "relevance": whole(3, 6, 4).double(),
        "teacher": 2 * normal(6, 4),
        "class_weight": torch.tensor([0.5, 1.0, 2.0, 1.5], dtype=torch.float64),
        "labels": torch.arange(30).reshape(2, 3, 5) % 4,
        "label": whole(2, 6, 4).double(),
        "mask": whole(2, 2, 1, 3, 5).double(),
        "y": torch.tensor([0, 1, 2, 3, 0, 1, 2, 3]),
        "ref_chosen": -2 - normal(6).abs(),
        "ref_rejected": -2 - normal(6).abs(),
        "len_chosen": torch.tensor([3.0, 5, 4, 6, 2, 3], dtype=torch.float64),
        "len_rejected": torch.tensor([4.0, 2, 4, 3, 5, 6], dtype=torch.float64),
        "desirable": torch.tensor([True, False, True, True, False, False]),
        "kl": torch.tensor(0.3, dtype=torch.float64),
        "old": -normal(3, 5).abs(),
        "ref": -normal(3, 5).abs(),
        "adv": torch.tensor([1.0, -0.5, 0.7], dtype=torch.float64),
    }
    tokens = torch.arange(5) < torch.tensor([[5], [3], [4]])
    return {name: value.requires_grad_() for name, value in wanted.items()} | given | {"there": tokens}


def names(row: Row) -> dict[str, Any]:
    """What else a call may name."""
    return {
        "loss": lossdsl.loss,
        "radians": math.radians,
        "stack": torch.stack,
        "vmap": torch.vmap,
        "tensor": torch.tensor,
    }


def agreement(row: Row) -> float:
    """How far a row says that the two agree, relative to the largest entry."""
    said = re.match(r"([0-9.]+e-[0-9]+):", row.note)
    return float(said[1]) if said else 1e-10


def compare(row: Row, theirs: Mapping[str, Any]) -> None:
    """Evaluate both calls; AssertionError says where value or a gradient differ. `theirs` are the library's names."""
    at = tensors()
    HELD.update(at)
    if row.library == "trl":
        at["mask"] = at["there"]
    ours = eval(row.ours, names(row) | at)
    wanted = eval(row.theirs, names(row) | dict(theirs) | at)
    bound = agreement(row)
    close(ours, wanted, bound, "the value")
    leaves = {name: value for name, value in at.items() if value.requires_grad and re.search(rf"\b{name}\b", row.ours)}
    assert leaves, "nothing is compared"
    found = torch.autograd.grad(_number(ours), list(leaves.values()), allow_unused=True, materialize_grads=True)
    expected = torch.autograd.grad(_number(wanted), list(leaves.values()), allow_unused=True, materialize_grads=True)
    for name, a, b in zip(leaves, found, expected, strict=True):
        close(a, b, bound, f"the gradient of {name}")


def _number(value: Tensor) -> Tensor:
    """One number whose gradient tells the entries apart."""
    steps = torch.arange(1, value.numel() + 1, dtype=torch.float64)
    return (value.reshape(-1) * steps).sum()


def close(found: Tensor, wanted: Tensor, bound: float, what: str) -> None:
    found, wanted = found.detach(), torch.as_tensor(wanted).detach().double()
    assert found.shape == wanted.shape, f"{what} has shape {tuple(found.shape)}, not {tuple(wanted.shape)}"
    error, scale = (found - wanted).abs().max(), wanted.abs().max()
    assert scale > 0, f"{what} is 0 and says nothing"
    assert error <= bound * scale, f"{what} is off by {error:.2g} of {scale:.2g}"


def _with_weights(cls: Any) -> Any:
    """A class whose losses take `w` for the weights or proxies that they hold."""

    def make(*args: Any, **options: Any) -> Any:
        loss = cls(*args, **options).double()
        held = [name for name, _ in loss.named_parameters(recurse=False)]

        def call(*given: Any, **named: Any) -> Any:
            for name in held:
                del loss._parameters[name]
                setattr(loss, name, HELD["w"].mT if name == "W" else HELD["w"])
            return loss(*given, **named)

        return call if held else loss

    return make


def main() -> None:
    for library in sys.argv[1:]:
        theirs: dict[str, Any] = {}
        for place in PLACES[library]:
            theirs |= vars(importlib.import_module(place))
        if library == "torch":
            theirs |= {"nn": torch.nn, "F": torch.nn.functional}
        if library == "pytorch_metric_learning":
            theirs |= {name: _with_weights(cls) for name, cls in theirs.items() if name.endswith("Loss")}
        for row in read_rows():
            if row.library == library:
                try:
                    compare(row, theirs)
                    print("ok  ", row.theirs)
                except Exception as error:
                    print("BAD ", row.theirs, "|", row.ours, "|", type(error).__name__, error)


if __name__ == "__main__":
    main()
