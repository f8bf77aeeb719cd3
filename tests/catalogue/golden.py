"""How a loss is held against a golden file: value and every gradient, in float64.

A golden file holds inputs, parameters and outputs of public code or of 50-digit arithmetic. A row of a pack's table
says which loss it belongs to, and what the file calls by another name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import lossdsl
from lossdsl.runtime.module import Loss

FOLDER = Path(__file__).parents[1] / "golden"
How = Callable[[Loss, dict[str, Tensor]], Tensor]


def plain(loss: Loss, given: dict[str, Tensor]) -> Tensor:
    """The call as it stands: every input of the file by name."""
    value = loss(**given)
    assert isinstance(value, Tensor)
    return value


@dataclass(frozen=True)
class Row:
    """What connects a golden file and a loss.

    `names`: the file's name of an input or parameter → the loss's; `params`: what the file leaves out or says in
    another way; `leaves`: what the file has and the loss has not; `inputs`: parameters of the file that the loss takes
    as inputs; `rtol`: of the largest entry of an array, 1e-9 unless the public code has an epsilon or a constant of
    its own that the equation has not; `reduction`: "" is the loss's own word, or "none" where the file holds rows;
    `how`: the call, where it is more than passing the inputs; `aux`: an output of the file → that of the loss;
    `differs`: where the file's code is not the equation of the paper, in words.
    """

    loss: str
    names: dict[str, str] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    leaves: tuple[str, ...] = ()
    rtol: float = 1e-9
    reduction: str = ""
    inputs: tuple[str, ...] = ()
    how: How = plain
    aux: dict[str, str] = field(default_factory=dict)
    differs: str = ""


# --- calls that are more than passing the inputs ----------------------------------------------------------------------


def dot(weights: str = "w") -> How:
    """For a map: the sum of its values times an input of the file."""
    return lambda loss, given: (given[weights] * plain(loss, {k: v for k, v in given.items() if k != weights})).sum()


def turned(**axes: tuple[int, ...]) -> How:
    """Inputs with their dimensions in another order than the file's."""
    return lambda loss, given: plain(loss, {k: v.permute(axes[k]) if k in axes else v for k, v in given.items()})


def as_bool(*names: str) -> How:
    """Inputs that the file holds as numbers 0 and 1, and the loss takes as bool."""
    return lambda loss, given: plain(loss, {k: v > 0.5 if k in names else v for k, v in given.items()})


def changed(how: How = plain, **functions: Callable[[Tensor], Tensor]) -> How:
    """Inputs put through a function each."""

    def call(loss: Loss, given: dict[str, Tensor]) -> Tensor:
        return how(loss, {k: functions[k](v) if k in functions else v for k, v in given.items()})

    return call


def scalar(x: Tensor) -> Tensor:
    """A number that the file holds as a vector of one."""
    return x.reshape(())


def times(factor: float) -> How:
    """The file's value is a multiple of the loss."""
    return lambda loss, given: factor * plain(loss, given)


# --- the comparison ---------------------------------------------------------------------------------------------------


def number(value: Any) -> Any:
    """A parameter as the file holds it; JSON has no infinities, so they are words there."""
    return float(value) if value in ("inf", "-inf") else value


def tensor(value: Any) -> Tensor:
    if not isinstance(value, dict):
        return torch.tensor(number(value), dtype=torch.float64)
    data = [number(x) for x in value["data"]]
    return torch.tensor(data, dtype=getattr(torch, value["dtype"])).reshape(value["shape"])


def close(found: Tensor, expected: Tensor, rtol: float, what: str) -> None:
    assert found.shape == expected.shape, f"{what} has shape {tuple(found.shape)}, not {tuple(expected.shape)}"
    error = (found - expected).abs().max() if expected.numel() else torch.tensor(0.0)
    scale = expected.abs().max() if expected.numel() else torch.tensor(0.0)
    assert error <= rtol * scale, f"{what} is off by {error:.3g} of {scale:.3g}"


def verify(stem: str, row: Row, backend: str = "torch") -> None:
    """Evaluate the row's loss at the golden file's inputs; AssertionError says what differs and by how much."""
    golden = json.loads((FOLDER / f"{stem}.json").read_text())
    outputs = golden["outputs"]

    def name(of_file: str) -> str:
        return row.names.get(of_file, of_file)

    params = {name(k): number(v) for k, v in golden["params"].items() if k not in row.leaves and k not in row.inputs}
    given = {name(k): tensor(v) for k, v in golden["inputs"].items() if k not in row.leaves}
    given |= {name(k): tensor(golden["params"][k]) for k in row.inputs}
    by_row = row.reduction == "none" or (not row.reduction and golden["reduction"].startswith("none"))
    word = {"reduction": "none" if by_row else row.reduction} if by_row or row.reduction else {}
    loss = lossdsl.loss(row.loss, backend=backend, **params | row.params, **word)
    gradients = {k.removeprefix("grad_").removesuffix("_rows"): v for k, v in outputs.items() if k.startswith("grad_")}
    gradients = {k: v for k, v in gradients.items() if f"grad_{k}" not in row.aux}
    if row.aux:
        _, named = loss(**given, aux=True)
        for of_file, output in row.aux.items():
            close(named[output].double(), tensor(outputs[of_file]).double(), row.rtol, f"the output {output}")
    wanted = [given[name(k)].requires_grad_() for k in gradients]
    value = row.how(loss, given)
    expected = outputs["loss_rows"] if by_row and "loss_rows" in outputs else outputs["loss"]
    if value.dim() == 0 and isinstance(expected, dict):
        expected = {**expected, "data": [sum(expected["data"])], "shape": []}  # the file's values have no rows of ours
    close(value.detach(), tensor(expected), row.rtol, "the loss")
    if not wanted:
        return
    found = torch.autograd.grad(value.sum(), wanted, allow_unused=True, materialize_grads=True)
    for of_file, gradient, should in zip(gradients, found, gradients.values(), strict=True):
        close(gradient, tensor(should), row.rtol, f"the gradient of {of_file}")
