"""The standard losses written out for one row in high-precision arithmetic, independently of the compiler.

Each takes a row of logits (mpf, -inf allowed), what else the loss reads, and its parameters, and gives the row's
loss. Gradients are central differences at 120 digits with a step of 1e-40, so they hold about 80 digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath
from mpmath import mp

Row = Sequence[Any]
DIGITS = 120
STEP = mpmath.mpf("1e-40")
INF = mpmath.mpf("inf")


def _exp(x: Any) -> Any:
    return mpmath.mpf(0) if x == -INF else mp.exp(x)


def _log(x: Any) -> Any:
    return -INF if x == 0 else mp.log(x)


def _times(a: Any, b: Any) -> Any:
    return mpmath.mpf(0) if a == 0 or b == 0 else a * b


def softmax(z: Row) -> list[Any]:
    top = max(z)
    e = [_exp(x - top) for x in z]
    return [x / mp.fsum(e) for x in e]


def lse(z: Row) -> Any:
    return max(z) + mp.log(mp.fsum(_exp(x - max(z)) for x in z))


def cross_entropy(z: Row, y: int) -> Any:
    return -_log(softmax(z)[y])


def label_smoothing_ce(z: Row, y: int, eps: Any) -> Any:
    logs = [_log(p) for p in softmax(z)]
    return -(1 - eps) * logs[y] - _times(eps, mp.fsum(logs)) / len(z)


def soft_target_ce(z: Row, q: Row) -> Any:
    return -mp.fsum(_times(a, _log(p)) for a, p in zip(q, softmax(z), strict=True))


def focal(z: Row, y: int, gamma: Any) -> Any:
    wrong = mp.fsum(p for k, p in enumerate(softmax(z)) if k != y)
    return _times(wrong**gamma, cross_entropy(z, y))


def poly1_ce(z: Row, y: int, epsilon: Any) -> Any:
    return cross_entropy(z, y) + epsilon * (1 - softmax(z)[y])


def generalized_cross_entropy(z: Row, y: int, q: Any) -> Any:
    return (1 - softmax(z)[y] ** q) / q


def symmetric_cross_entropy(z: Row, y: int, alpha: Any, beta: Any, a: Any) -> Any:
    return alpha * cross_entropy(z, y) - beta * a * (1 - softmax(z)[y])


def normalized_cross_entropy(z: Row, y: int) -> Any:
    return cross_entropy(z, y) / mp.fsum(cross_entropy(z, k) for k in range(len(z)))


def mean_absolute_error(z: Row, y: int) -> Any:
    return 1 - softmax(z)[y]


def brier(z: Row, y: int) -> Any:
    return mp.fsum((p - (k == y)) ** 2 for k, p in enumerate(softmax(z)))


def squentropy(z: Row, y: int, scale: Any) -> Any:
    others = [x for k, x in enumerate(z) if k != y]
    return cross_entropy(z, y) + scale * mp.fsum(x**2 for x in others) / max(len(others), 1)


def logit_adjusted_ce(z: Row, y: int, prior: Row, tau: Any, eps: Any) -> Any:
    return cross_entropy([x + mp.log(q**tau + eps) for x, q in zip(z, prior, strict=True)], y)


def ldam(z: Row, y: int, class_count: Row, max_m: Any, s: Any) -> Any:
    m = [mpmath.mpf(n) ** mpmath.mpf("-0.25") for n in class_count]
    margin = max_m * m[y] / max(m)
    return cross_entropy([s * (x - margin if k == y else x) for k, x in enumerate(z)], y)


def z_loss_ce(z: Row, y: int, c: Any) -> Any:
    return cross_entropy(z, y) + c * lse(z) ** 2


def _divergence(p: Row, q: Row) -> Any:
    return mp.fsum(_times(a, _log(a) - _log(b)) if a else mpmath.mpf(0) for a, b in zip(p, q, strict=True))


def kd_kl(student: Row, teacher: Row, t: Any) -> Any:
    return t**2 * _divergence(softmax([x / t for x in teacher]), softmax([x / t for x in student]))


def jsd(student: Row, teacher: Row, beta: Any) -> Any:
    p, q = softmax(student), softmax(teacher)
    m = [beta * b + (1 - beta) * a for a, b in zip(p, q, strict=True)]
    return beta * _divergence(q, m) + (1 - beta) * _divergence(p, m)


def _softplus(x: Any) -> Any:
    return max(x, mpmath.mpf(0)) + mp.log(1 + mp.exp(-abs(x)))


def bce(z: Any, target: Any) -> Any:
    return _times(target, _softplus(-z)) + _times(1 - target, _softplus(z))


def sigmoid_focal(z: Any, target: Any, alpha: Any, gamma: Any) -> Any:
    p = 1 / (1 + mp.exp(-z))
    wrong = target * (1 - p) + (1 - target) * p
    return (target * alpha + (1 - target) * (1 - alpha)) * wrong**gamma * bce(z, target)


def comp_sum(z: Row, y: int, tau: Any) -> Any:
    p = softmax(z)[y]
    return -_log(p) if tau == 1 else (p ** (tau - 1) - 1) / (1 - tau)


def gradient(loss: Callable[[list[Any]], Any], z: Row) -> list[Any]:
    """The derivative in each entry; 0 at an entry of -inf, whose neighbourhood changes nothing."""
    found = []
    for k, x in enumerate(z):
        if x == -INF:
            found.append(mpmath.mpf(0))
            continue
        up, down = list(z), list(z)
        up[k], down[k] = x + STEP, x - STEP
        found.append((loss(up) - loss(down)) / (2 * STEP))
    return found
