"""The standard losses, built and called as a user does, against values that other libraries and 50 digits gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import lossdsl

FOLDER = Path(__file__).parents[1] / "golden"
DTYPES = {"float64": torch.float64, "float32": torch.float32, "int64": torch.int64, "bool": torch.bool}
# Files whose loss, inputs or params have other names here.
LOSSES = {
    "cross_entropy_exact": "cross_entropy",
    "focal_ce": "focal",
    "forward_kl_distill": "kd_kl",
    "kd_kl_exact": "kd_kl",
    "weighted_ce": "weighted_cross_entropy",
}
INPUTS = {
    "labels": "target",
    "student_logits": "student",
    "teacher_logits": "teacher",
    "weight": "class_weight",
}
PARAMS = {"T": "t", "temperature": "t", "clamp_p": "floor_p"}
ALL = sorted(path.stem for path in FOLDER.glob("*.json"))


def tensor(record: Any) -> Tensor:
    if not isinstance(record, dict):
        return torch.tensor(record, dtype=torch.float64)
    data = [float(x) if isinstance(x, str) else x for x in record["data"]]
    return torch.tensor(data, dtype=DTYPES[record["dtype"]]).reshape(record["shape"])


def target(stem: str) -> str:
    name = stem.partition("__")[0]
    return LOSSES.get(name, name)


def params_of(stem: str, params: dict[str, Any]) -> dict[str, Any]:
    names = {p.name for p in lossdsl.load(target(stem)).params}
    given = {PARAMS.get(k, k): v for k, v in params.items()}
    if "balance" in given:  # the convex combination that another library takes
        balance = given.pop("balance")
        given |= {"alpha": balance, "beta": 1 - balance}
    if "A" in given:
        given["a"] = -abs(given.pop("A"))
    if "floor_p" not in names:
        given.pop("floor_p", None)
    if stem.startswith("kd_kl_exact"):
        given["t"] = 1.0
    return given


@pytest.mark.parametrize("stem", ALL)
def test_value_and_gradient(stem: str) -> None:
    record = json.loads((FOLDER / f"{stem}.json").read_text())
    loss_fn = lossdsl.loss(target(stem), backend="torch", **params_of(stem, record["params"]))
    renamed = INPUTS | ({"logits": "student"} if target(stem) == "kd_kl" else {})
    inputs = {renamed.get(k, k): tensor(v) for k, v in record["inputs"].items()}
    if target(stem) == "kd_kl":
        inputs.pop("target", None)  # the ignored labels of a trainer
    outputs = record["outputs"]
    rows = "loss_rows" in outputs
    grads = {}
    for key, found in outputs.items():
        if key.startswith("grad_"):
            name = key.removeprefix("grad_").removesuffix("_rows")
            grads[renamed.get(name, name)] = tensor(found)
    for name in grads:
        inputs[name].requires_grad_()
    value = tensor(outputs["loss_rows" if rows else "loss"])
    word = record["reduction"].split(" ")[0]
    word = word if word in ("none", "sum") else "mean"
    word = "none" if rows else "sum" if word == "none" and not value.dim() else word
    got = loss_fn(**inputs, reduction=word)
    torch.testing.assert_close(got.detach(), value, rtol=1e-9, atol=0 if rows else 1e-15)
    found = torch.autograd.grad(got.sum(), [inputs[name] for name in grads])
    for name, grad in zip(grads, found, strict=True):
        tiny = 1e-60 if rows else 1e-14
        torch.testing.assert_close(grad, grads[name], rtol=1e-9, atol=tiny, msg=lambda m, name=name: f"{name}: {m}")
