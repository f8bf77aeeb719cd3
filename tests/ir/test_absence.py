"""What isn't there: construct by construct, with values worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lossdsl.ir.interpret import evaluate
from lossdsl.ir.lower import lower
from lossdsl.pipeline import middle
from lossdsl.source.codes.lower import CODES
from lossdsl.source.codes.record import ErrorCode
from lossdsl.source.diagnostic import DiagnosticError
from lossdsl.source.text import Source
from tests.ir.compiled import REGISTRY, checked, gradients, graph, reduce_rows, values

NAN = np.nan
X = np.array([1.0, 2.0, 4.0, 8.0])
KEEP = np.array([True, False, True, True])
ROWS = "loss t\ninput x[N]\ninput keep[N]: bool\naxis N where keep\n"
STEPS = "loss t\nbatch B\ninput x[B, T]\n"
MASKED = STEPS + "input mask[B, T]: bool\naxis T where mask\n"
XS = np.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
MASK = np.array([[True, False, True], [False, False, True]])


def worth(text: str, **given: Any) -> Any:
    """The loss under the file's reduction; a hidden entry of x is NaN."""
    return reduce_rows(text, values(text, given))


def rows(text: str, **given: Any) -> Any:
    return values(text, given)["rows"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x", [1, 0, 4, 8]),
        ("x / size(N)", [1 / 3, 0, 4 / 3, 8 / 3]),
        ("x + sum[N](N >= 0)", [4, 0, 7, 11]),
        ("x + sum[N](if keep then 0 else 100)", [1, 0, 4, 8]),
        ("x + count[N](x)", [4, 0, 7, 11]),
        ("x - mean[N](x)", [1 - 13 / 3, 0, 4 - 13 / 3, 8 - 13 / 3]),
        ("x + max[N](x)", [9, 0, 12, 16]),
        ("x + max[N'](x')", [9, 0, 12, 16]),
        ("x + sum[N'](N' >= 0)", [4, 0, 7, 11]),
        ("x + sum[N'](N' <= N)", [2, 0, 6, 11]),
        ("x + sum[N'](x' where N' < N)", [1, 0, 5, 13]),
        ("x + sum[K](x[descending[N -> K](x)] * (K + 1))", [1 + 19, 0, 4 + 19, 8 + 19]),
        ("cumsum[N](x)", [1, 0, 5, 13]),
        ("softmax[N](x)", None),
        ("if keep then x else 0", [1, 0, 4, 8]),
        ("0 * x + 5", [5, 0, 5, 5]),
        ("x[N -> N - 1]", [0, 0, 0, 4]),
        ("x + size(N')", [4, 0, 7, 11]),
    ],
)
def test_rows_of_the_batch(expression: str, expected: list[float] | None) -> None:
    if expected is None:
        e = np.where(KEEP, np.exp(X), 0)
        expected = e / e.sum()
    text = f"{ROWS}return {expression}\n"
    out = values(text, {"x": np.where(KEEP, X, NAN), "keep": KEEP})
    np.testing.assert_allclose(out["rows"], expected, rtol=1e-14)
    there = np.array([False, False, False, True]) if "N - 1" in expression else KEEP
    np.testing.assert_array_equal(out["weight"], there)


def test_conditions_on_one_axis_hold_together() -> None:
    text = "loss t\ninput x[N]\ninput a[N], b[N]: bool\naxis N where a\naxis N where b\nreturn x / size(N)\n"
    given = {"a": [True, True, False, True], "b": [True, False, True, True], "x": [1.0, NAN, NAN, 5.0]}
    np.testing.assert_allclose(rows(text, **given), [0.5, 0, 0, 2.5])


