"""Each record of a public bug report, on every backend of this machine."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

import lossdsl
from tests.reports.records import ELSEWHERE, RECORDS, Record

FULL = os.environ.get("LOSSDSL_FULL_TESTS") == "1"
ULPS = {torch.float64: 8 * 2.0**-52, torch.float32: 4 * 2.0**-23}


def tensor(x: Any, dtype: torch.dtype) -> Tensor:
    """Floats in the record's type, whole numbers and truths in their own."""
    return torch.tensor(x, dtype=dtype) if _kind(x) is float else torch.tensor(x)


def _kind(x: Any) -> type:
    return _kind(x[0]) if isinstance(x, list) else type(x)


def differences(record: Record, backend: str) -> list[str]:
    """What is not as the record says."""
    dtype = getattr(torch, record.dtype)
    target: Any = lossdsl.loads(record.loss) if "\n" in record.loss else record.loss
    loss_fn = lossdsl.loss(target, backend=backend, **record.options)
    inputs = [tensor(x, dtype) for x in record.given]
    wanted = sorted({*record.slopes, *([0] if record.bend is not None else [])})
    for k in wanted:
        inputs[k].requires_grad_()
    value = loss_fn(*inputs)
    found = [_differ("the value", value.detach(), record.value, record)]
    if wanted:
        leaves = [inputs[k] for k in wanted]
        slopes = dict(
            zip(wanted, torch.autograd.grad(value.sum(), leaves, create_graph=bool(record.bend)), strict=True)
        )
        found += [
            _differ(f"the gradient of input {k}", slopes[k].detach(), v, record) for k, v in record.slopes.items()
        ]
        if record.bend is not None:
            (bend,) = torch.autograd.grad(slopes[0].sum(), inputs[0])
            found.append(_differ("the second derivative", bend, record.bend, record))
    return [f for f in found if f]


def _differ(what: str, x: Tensor, wanted: Any, record: Record) -> str:
    y = torch.tensor(wanted, dtype=torch.float64)
    if x.shape != y.shape:
        return f"{what} has the shape {tuple(x.shape)}, not {tuple(y.shape)}"
    room = y.abs() * max(record.rtol, ULPS[x.dtype]) + record.atol
    same = (x.double() == y) | (x.isnan() & y.isnan()) | ((x.double() - y).abs() <= room)
    return "" if bool(same.all()) else f"{what} is {x.tolist()}, not {wanted}"


@pytest.mark.parametrize("record", RECORDS, ids=[f"{i}-{r.report}" for i, r in enumerate(RECORDS)])
def test_a_report_on_torch(record: Record) -> None:
    assert differences(record, "torch") == []


# One of each kind here, which a C++ compiler takes a second each for; all of them in `make test-all`.
DRAWN = RECORDS if FULL else [RECORDS[i] for i in (2, 10, 30)]


@pytest.mark.parametrize("record", DRAWN, ids=[f"{RECORDS.index(r)}-{r.report}" for r in DRAWN])
def test_a_report_on_cpu(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOSSDSL_DISABLE", raising=False)
    if "cpu" not in lossdsl.backends():
        pytest.skip("the C++ backend is not installed")
    assert differences(record, "cpu") == []


def test_a_wrong_number_is_noticed() -> None:
    """Of each field of a record."""
    (record,) = (r for r in RECORDS if r.report == "sympy/sympy#11306")
    for wrong in (
        replace(record, value=[0.0, -1.3466]),
        replace(record, slopes={0: [0.0, -1.693148]}),
        replace(record, bend=[0.0, 2.001]),
        replace(record, value=0.0),
    ):
        assert len(differences(wrong, "torch")) == 1


@pytest.mark.parametrize("where", ELSEWHERE.values())
def test_the_others_are_where_they_are_said_to_be(where: str) -> None:
    file, _, name = where.partition("::")
    assert callable(getattr(import_module(f"tests.reports.{file}"), name))
