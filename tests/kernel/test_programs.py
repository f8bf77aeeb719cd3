"""The hand-written programs against float64 numpy written independently, finite differences and 50 digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lossdsl.plan.interpret import run
from lossdsl.registry import Registry
from tests.kernel.programs import program

Array = np.ndarray[Any, Any]
IGNORE = -100


def log_softmax(z: Array) -> Array:
    z = z - z.max(axis=1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=1, keepdims=True))


def labels(rng: np.random.Generator, n: int, c: int) -> Array:
    y = rng.integers(0, c, n)
    y[1] = IGNORE
    return y


def differences(f: Callable[[Array], float], x: Array, h: float = 1e-6) -> Array:
    """Central differences of a scalar function."""
    result = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[i] = h
        result[i] = (f(x + step) - f(x - step)) / (2 * h)
    return result


def cross_entropy(z: Array, y: Array) -> Array:
    safe = np.where(y == IGNORE, 0, y)
    return np.where(y == IGNORE, 0.0, -log_softmax(z)[np.arange(len(y)), safe])


def test_cross_entropy_value(registry: Registry) -> None:
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(6, 5)) * 4, labels(rng, 6, 5)
    z[1] = np.nan  # ignored
    out = run(program("cross_entropy_value"), registry, {"logits": z, "target": y}, {"ignore_index": IGNORE})
    np.testing.assert_allclose(out["rows"], cross_entropy(z, y), rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(out["weight"], y != IGNORE)


def test_cross_entropy_gradient(registry: Registry) -> None:
    rng = np.random.default_rng(1)
    z, y, up = rng.normal(size=(6, 5)) * 4, labels(rng, 6, 5), rng.normal(size=6)
    params = {"ignore_index": IGNORE}
    out = run(program("cross_entropy_gradient"), registry, {"logits": z, "target": y, "@rows": up}, params)
    p = np.exp(log_softmax(z))
    want = np.where((y != IGNORE)[:, None], (p - (y[:, None] == np.arange(5))) * up[:, None], 0)
    np.testing.assert_allclose(out["grad.logits"], want, rtol=1e-12, atol=1e-15)
    numeric = differences(lambda x: float(cross_entropy(x, y) @ up), z)
    np.testing.assert_allclose(out["grad.logits"], numeric, atol=1e-8)


def test_cross_entropy_both_agrees_with_the_two(registry: Registry) -> None:
    rng = np.random.default_rng(2)
    z, y = rng.normal(size=(6, 5)) * 4, labels(rng, 6, 5)
    z[1] = np.inf
    tensors, params = {"logits": z, "target": y}, {"ignore_index": IGNORE}
    both = run(program("cross_entropy_both"), registry, tensors, {**params, "@rows": 0.25})
    rows = run(program("cross_entropy_value"), registry, tensors, params)["rows"]
    gradient = run(program("cross_entropy_gradient"), registry, {**tensors, "@rows": np.full(6, 0.25)}, params)
    np.testing.assert_array_equal(both["rows"], rows)
    np.testing.assert_array_equal(both["grad.logits"], gradient["grad.logits"])


def test_cross_entropy_keeps_its_digits_when_the_target_leads(registry: Registry) -> None:
    tensors = {"logits": np.array([[17.0, 0.0]]), "target": np.array([0])}
    rows = run(program("cross_entropy_value"), registry, tensors, {"ignore_index": IGNORE})["rows"]
    np.testing.assert_allclose(rows, [4.1399376330897475e-08], rtol=1e-15)
    out = run(program("cross_entropy_gradient"), registry, {**tensors, "@rows": [1.0]}, {"ignore_index": IGNORE})
    np.testing.assert_allclose(out["grad.logits"], [[-4.1399375473943306e-08, 4.1399375473943306e-08]], rtol=1e-15)


def jsd(z: Array, t: Array) -> Array:
    p, q = np.exp(log_softmax(z)), np.exp(log_softmax(t))
    m = (p + q) / 2
    return ((p * np.log(p / m) + q * np.log(q / m)) / 2).sum(axis=1)


def test_jsd(registry: Registry) -> None:
    rng = np.random.default_rng(3)
    z, t, up = rng.normal(size=(4, 6)) * 2, rng.normal(size=(4, 6)) * 2, rng.normal(size=4)
    tensors = {"student": z, "teacher": t}
    rows = run(program("jsd_value"), registry, tensors)["rows"]
    np.testing.assert_allclose(rows, jsd(z, t), rtol=1e-12)
    out = run(program("jsd_gradient"), registry, {**tensors, "@rows": up})
    np.testing.assert_allclose(out["grad.student"], differences(lambda x: float(jsd(x, t) @ up), z), atol=1e-9)
    np.testing.assert_allclose(out["grad.teacher"], differences(lambda x: float(jsd(z, x) @ up), t), atol=1e-9)


def test_jsd_of_a_class_of_probability_zero(registry: Registry) -> None:
    tensors = {"student": np.array([[0.0, 1.0, -np.inf]]), "teacher": np.array([[1.0, 0.0, 0.0]])}
    out = run(program("jsd_gradient"), registry, {**tensors, "@rows": [1.0]})
    assert out["grad.student"][0, 2] == 0
    assert np.isfinite(out["grad.student"]).all()


def dice(z: Array, y: Array, smooth: float) -> float:
    there = y != IGNORE
    p = np.exp(log_softmax(z[there]))
    t = y[there][:, None] == np.arange(z.shape[1])
    return float(np.mean(1 - (2 * (p * t).sum(0) + smooth) / ((p + t).sum(0) + smooth)))


def test_dice(registry: Registry) -> None:
    rng = np.random.default_rng(4)
    z, y = rng.normal(size=(7, 4)), labels(rng, 7, 4)
    params = {"smooth": 0.5, "ignore_index": IGNORE}
    tensors = {"logits": z, "target": y}
    np.testing.assert_allclose(
        run(program("dice_value"), registry, tensors, params)["rows"], dice(z, y, 0.5), rtol=1e-14
    )
    out = run(program("dice_gradient"), registry, tensors, {**params, "@rows": 1.5})
    np.testing.assert_allclose(out["grad.logits"], differences(lambda x: 1.5 * dice(x, y, 0.5), z), atol=1e-9)
    z[1] = np.nan
    again = run(program("dice_gradient"), registry, tensors, {**params, "@rows": 1.5})
    np.testing.assert_array_equal(again["grad.logits"], out["grad.logits"])


def batch_hard(x: Array, y: Array, margin: float) -> Array:
    rows = np.zeros(len(x))
    for n in range(len(x)):
        d = np.sqrt(((x - x[n]) ** 2).sum(1))
        pos = (y == y[n]) & (np.arange(len(x)) != n)
        neg = y != y[n]
        if pos.any() and neg.any():
            rows[n] = max(d[pos].max() - d[neg].min() + margin, 0)
    return rows


def test_batch_hard_triplet(registry: Registry) -> None:
    rng = np.random.default_rng(5)
    x, y, up = rng.normal(size=(7, 3)), np.array([0, 1, 0, 1, 2, 0, 1]), rng.normal(size=7)
    params = {"margin": 0.7}
    value = run(program("batch_hard_value"), registry, {"x": x, "y": y}, params)
    np.testing.assert_allclose(value["rows"], batch_hard(x, y, 0.7), rtol=1e-14)
    np.testing.assert_array_equal(value["weight"], y != 2)
    out = run(program("batch_hard_gradient"), registry, {"x": x, "y": y, "@rows": up}, params)
    np.testing.assert_allclose(out["grad.x"], differences(lambda v: float(batch_hard(v, y, 0.7) @ up), x), atol=1e-8)


def test_batch_hard_triplet_shares_ties(registry: Registry) -> None:
    """Two equally far positives and one negative on a line: the derivative of the mean of both choices."""
    x, y = np.array([[0.0], [1.0], [-1.0], [0.5]]), np.array([0, 0, 0, 1])
    up = np.array([1.0, 0.0, 0.0, 0.0])
    out = run(program("batch_hard_gradient"), registry, {"x": x, "y": y, "@rows": up}, {"margin": 1.0})
    # d(0, 1) = d(0, 2) = 1 and d(0, 3) = 0.5: half of each far pair, minus the near one
    np.testing.assert_allclose(out["grad.x"][:, 0], [-0.5 + 0.5 + 1, 0.5, -0.5, -1], atol=1e-15)


@pytest.mark.parametrize("gap", [5.0, 40.0, 300.0])
def test_50_digits_and_float64_agree(registry: Registry, gap: float) -> None:
    tensors = {"logits": np.array([[gap, 0.0, 1.0], [0.0, gap, gap]]), "target": np.array([0, 0]), "@rows": [1.0, -2.0]}
    params = {"ignore_index": IGNORE}
    for name, out in (("cross_entropy_value", "rows"), ("cross_entropy_gradient", "grad.logits")):
        given = {k: v for k, v in tensors.items() if k != "@rows" or "gradient" in name}
        digits = run(program(name), registry, given, params, number="mpmath")[out]
        np.testing.assert_allclose(
            run(program(name), registry, given, params)[out], digits.astype(float), rtol=4e-16, atol=0
        )