def test_a_condition_that_is_absent_counts_as_false() -> None:
    text = STEPS + "axis T where x[T -> T - 1] > 0\nreturn mean[B, T](x)\n"
    np.testing.assert_allclose(worth(text, x=np.array([[1.0, 2.0, -4.0, 3.0]])), (2 - 4) / 2)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("mean[T](x)", [2.5, 32]),
        ("sum[T](x) / size(T)", [5 / 3, 32 / 3]),
        ("sum[T](T >= 0)", [3, 3]),
        ("count[T](x)", [2, 1]),
        ("sum[T](x * sum[T'](1 + 0 * x[T -> T']))", [10, 32]),
        ("sum[T](x * sum[T'](x[T -> T'] where T' < T))", [4, 0]),
        ("logsumexp[T](x)", [np.log(np.exp(1) + np.exp(4)), 32]),
        ("prod[T](x)", [4, 32]),
        ("sum[T](softmax[T](x) * x)", [(np.exp(1) + 4 * np.exp(4)) / (np.exp(1) + np.exp(4)), 32]),
        ("sum[K](x[ascending[T -> K](x)] / (K + 1))", [3, 32]),
    ],
)
def test_a_condition_on_two_axes_skips_values_that_have_both(expression: str, expected: list[float]) -> None:
    """sum[T](T >= 0) has no B: it counts every T."""
    given = {"x": np.where(MASK, XS, NAN), "mask": MASK}
    np.testing.assert_allclose(rows(f"{MASKED}return {expression}\n", **given), expected, rtol=1e-14)


def test_the_callers_reduction_skips_what_the_condition_hides() -> None:
    out = values(f"{MASKED}return mean[B, T](if mask then x else 7)\n", {"x": np.where(MASK, XS, NAN), "mask": MASK})
    np.testing.assert_array_equal(out["rows"], np.where(MASK, XS, 0))
    np.testing.assert_array_equal(out["weight"], MASK)


def test_classes_that_do_not_exist() -> None:
    """A class that is left out has no probability and isn't counted; -inf in its place would be counted."""
    text = "loss t\ninput z[N, C]\ninput live[C]: bool\naxis C where live\n"
    live, z = np.array([True, False, True]), np.array([[1.0, NAN, 2.0], [0.0, NAN, -1.0]])
    e = np.exp(z[:, live])
    p = e / e.sum(1, keepdims=True)
    np.testing.assert_allclose(
        rows(f"{text}return mean[C](softmax(z) * z)\n", z=z, live=live), (p * z[:, live]).mean(1)
    )
    np.testing.assert_allclose(rows(f"{text}return max[C](z) + size(C)\n", z=z, live=live), [5, 3])
    np.testing.assert_allclose(rows(f"{text}return mean[C](log_softmax(z))\n", z=z, live=live), np.log(p).mean(1))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("mean[B, T](x - x[T -> T - 1])", ([[0, 1, 2], [0, 8, 16]], [[0, 1, 1], [0, 1, 1]])),
        ("mean[B, T](x[T -> T + 1])", ([[2, 4, 0], [16, 32, 0]], [[1, 1, 0], [1, 1, 0]])),
        ("mean[B, T](if T == 0 then x else x[T -> T - 1])", ([[1, 1, 2], [8, 8, 16]], None)),
        ("mean[B](sum[T](x[T -> T + 1]))", ([6, 48], None)),
        ("mean[B](max[T](x[T -> T + 2]))", ([4, 32], None)),
        ("mean[B](count[T](x[T -> T - 2]))", ([1, 1], None)),
        ("mean[B](x[T -> 5])", ([0, 0], [0, 0])),
        ("mean[B](sum[T](T >= 0) + x[T -> 5])", ([0, 0], [0, 0])),
        ("mean[B, T](x[T -> T - 1][T -> T + 1])", ([[1, 2, 0], [8, 16, 0]], [[1, 1, 0], [1, 1, 0]])),
        ("mean[B](sum[T](x where x[T -> T - 1] > 1))", ([4, 48], None)),
        ("mean[B](argmax[T](x))", ([2, 2], None)),
        ("mean[B](argmax[T](x where x > 5))", ([0, 2], [0, 1])),
        ("mean[B](x[T -> argmax[T](x where x > 5)])", ([0, 32], [0, 1])),
        ("mean[B](sum[T](x[T -> -1 * T]))", ([1, 8], None)),
    ],
)
def test_reading_outside_an_axis(expression: str, expected: tuple[Any, Any]) -> None:
    out = values(f"{STEPS}return {expression}\n", {"x": XS})
    np.testing.assert_allclose(out["rows"], expected[0])
    weight = np.ones_like(out["rows"]) if expected[1] is None else expected[1]
    np.testing.assert_array_equal(out.get("weight", np.ones_like(out["rows"])), weight)


