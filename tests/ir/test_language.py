"""What files mean: their Graphs against the equations computed by hand, with and without rows that are left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.ir.compiled import checked, gradients, reduce_rows, text_of, values
from tests.ir.formulas import CASES, Array, Case

NAMES = sorted(CASES)


def differences(f: Callable[..., float], given: Mapping[str, Any], name: str, h: float = 1e-5) -> Array:
    """Central differences of fourth order of f in one of its arguments."""
    x = np.asarray(given[name], dtype=float)
    result = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        at = []
        for k in (-2, -1, 1, 2):
            moved = x.copy()
            moved[i] += k * h
            at.append(f(**{**given, name: moved}))
        result[i] = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h)
    return result


def slopes(text: str, given: Mapping[str, Any]) -> dict[str, Array]:
    """The gradients of the loss under the file's word for the reduction."""
    out = values(text, given)
    rows = np.asarray(out["rows"], dtype=float)
    total = out["weight"].sum() if "weight" in out else rows.size
    share = 1.0 if checked(text).reduction in (None, "sum") else 1 / total
    return gradients(text, given, {"@rows": np.full(rows.shape, share), "@weight": np.zeros(rows.shape)})


def conditioned(text: str, axis: str) -> str:
    """The text with an input that says which rows exist."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("input"))
    last = max(i for i, line in enumerate(lines) if line.startswith(("input", "param", "axis", "batch")))
    lines.insert(last + 1, f"input keep_row[{axis}]: bool\naxis {axis} where keep_row")
    if not any(line.startswith("batch") for line in lines):
        lines.insert(first, f"batch {axis}")
    return "\n".join(lines) + "\n"


def without(case: Case, given: Mapping[str, Any], keep: Array) -> dict[str, Any]:
    """The inputs with rows removed."""
    result = dict(given)
    for name, dims in case.batch.items():
        for d in dims:
            result[name] = np.compress(keep, result[name], axis=d)
    return result


def spoilt(case: Case, given: Mapping[str, Any], keep: Array, fill: float) -> dict[str, Any]:
    """The inputs with what lies in those rows overwritten."""
    result = {k: np.array(v) for k, v in given.items()}
    for name, dims in case.batch.items():
        x = result[name]
        for d in dims:
            index = tuple(~keep if e == d else slice(None) for e in range(x.ndim))
            x[index] = fill if x.dtype.kind == "f" else 0
    return result


@pytest.mark.parametrize("name", NAMES)
def test_value_and_gradient(name: str) -> None:
    case, text = CASES[name], text_of(name)
    given = case.draw(np.random.default_rng(1)) | dict(case.params)
    np.testing.assert_allclose(reduce_rows(text, values(text, given)), case.formula(**given), rtol=1e-12)
    found = slopes(text, given)
    for leaf, gradient in found.items():
        if leaf in given:
            want = differences(case.slope or case.formula, given, leaf)
            np.testing.assert_allclose(gradient, want, atol=2e-8, rtol=1e-7, err_msg=leaf)
    real = {k for k, v in given.items() if np.asarray(v).dtype.kind == "f"} - set(case.fixed)
    assert real <= set(found)


@pytest.mark.parametrize("fill", [0.0, np.nan, np.inf])
@pytest.mark.parametrize("name", NAMES)
def test_rows_that_do_not_exist_are_as_if_removed(name: str, fill: float) -> None:
    """Value and gradient are those of the other rows alone, whatever lies in these."""
    case = CASES[name]
    text = conditioned(text_of(name), case.axis)
    given = case.draw(np.random.default_rng(2))
    keep = np.array([True, True, False, True, True, False])
    if "y" in given:
        given["y"] = np.array([0, 1, 2, 1, 0, 2])
    left = without(case, given, keep) | dict(case.params)
    given = spoilt(case, given, keep, fill) | dict(case.params)
    params = {"keep_row": keep}
    out = values(text, given | params)
    np.testing.assert_allclose(reduce_rows(text, out), case.formula(**left), rtol=1e-12)
    plain = slopes(text_of(name), left)
    for leaf, gradient in slopes(text, given | params).items():
        if leaf in case.batch:
            kept = gradient
            for d in case.batch[leaf]:
                gone = np.compress(~keep, gradient, axis=d)
                np.testing.assert_array_equal(gone, np.zeros_like(gone), err_msg=leaf)
                kept = np.compress(keep, kept, axis=d)
            np.testing.assert_allclose(kept, plain[leaf], rtol=1e-9, atol=1e-12, err_msg=leaf)
        else:
            np.testing.assert_allclose(gradient, plain[leaf], rtol=1e-9, atol=1e-12, err_msg=leaf)


@pytest.mark.parametrize("fill", [0.0, np.nan])
@pytest.mark.parametrize("name", [n for n in NAMES if "target" in CASES[n].batch])
def test_ignored_targets_are_as_if_removed(name: str, fill: float) -> None:
    case, text = CASES[name], text_of(name)
    given = case.draw(np.random.default_rng(3))
    keep = np.array([True, False, True, True, False, True])
    left = without(case, given, keep) | dict(case.params)
    given = spoilt(case, given, keep, fill) | dict(case.params)
    given["target"][~keep] = -100
    np.testing.assert_allclose(reduce_rows(text, values(text, given)), case.formula(**left), rtol=1e-12)
    plain = slopes(text, left)
    for leaf, gradient in slopes(text, given).items():
        if leaf in case.batch:
            np.testing.assert_array_equal(gradient[~keep], np.zeros_like(gradient[~keep]))
            gradient = gradient[keep]
        np.testing.assert_allclose(gradient, plain[leaf], rtol=1e-9, atol=1e-12, err_msg=leaf)
