"""The prelude's functions against numpy, at ordinary places and at their ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lossdsl.check.prelude import prelude
from tests.check.worth import Array, close, gradients, rows

RNG = np.random.default_rng(1)
X = RNG.normal(size=(4, 5))
Y = RNG.normal(size=(4, 5))
X[3] = 0  # a vector of zeros
P = np.exp(X) / np.exp(X).sum(1, keepdims=True)
Q = np.exp(Y) / np.exp(Y).sum(1, keepdims=True)
P[1] = [0, 0, 0.5, 0.5, 0]
Q[1] = [0, 0.25, 0.25, 0.5, 0]
T = np.array([0, 4, 2, 2])
M = X > 0.3
W = RNG.normal(size=5)
HOT = np.eye(5)[T]


def _norm(x: Array) -> Array:
    return np.sqrt((x**2).sum(-1))


def _unit(x: Array) -> Array:
    n = _norm(x)[..., None]
    return np.divide(x, n, out=np.zeros_like(x), where=n > 0)


def _arc(c: Array, m: float) -> Array:
    return np.where(c > np.cos(np.pi - m), np.cos(np.arccos(c) + m), c - m * np.sin(m))


def _xlogy(p: Array, q: Array) -> Array:
    return np.where(p > 0, p * np.log(np.where(p > 0, q, 1)), 0)


RANK = (-X).argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
COUNT = np.maximum(M.sum(1), 1)
C = np.cos(X) * 0.999

# function: (expression with axes [N] or [N, C], its value)
VALUES: dict[str, tuple[str, Any]] = {
    "mean": ("mean[C](x)", X.mean(1)),
    "var": ("var[C](x)", X.var(1, ddof=1)),
    "norm": ("norm[C](x)", _norm(X)),
    "any": ("if any[C](x > 0.3) then 1 else 0", (X > 0.3).any(1)),
    "all": ("if all[C](x > -1) then 1 else 0", (X > -1).all(1)),
    "logmeanexp": ("logmeanexp[C](x)", np.log(np.exp(X).mean(1))),
    "entropy": ("entropy(p)", -_xlogy(P, P).sum(1)),
    "kl": ("kl(p, q)", (_xlogy(P, P) - _xlogy(P, Q)).sum(1)),
    "quantile": ("quantile[C](x, 0.3)", np.quantile(X, 0.3, axis=1)),
    "guarded_sqrt": ("guarded_sqrt(sum[C](x^2), 7)", np.where(_norm(X) > 0, _norm(X), 7)),
    "dot": ("dot[C](x, y)", (X * Y).sum(1)),
    "sqdist": ("sqdist[C](x, y)", ((X - Y) ** 2).sum(1)),
    "dist": ("dist[C](x, y)", _norm(X - Y)),
    "normalize": ("normalize[C](x)", _unit(X)),
    "cosine": ("cosine[C](x, y)", (_unit(X) * _unit(Y)).sum(1)),
    "angle": ("angle[C](x, y)", np.arccos((_unit(X) * _unit(Y)).sum(1))),
    "rank": ("rank[C](x)", RANK),
    "topk": ("if topk[C](x, 2) then 1 else 0", RANK < 2),
    "log2": ("log2(p + 1)", np.log2(P + 1)),
    "temperature": ("temperature(x, 2)", X / 2),
    "prior": ("prior(x, exp(w), 0.5)", X + 0.5 * W),
    "margin": ("margin(x, t, 0.35)", X - 0.35 * HOT),
    "arc": ("arc(c, 0.5)", _arc(C, 0.5)),
    "arc_margin": ("arc_margin(c, t, 0.5)", np.where(HOT > 0, _arc(C, 0.5), C)),
    "softcap": ("softcap(x, 3)", 3 * np.tanh(X / 3)),
    "clip_norm": ("clip_norm[C](x, 1)", X / np.maximum(_norm(X), 1)[:, None]),
    "smooth": ("smooth(t, 0.2) + 0 * x", 0.8 * HOT + 0.04),
    "poly": ("poly(x, [1, 0.5, 0.25])", X + X**2 / 2 + X**3 / 4),
    "straight_through": ("straight_through(x, y)", X),
}
MASKED: dict[str, tuple[str, Any]] = {
    "mean": ("mean[C](x where m)", (X * M).sum(1) / COUNT),
    "var": (
        "var[C](x where m)",
        (M * (X - ((X * M).sum(1) / COUNT)[:, None]) ** 2).sum(1) / np.maximum(COUNT - 1, 1),
    ),
    "norm": ("norm[C](x where m)", _norm(X * M)),
    "any": ("if any[C](y > 0 where m) then 1 else 0", ((Y > 0) & M).any(1)),
    "all": ("if all[C](y > 0 where m) then 1 else 0", ((Y > 0) | ~M).all(1)),
    "normalize": ("sum[C](normalize[C](x where m) + 1)", _unit(X * M).sum(1) + 5),
    "rank": ("sum[C](rank[C](x where m) where m)", COUNT * (COUNT - 1) / 2),
}
HEAD = (
    "input x[N, C], y[N, C], c[N, C], p[N, C], q[N, C]\ninput w[C]\ninput t[N]: index C\ninput m[N, C]: bool\nreturn "
)
GIVEN = {"x": X, "y": Y, "c": C, "p": P, "q": Q, "w": W, "t": T, "m": M}


def _rows(expression: str, expected: Any) -> Array:
    body = f"sum[C](({expression}) * exp(w))" if np.ndim(expected) == 2 else expression
    return rows(HEAD + body, GIVEN)


def _want(expected: Any) -> Array:
    return (expected * np.exp(W)).sum(1) if np.ndim(expected) == 2 else np.asarray(expected, float)


def test_every_function_has_a_value() -> None:
    assert set(VALUES) == set(prelude())


@pytest.mark.parametrize("name", sorted(VALUES))
def test_value(name: str) -> None:
    expression, expected = VALUES[name]
    close(_rows(expression, expected), _want(expected))


@pytest.mark.parametrize("name", sorted(MASKED))
def test_masked_value(name: str) -> None:
    expression, expected = MASKED[name]
    close(_rows(expression, expected), _want(expected))


ZERO = {
    "norm": ("norm[C](x)", lambda x, y: _unit(x)),
    "dist": ("dist[C](x, 0 * x)", lambda x, y: _unit(x)),
    "normalize": ("sum[C](normalize[C](x) * y)", None),
    "cosine": ("cosine[C](x, y)", None),
    "clip_norm": ("sum[C](clip_norm[C](x, 1) * y)", None),
}


@pytest.mark.parametrize("name", sorted(ZERO))
def test_the_gradient_of_a_zero_vector(name: str) -> None:
    expression, known = ZERO[name]
    upstream = np.array([1.0, -2.0, 0.5, 3.0])
    found = gradients(HEAD + expression, GIVEN, upstream)["x"]
    assert np.isfinite(found).all()
    close(found[3], upstream[3] * Y[3] if name == "clip_norm" else np.zeros(5))
    if known is not None:
        close(found, upstream[:, None] * known(X, Y))
    else:
        by_differences = _differences(HEAD + expression, upstream)
        np.testing.assert_allclose(found[:3], by_differences[:3], rtol=1e-10, atol=1e-11)


def _differences(text: str, upstream: Array) -> Array:
    """Complex-free derivative by a central difference extrapolated twice, good to about 1e-12."""

    def at(h: float) -> Array:
        found = np.zeros_like(X)
        for i in range(X.shape[1]):
            step = np.zeros_like(X)
            step[:, i] = h
            up, down = (rows(text, GIVEN | {"x": X + s}) for s in (step, -step))
            found[:, i] = upstream * (up - down) / (2 * h)
        return found

    return _richardson(at)


def _richardson(at: Callable[[float], Array]) -> Array:
    a, b, c = at(4e-3), at(2e-3), at(1e-3)
    ab, bc = (4 * b - a) / 3, (4 * c - b) / 3
    return (16 * bc - ab) / 15