def test_labels_on_an_axis_of_their_own() -> None:
    text = (
        "loss next_token\nbatch B\ninput logits[B, T, V]\ninput target[B, S]: index V\n"
        "return mean[B, T](-log_softmax[V](logits)[target[S -> T + 1]])\n"
    )
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2, 3, 4))
    y = np.array([[0, 1, -100], [3, 2, 0]])
    z[0, 1] = NAN  # its next label is ignored, but only the label's own place is left out
    z[0, 1] = rng.normal(size=4)
    logp = z - np.log(np.exp(z).sum(-1, keepdims=True))
    want = np.zeros((2, 3))
    want[0, 0], want[1, 0], want[1, 1] = -logp[0, 0, 1], -logp[1, 0, 2], -logp[1, 1, 0]
    out = values(text, {"logits": z, "target": y})
    np.testing.assert_allclose(out["rows"], want, rtol=1e-13)
    np.testing.assert_array_equal(out["weight"], want != 0)


def test_an_order_with_fewer_entries_than_places() -> None:
    text = "loss t\ninput z[N, C]\naxis K = 3\npi = descending[C -> K](z)\noutput pi\nreturn "
    z = np.array([[1.0, 5.0], [7.0, 2.0]])
    np.testing.assert_allclose(rows(f"{text}sum[K](z[pi] * (K + 1))\n", z=z), [5 + 2, 7 + 4])
    np.testing.assert_allclose(rows(f"{text}count[K](z[pi])\n", z=z), [2, 2])
    wide = np.array([[1.0, 5.0, 2.0, 4.0]])
    np.testing.assert_allclose(rows(f"{text}sum[K](z[pi])\n", z=wide), [11])


def test_weights() -> None:
    text = ROWS + "input w[N]\nreturn mean[N](x weighted w)\n"
    given = {"x": np.where(KEEP, X, NAN), "keep": KEEP, "w": np.array([1.0, NAN, 2.0, 0.5])}
    out = values(text, given)
    np.testing.assert_allclose(out["rows"], [1, 0, 8, 4])
    np.testing.assert_allclose(out["weight"], [1, 0, 2, 0.5])
    gradient = gradients(text, given, {"@rows": np.ones(4), "@weight": np.full(4, 3.0)})
    np.testing.assert_allclose(gradient["w"], [1 + 3, 0, 4 + 3, 8 + 3])
    np.testing.assert_allclose(gradient["x"], [1, 0, 2, 0.5])


def test_where_of_the_callers_reduction() -> None:
    text = "loss t\ninput x[N]\nreturn mean[N](x where x > 1)\n"
    out = values(text, {"x": X})
    np.testing.assert_array_equal(out["rows"], [0, 2, 4, 8])
    np.testing.assert_array_equal(out["weight"], [0, 1, 1, 1])


def test_outputs_are_0_where_they_are_absent() -> None:
    text = ROWS + "y = x^2\nbig = x > 3\noutput y, big\nreturn x\n"
    out = values(text, {"x": np.where(KEEP, X, NAN), "keep": KEEP})
    np.testing.assert_array_equal(out["aux.y"], [1, 0, 16, 64])
    np.testing.assert_array_equal(out["aux.big"], [False, False, True, True])


