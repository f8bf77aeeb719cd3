"""The standard losses in float32 against 50 digits, on rows where fused losses lose theirs.

Bars: the value within 8 ulp, each gradient entry within 8 ulp and one more for each unit of |z - max z| (the rounding
of that difference alone costs half of it, in the exponential), relative to the exact number itself: small gradients
of confident rows count as much as large ones. Where the equation subtracts numbers that nearly cancel it is relative
to these (`TERMS`). Below the smallest normal number the error is absolute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from mpmath import mp

import lossdsl
from tests.std import reference
from tests.std.rows import INF, logit_rows, pair_rows

ULP = 2.0**-23
SMALLEST = 1.1754944e-38
LARGEST = 3.4028235e38
Exact = list[Any]

BY_TARGET: list[tuple[str, dict[str, float]]] = [
    ("cross_entropy", {}),
    ("label_smoothing_ce", {"eps": 0.1}),
    ("focal", {"gamma": 2.0}),
    ("focal", {"gamma": 0.5}),
    ("focal", {"gamma": 0.0}),
    ("poly1_ce", {"epsilon": 2.0}),
    ("poly1_ce", {"epsilon": -1.0}),
    ("generalized_cross_entropy", {"q": 0.7}),
    ("generalized_cross_entropy", {"q": 1e-3}),
    ("symmetric_cross_entropy", {"alpha": 0.1, "beta": 1.0, "a": -4.0}),
    ("normalized_cross_entropy", {}),
    ("mean_absolute_error", {}),
    ("brier", {}),
    ("squentropy", {"scale": 1.0}),
    ("z_loss_ce", {"c": 1e-4}),
    ("comp_sum", {"tau": 0.0}),
    ("comp_sum", {"tau": 1.0}),
    ("comp_sum", {"tau": 1.5}),
    ("comp_sum", {"tau": 2.0}),
]


def single(x: float) -> Any:
    """The number that the loss is given, exactly."""
    return mpmath.mpf(float(np.float32(x)))


def compare(what: str, found: Sequence[float], exact: Exact, spread: float, sizes: Exact | None = None) -> None:
    for k, (a, b) in enumerate(zip(found, exact, strict=True)):
        if mpmath.isinf(b) or abs(b) > LARGEST:
            assert a == float(mpmath.sign(b)) * INF, f"{what}[{k}] is {a}, not infinite"
            continue
        size = max(abs(b) if sizes is None else sizes[k], SMALLEST)
        allowed = max((8 + spread) * ULP * size, mpmath.mpf(SMALLEST))
        assert abs(mpmath.mpf(a) - b) <= allowed, f"{what}[{k}] is {a:.9g}, not {float(b):.9g}"


def spread_of(*rows: Sequence[float]) -> float:
    return max(abs(x - max(z)) for z in rows for x in z if x != -INF)


def exact_of(loss: Callable[[Exact], Any], z: Sequence[float]) -> tuple[Any, Exact]:
    with mpmath.workdps(reference.DIGITS):
        row = [single(x) for x in z]
        value = loss(row)
        return value, [] if mpmath.isinf(value) else reference.gradient(loss, row)


Terms = tuple[Any, Exact]


def _normalized(z: Exact, y: int, params: dict[str, Any]) -> Terms:
    """Two terms that nearly cancel where two classes share all probability."""
    p = reference.softmax(z)
    logs = [mp.log(x) for x in p]
    total = mp.fsum(logs)
    grad = [abs(((k == y) - q) / total) + abs(logs[y] / total**2) * (1 + len(z) * q) for k, q in enumerate(p)]
    return logs[y] / total, grad


def _smoothed(z: Exact, y: int, params: dict[str, Any]) -> Terms:
    """(1 - eps)(p - e_y) and eps (p - 1/C)."""
    p, eps = reference.softmax(z), params["eps"]
    grad = [(1 - eps) * abs(q - (k == y)) + eps * (q + mpmath.mpf(1) / len(z)) for k, q in enumerate(p)]
    return abs(reference.label_smoothing_ce(z, y, eps)), grad


def _poly(z: Exact, y: int, params: dict[str, Any]) -> Terms:
    """-log p and epsilon (1 - p), which leave the second-order term where epsilon is -1."""
    p, epsilon = reference.softmax(z), params["epsilon"]
    grad = [(1 + abs(epsilon) * p[y]) * abs(q - (k == y)) for k, q in enumerate(p)]
    return reference.cross_entropy(z, y) + abs(epsilon) * (1 - p[y]), grad


TERMS = {"normalized_cross_entropy": _normalized, "label_smoothing_ce": _smoothed, "poly1_ce": _poly}


@pytest.mark.parametrize(("name", "params"), BY_TARGET, ids=lambda x: x if isinstance(x, str) else "")
def test_rows_with_a_target(name: str, params: dict[str, float]) -> None:
    loss_fn = lossdsl.loss(name, backend="torch", reduction="none", **params)
    given = {k: single(v) for k, v in params.items()}
    for what, z, y in logit_rows():
        if name == "normalized_cross_entropy" and (len(z) == 1 or -INF in z):
            continue  # 0/0 and inf/inf: the equation has no value there
        logits = torch.tensor([z], requires_grad=True)
        value = loss_fn(logits, torch.tensor([y]))
        (grad,) = torch.autograd.grad(value.sum(), logits)
        exact, exact_grad = exact_of(lambda row, y=y: getattr(reference, name)(row, y, **given), z)  # type: ignore[misc]
        spread = spread_of(z)
        terms: Terms | None = None
        if name in TERMS and exact_grad:
            with mpmath.workdps(reference.DIGITS):
                terms = TERMS[name]([single(x) for x in z], y, given)
        compare(f"{what}: the value", value.tolist(), [exact], spread, terms and [terms[0]])
        if exact_grad and abs(exact) <= LARGEST:
            compare(f"{what}: the gradient", grad[0].tolist(), exact_grad, spread, terms and terms[1])


@pytest.mark.parametrize("tau", [0.5, 1.0])
def test_rows_with_a_prior(tau: float) -> None:
    loss_fn = lossdsl.loss("logit_adjusted_ce", backend="torch", reduction="none", tau=tau)
    for what, z, y in logit_rows():
        prior = [float(np.float32(x)) for x in np.linspace(0.01, 1, len(z)) / np.linspace(0.01, 1, len(z)).sum()]
        logits = torch.tensor([z], requires_grad=True)
        value = loss_fn(logits, torch.tensor([y]), torch.tensor(prior))
        (grad,) = torch.autograd.grad(value.sum(), logits)
        q = [single(x) for x in prior]
        loss = lambda row, y=y, q=q: reference.logit_adjusted_ce(row, y, q, single(tau), single(1e-12))  # noqa: E731
        exact, exact_grad = exact_of(loss, z)
        # log prior is added to z before max is taken: its rounding is relative to the sum
        size = max(abs(x) for x in z if x != -INF) * ULP / 2
        slack = [(8 + spread_of(z) + 8) * ULP * abs(b) + 2 * size * abs(b) for b in exact_grad]
        for a, b, allowed in zip(grad[0].tolist(), exact_grad, slack, strict=True):
            assert abs(mpmath.mpf(a) - b) <= max(allowed, mpmath.mpf(SMALLEST)), (what, a, float(b))
        allowed = (8 + spread_of(z) + 8) * ULP * abs(exact) + 2 * size * min(1, abs(exact))
        assert abs(mpmath.mpf(value.item()) - exact) <= allowed, (what, value.item(), float(exact))


@pytest.mark.parametrize(
    ("name", "params"), [("kd_kl", {"t": 1.0}), ("kd_kl", {"t": 3.0}), ("jsd", {"beta": 0.5}), ("jsd", {"beta": 0.1})]
)
def test_pairs_of_rows(name: str, params: dict[str, float]) -> None:
    loss_fn = lossdsl.loss(name, backend="torch", reduction="none", **params)
    given = {k: single(v) for k, v in params.items()}
    function = getattr(reference, name)
    for what, s, t in pair_rows():
        student, teacher = (torch.tensor([z], requires_grad=True) for z in (s, t))
        value = loss_fn(student, teacher)
        grads = torch.autograd.grad(value.sum(), [student, teacher])
        spread = spread_of(s, t)
        exact_s, exact_t = [single(x) for x in s], [single(x) for x in t]
        exact, by_student = exact_of(lambda row, o=exact_t: function(row, o, **given), s)  # type: ignore[misc]
        _, by_teacher = exact_of(lambda row, o=exact_s: function(o, row, **given), t)  # type: ignore[misc]
        compare(f"{what}: the value", value.tolist(), [exact], spread)
        with mpmath.workdps(reference.DIGITS):
            # p_j (u_j - Σ p u) may cross zero: relative to its two terms
            sizes = [reference.softmax(z) for z in (exact_s, exact_t)]
        for grad, should, p in zip(grads, (by_student, by_teacher), sizes, strict=True):
            largest = max((abs(x) for x in should), default=0)
            terms = [max(abs(b), q * largest / max(p)) for b, q in zip(should, p, strict=True)] if should else None
            compare(f"{what}: the gradient", grad[0].tolist() if should else [], should, spread, terms)
    same = torch.randn(4, 7)
    student = same.clone().requires_grad_()
    value = loss_fn(student, same)
    assert torch.equal(value.detach(), torch.zeros(4))
    assert torch.equal(torch.autograd.grad(value.sum(), student)[0], torch.zeros(4, 7))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_binary_rows(gamma: float) -> None:
    targets = (0.0, 1.0, 0.25)
    logits = [0.0, 1e-3, -1e-3, 0.5, -3.0, 10.0, -17.0, 17.0, 40.0, -40.0, 80.0, -80.0]
    bce = lossdsl.loss("bce", backend="torch", reduction="none")
    focal = lossdsl.loss("sigmoid_focal", backend="torch", reduction="none", gamma=gamma)
    for target in targets:
        for fn, loss in (
            (bce, lambda row, t=target: reference.bce(row[0], mpmath.mpf(t))),
            (
                focal,
                lambda row, t=target: reference.sigmoid_focal(
                    row[0], mpmath.mpf(t), mpmath.mpf("0.25"), mpmath.mpf(gamma)
                ),
            ),
        ):
            z = torch.tensor(logits, requires_grad=True)
            value = fn(z, torch.full((len(logits),), target))
            (grad,) = torch.autograd.grad(value.sum(), z)
            for x, v, g in zip(logits, value.tolist(), grad.tolist(), strict=True):
                exact, exact_grad = exact_of(loss, [x])
                compare(f"z = {x}, t = {target}: the value", [v], [exact], abs(x))
                # (1 - t) σ(z) - t σ(-z) crosses zero at soft targets: relative to its terms
                terms = None if target in (0.0, 1.0) else [max(abs(exact_grad[0]), mpmath.mpf("0.05"))]
                compare(f"z = {x}, t = {target}: the gradient", [g], exact_grad, abs(x), terms)


def test_ldam_and_soft_targets() -> None:
    ldam = lossdsl.loss("ldam", backend="torch", reduction="none")
    count = [100, 10, 5, 2, 1]
    rng = np.random.default_rng(3)
    for _ in range(10):
        z = [float(np.float32(x)) for x in rng.uniform(-1, 1, 5)]
        y = int(rng.integers(5))
        logits = torch.tensor([z], requires_grad=True)
        value = ldam(logits, torch.tensor([y]), torch.tensor(count))
        (grad,) = torch.autograd.grad(value.sum(), logits)
        loss = lambda row, y=y: reference.ldam(row, y, count, mpmath.mpf("0.5"), mpmath.mpf(30))  # noqa: E731
        exact, exact_grad = exact_of(loss, z)
        # the scaled cosines are rounded at 30: half an ulp of that, in the exponential
        compare("the value", value.tolist(), [exact], 64 + 30 / max(float(exact), 1e-3))
        compare("the gradient", grad[0].tolist(), exact_grad, 128)
    soft = lossdsl.loss("soft_target_ce", backend="torch", reduction="none")
    for what, z, y in logit_rows():
        q = [0.0] * len(z)
        q[y] = 1.0
        logits = torch.tensor([z], requires_grad=True)
        value = soft(logits, torch.tensor([q]))
        (grad,) = torch.autograd.grad(value.sum(), logits)
        exact, exact_grad = exact_of(lambda row, y=y: reference.cross_entropy(row, y), z)  # type: ignore[misc]
        compare(f"{what}: the value", value.tolist(), [exact], spread_of(z))
        # Σq·p - q is a difference of the caller's numbers: relative to them
        compare(
            f"{what}: the gradient",
            grad[0].tolist(),
            exact_grad,
            spread_of(z),
            [max(abs(b), mpmath.mpf(a)) for a, b in zip(q, exact_grad, strict=True)],
        )


def test_an_error_of_one_part_in_a_million_is_noticed() -> None:
    with pytest.raises(AssertionError):
        compare("planted", [1.000005], [mpmath.mpf(1)], 0.0)
