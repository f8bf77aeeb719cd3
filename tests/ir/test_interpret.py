"""The Graph's interpreter against numpy written independently, operation by operation, in both arithmetics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lossdsl.check.types import Type
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Leaf
from lossdsl.ir.interpret import evaluate
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import InternalError

Array = np.ndarray[Any, Any]
NUMBERS = ["float64", "mpmath"]


def leaf(b: Builder, name: str, *axes: str, kind: str = "real") -> int:
    return b.leaf(Leaf(name, axes, Type(frozenset(axes), kind), "input", kind == "real"))


def value(b: Builder, node: int, number: str, leaves: dict[str, Any], **sizes: int) -> Array:
    out = evaluate(b.graph({"aux.x": node}), b.registry, leaves, number=number, sizes=sizes)["aux.x"]
    return out.astype(np.float64) if out.dtype == object else out


@pytest.fixture
def b(registry: Registry) -> Builder:
    return Builder(registry, "test", ("N", "C"), ("N",))


RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4))
M = RNG.random((3, 4)) > 0.4
M[1] = False
INF = np.inf

REDUCTIONS: dict[str, Callable[[Array], Any]] = {
    "sum": lambda row: row.sum(),
    "prod": lambda row: row.prod(),
    "max": lambda row: row.max(initial=-INF),
    "min": lambda row: row.min(initial=INF),
    "count": len,
    "logsumexp": lambda row: np.log(np.exp(row).sum()),
}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", sorted(REDUCTIONS))
def test_masked_reductions_do_not_read_what_the_mask_hides(b: Builder, name: str, number: str) -> None:
    x, m = leaf(b, "x", "N", "C"), leaf(b, "m", "N", "C", kind="bool")
    given = np.where(M, X, np.nan)
    out = value(b, b.raw("reduce", (x, m), (name, ("C",))), number, {"x": given, "m": M})
    with np.errstate(divide="ignore"):
        want = [REDUCTIONS[name](X[n][M[n]]) for n in range(3)]
    np.testing.assert_allclose(out, want, rtol=1e-14)


@pytest.mark.parametrize("number", NUMBERS)
def test_reductions_over_two_axes_and_over_an_axis_that_the_body_lacks(b: Builder, number: str) -> None:
    x, w = leaf(b, "x", "N", "C"), leaf(b, "w", "N")
    leaves = {"x": X, "w": X[:, 0]}
    np.testing.assert_allclose(value(b, b.raw("reduce", (x,), ("sum", ("N", "C"))), number, leaves), X.sum())
    np.testing.assert_allclose(value(b, b.raw("reduce", (w,), ("sum", ("C",))), number, leaves), 4 * X[:, 0])
    both = b.raw("reduce", (x,), ("logsumexp", ("N", "C")))
    np.testing.assert_allclose(value(b, both, number, leaves), np.log(np.exp(X).sum()))


@pytest.mark.parametrize("number", NUMBERS)
def test_argmax_takes_the_first_of_equals(b: Builder, number: str) -> None:
    x = leaf(b, "x", "N", "C")
    out = value(b, b.reduce("argmax", ("C",), x), number, {"x": [[1.0, 3, 3], [2, 2, 2], [-INF, 0, 1]]})
    np.testing.assert_array_equal(out, [1, 0, 2])


@pytest.mark.parametrize("number", NUMBERS)
def test_logsumexp_of_infinities(b: Builder, number: str) -> None:
    x = leaf(b, "x", "N", "C")
    given = {"x": [[-INF, -INF], [INF, 0.0], [-INF, 3.0], [1e4, -1e4]]}
    np.testing.assert_array_equal(value(b, b.reduce("logsumexp", ("C",), x), number, given), [-INF, INF, 3, 1e4])


@pytest.mark.parametrize("number", NUMBERS)
def test_logp_keeps_its_digits(b: Builder, number: str) -> None:
    x = leaf(b, "x", "N", "C")
    out = value(b, b.node("logp", [x], (("C",),)), number, {"x": [[17.0, 0.0], [1e6, 1e6 + 1]]})
    want = [[-4.1399376330897475e-08, -17.000000041399376], [-1.3132616875182228, -0.31326168751822286]]
    np.testing.assert_allclose(out, want, rtol=1e-15)


@pytest.mark.parametrize("number", NUMBERS)
def test_softmax_hides_what_is_masked(b: Builder, number: str) -> None:
    x, m = leaf(b, "x", "N", "C"), leaf(b, "m", "N", "C", kind="bool")
    given = {"x": np.where(M, X, np.nan), "m": M}
    p = value(b, b.node("softmax", [x, m], ("C",)), number, given)
    e = np.where(M, np.exp(X), 0)
    np.testing.assert_allclose(p[[0, 2]], e[[0, 2]] / e[[0, 2]].sum(1, keepdims=True), rtol=1e-14)
    np.testing.assert_array_equal(p[1], 0)


@pytest.mark.parametrize("number", NUMBERS)
def test_zero_times_infinity_is_zero(b: Builder, number: str) -> None:
    x, y = leaf(b, "x", "N"), leaf(b, "y", "N")
    out = value(b, b.node("mul", [x, y]), number, {"x": [0.0, -INF, 2.0, INF], "y": [INF, 0.0, 3.0, -1.0]})
    np.testing.assert_array_equal(out, [0, 0, 6, -INF])


@pytest.mark.parametrize("number", NUMBERS)
def test_cumsum(b: Builder, number: str) -> None:
    x, m = leaf(b, "x", "N", "C"), leaf(b, "m", "N", "C", kind="bool")
    leaves = {"x": X, "m": M}
    np.testing.assert_allclose(value(b, b.raw("cumsum", (x,), ("C",)), number, leaves), X.cumsum(1))
    np.testing.assert_allclose(
        value(b, b.raw("cumsum", (x, m), ("C", True)), number, leaves), np.where(M, X, 0)[:, ::-1].cumsum(1)[:, ::-1]
    )


@pytest.mark.parametrize("number", NUMBERS)
def test_order_is_stable_and_puts_masked_entries_last(b: Builder, number: str) -> None:
    x, m = leaf(b, "x", "N", "C"), leaf(b, "m", "N", "C", kind="bool")
    leaves = {"x": [[1.0, 3, 1, INF]], "m": [[True, True, True, False]]}
    down = b.raw("order", (x, m), ("C", "K", True))
    up = b.raw("order", (x,), ("C", "K", False))
    np.testing.assert_array_equal(value(b, down, number, leaves, K=4), [[1, 0, 2, 3]])
    np.testing.assert_array_equal(value(b, up, number, leaves, K=4), [[0, 2, 1, 3]])
    np.testing.assert_array_equal(value(b, up, number, leaves, K=2), [[0, 2]])
    sorted_x = b.pick(x, {"C": up})
    np.testing.assert_array_equal(value(b, sorted_x, number, leaves, K=4), [[1, 1, 3, INF]])


@pytest.mark.parametrize("number", NUMBERS)
def test_picks_and_scatters(b: Builder, number: str) -> None:
    x, y, n = leaf(b, "x", "N", "C"), leaf(b, "y", "N", kind="index C"), b.index("N")
    leaves = {"x": X, "y": [2, 0, 2]}
    at = b.raw("pick", (x, y), (("C",),))
    np.testing.assert_array_equal(value(b, at, number, leaves), X[[0, 1, 2], [2, 0, 2]])
    other = b.raw("pick", (x, b.index("N'")), (("N",),))
    square = b.node("sub", [x, other])
    np.testing.assert_allclose(
        value(b, square, number, leaves), (X[:, None] - X[None]), err_msg="axes N, N', C in canonical order"
    )
    again = b.raw("pick", (square, n), (("N'",),))
    np.testing.assert_array_equal(value(b, again, number, leaves), np.zeros((3, 4)))
    summed = b.raw("scatter", (leaf(b, "w", "N"), y), ("C", ("N",)))
    out = value(b, summed, number, leaves | {"w": [1.0, 2.0, 4.0]}, C=4)
    np.testing.assert_array_equal(out, [2, 0, 5, 0])


def test_a_pick_outside_its_axis_is_our_fault(b: Builder) -> None:
    x, y = leaf(b, "x", "N", "C"), leaf(b, "y", "N", kind="index C")
    with pytest.raises(InternalError, match="index 4 of an axis of 4"):
        value(b, b.raw("pick", (x, y), (("C",),)), "float64", {"x": X, "y": [0, 4, 1]})


@pytest.mark.parametrize("number", NUMBERS)
def test_linear_algebra(b: Builder, number: str) -> None:
    m, v = leaf(b, "m", "D", "D'"), leaf(b, "v", "D")
    rng = np.random.default_rng(3)
    a, w = rng.normal(size=(4, 4)), rng.normal(size=4)
    s = a @ a.T
    leaves = {"m": a, "v": w}
    logdet = b.raw("logdet", (m,), ("D", "D'"))
    np.testing.assert_allclose(value(b, logdet, number, leaves), np.linalg.slogdet(a)[1], rtol=1e-12)
    inverse = b.raw("inverse", (m,), ("D", "D'"))
    np.testing.assert_allclose(value(b, inverse, number, leaves), np.linalg.inv(a), rtol=1e-10)
    solved = b.raw("solve", (m, v), ("D", "D'"))
    np.testing.assert_allclose(value(b, solved, number, leaves), np.linalg.solve(a, w), rtol=1e-10)
    eigvals = b.raw("eigvals", (m,), ("D", "D'", "K"))
    np.testing.assert_allclose(value(b, eigvals, number, {"m": s}, K=4), np.linalg.eigvalsh(s), rtol=1e-8)
    eigvecs = b.raw("eigvecs", (m,), ("D", "D'", "K"))
    vectors = np.abs(value(b, eigvecs, number, {"m": s}, K=4).astype(float))  # along D and K; their signs are free
    np.testing.assert_allclose(vectors, np.abs(np.linalg.eigh(s)[1]), rtol=1e-8)


@pytest.mark.parametrize("number", NUMBERS)
def test_root_of_a_falling_and_a_rising_function(b: Builder, number: str) -> None:
    """Sparsemax's threshold: Σ relu(z - t) = 1; and the cube root."""
    x = leaf(b, "x", "N", "C")
    t = b.var(0, Type(frozenset({"N"})))
    top = b.reduce("max", ("C",), x)
    total = b.reduce("sum", ("C",), b.node("relu", [b.node("sub", [x, t])]))
    root = b.raw("root", (b.node("sub", [top, b.const(1)]), top, b.node("sub", [total, b.const(1)])), (0,))
    given = {"x": [[1.0, 0.5, -3.0], [5.0, 1.0, 1.0], [0.0, 0.0, 0.0]]}
    np.testing.assert_allclose(value(b, root, number, given), [0.25, 4.0, -1 / 3], rtol=1e-15, atol=1e-16)
    u = b.var(1, Type(frozenset({"N"})))
    cube = b.node("sub", [b.node("mul", [b.node("mul", [u, u]), u]), leaf(b, "w", "N")])
    rising = b.raw("root", (b.const(-10), b.const(10), cube), (1,))
    out = value(b, rising, number, {"w": [8.0, -27.0, 2.0]})
    np.testing.assert_allclose(out, [2, -3, 2 ** (1 / 3)], rtol=1e-15)


def test_digits_are_digits(b: Builder) -> None:
    x = leaf(b, "x")
    out = evaluate(b.graph({"aux.x": b.node("exp", [x])}), b.registry, {"x": 1.0}, number="mpmath")["aux.x"]
    assert str(out[()])[:52] == "2.71828182845904523536028747135266249775724709369995"


@pytest.mark.parametrize("number", NUMBERS)
def test_a_leaf_may_have_its_axes_in_any_order(b: Builder, number: str) -> None:
    x = leaf(b, "x", "C", "N")
    out = evaluate(b.graph({"rows": b.reduce("sum", ("C",), x), "grad.x": x}), b.registry, {"x": X.T}, number=number)
    np.testing.assert_allclose(out["rows"].astype(float), X.sum(1))
    np.testing.assert_array_equal(out["grad.x"].astype(float), X.T)


def test_shapes_that_contradict(b: Builder) -> None:
    total = b.node("add", [leaf(b, "x", "N"), leaf(b, "y", "N")])
    with pytest.raises(InternalError, match="N is 3, but 2 in y"):
        value(b, total, "float64", {"x": np.zeros(3), "y": np.zeros(2)})
    with pytest.raises(InternalError, match="without y"):
        value(b, total, "float64", {"x": np.zeros(3)})