def test_an_input_is_read_within_its_interval_where_it_is_absent() -> None:
    """A logarithm of what isn't there would be infinite at 0, and its gradient NaN."""
    text = "loss t\ninput x[N] in (0, 1]\ninput keep[N]: bool\naxis N where keep\nreturn -log(x)\n"
    given = {"x": np.where(KEEP, [0.5, 0.25, 1.0, 0.125], NAN), "keep": KEEP}
    np.testing.assert_allclose(rows(text, **given), [np.log(2), 0, 0, np.log(8)], atol=1e-16)
    np.testing.assert_allclose(gradients(text, given, {"@rows": np.ones(4)})["x"], [-2, 0, -1, -8])


def test_determinants_and_solutions_without_the_absent_rows() -> None:
    rng = np.random.default_rng(4)
    z = rng.normal(size=(4, 4))
    gram, g = z @ z.T, (z @ z.T)[np.ix_(KEEP, KEEP)]
    text = "loss t\ninput m[N, N']\ninput b[N]\ninput keep[N]: bool\naxis N where keep\nreturn "
    m = np.where(KEEP[:, None] & KEEP, gram, NAN)
    given = {"m": m, "b": np.where(KEEP, X, NAN), "keep": KEEP}
    np.testing.assert_allclose(worth(f"{text}logdet[N, N'](m)\n", **given), np.linalg.slogdet(g)[1])
    found = rows(f"{text}solve[N, N'](m, b)[N' -> N]\n", **given)
    np.testing.assert_allclose(found[KEEP], np.linalg.solve(g, X[KEEP]), rtol=1e-9)
    assert found[1] == 0
    spectrum = f"{text}sum[K](exp(-eigvals[N, N' -> K](m)) * (K + 1)) + 0 * sum[N](b)\n"
    want = (np.exp(-np.linalg.eigvalsh(g)) * np.arange(1, 4)).sum()
    np.testing.assert_allclose(worth(spectrum, **given), want, rtol=1e-12)


def test_a_loss_without_absence_has_no_weight() -> None:
    assert "weight" not in dict(graph("loss t\ninput x[N, C]\nreturn sum[C](x^2)\n").outputs)


def test_a_map_keeps_its_axes() -> None:
    out = values("map half\ninput x[N, C]\nreturn x / 2\n", {"x": XS})
    np.testing.assert_array_equal(out["rows"], XS / 2)


def test_a_loss_that_is_too_large_is_told() -> None:
    lines = ["loss wide", "input x0[N]"]
    for i in range(1, 9):
        terms = " + ".join(f"x{i - 1}[N -> N + {k}]^{k}" for k in range(1, 9))
        lines.append(f"x{i} = {terms}")
    with pytest.raises(DiagnosticError) as error:
        graph("\n".join([*lines, "return x8", ""]))
    assert error.value.diagnostics[0].code in ("E0801", "E0410")


def test_probabilities_given_as_labels_are_one_hot_and_may_be_ignored() -> None:
    text = "loss soft\ninput logits[N, C]\ninput target[N, C]: prob C\nreturn -sum[C](target * log_softmax(logits))\n"
    g = lower(checked(text), REGISTRY, hard={"target"})
    z = np.array([[1.0, 2.0, 4.0], [NAN, NAN, NAN], [0.0, 1.0, 0.0]])
    out = evaluate(g, REGISTRY, {"logits": z, "target": np.array([2, 9, 0]), "@ignore_index": 9})
    logp = z - np.log(np.exp(z).sum(1, keepdims=True))
    np.testing.assert_allclose(out["rows"], [-logp[0, 2], 0, -logp[2, 0]], rtol=1e-14)
    np.testing.assert_array_equal(out["weight"], [1, 0, 1])


@pytest.mark.parametrize("code", CODES, ids=lambda c: c.code)
def test_the_examples_of_codes_produce_them(code: ErrorCode) -> None:
    with pytest.raises(DiagnosticError) as error:
        middle(Source("example.loss", code.example), REGISTRY, {"head": "linear"} if code.code == "E0803" else None)
    assert [d.code for d in error.value.diagnostics] == [code.code]
