"""Names that a function brings meet none of the caller's: values of written-out functions against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.check.worth import close, rows, value

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 3))
Z = RNG.normal(size=(5, 4))
Y = np.array([0, 3, 1, 1, 2])
S = X @ X.T


def test_rank_along_a_copy_of_the_batch() -> None:
    got = rows("input x[N, D]\ns = dot[D](x, x')\nreturn sum[N'](s * rank[N'](s))", {"x": X})
    places = (-S).argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    close(got, (S * places).sum(1))


def test_a_copy_inside_a_def_is_not_the_arguments_copy() -> None:
    text = "input x[N, D]\ndef spread[A](z) = sum[A, A'](abs(z - z[A -> A']))\nreturn spread[N'](dot[D](x, x'))"
    close(rows(text, {"x": X}), np.abs(S[:, :, None] - S[:, None, :]).sum((1, 2)))


def test_a_new_name_inside_a_def_is_fresh() -> None:
    text = "input x[N, D]\ndef gram(v) = sum[D, E](v * v[D -> E])\nreturn gram(x) + sum[E](x * x[D -> E])[D -> 0]"
    close(rows(text, {"x": X}), X.sum(1) ** 2 + X[:, 0] * X.sum(1))


def test_an_order_inside_a_prelude_function_leaves_the_files_axis_alone() -> None:
    text = (
        "input z[N, C]\ns = z[descending[C -> K](z)]\nreturn sum[K](s * K) + quantile[C](z, 0.3) + quantile[K](s, 0.5)"
    )
    down = -np.sort(-Z, axis=1)
    want = (down * np.arange(4)).sum(1) + np.quantile(Z, 0.3, axis=1) + np.median(Z, axis=1)
    close(rows(text, {"z": Z}), want)


def test_rows_of_a_matrix_against_each_other() -> None:
    text = "input x[N, D]\ns = dot[D](x, x')\nreturn cross_entropy(s, N)"
    close(rows(text, {"x": X}), np.log(np.exp(S).sum(1)) - np.diag(S))


def test_a_callees_copies_beside_the_callers() -> None:
    text = "input x[N, D]\nreturn pairs(dot[D](x, x'))"
    want = (np.maximum(((S[:, None, :] - S[None, :, :]) ** 2).sum(2), 0) * (1 - np.eye(5))).sum(1)
    close(rows(text, {"x": X}), want)


def test_conditions_of_a_callee_are_its_own() -> None:
    r = np.where(Z > 1, -1.0, 1.0)
    there = r >= 0
    text = "input s[N, C]\ninput r[N, C]: fixed\nreturn 2 * listwise(s, r) + sum[C](s)"
    lse = np.log((np.exp(Z) * there).sum(1))
    close(rows(text, {"s": Z, "r": r}), 2 * (lse - (Z * there).sum(1) / there.sum(1)) + Z.sum(1))


def test_rows_that_a_callee_leaves_out_do_not_count() -> None:
    w = np.array([1.0, -1, 1, 0, 2])
    out = value("input e[N]\ninput w[N]: fixed\nreturn kept(e, w) + 1", {"e": X[:, 0], "w": w})
    close(out["rows"], np.where(w > 0, X[:, 0] ** 2 + 1, 0))
    close(out["weight"], (w > 0).astype(float))


def test_rows_that_a_callee_leaves_out_of_its_own_mean() -> None:
    w = Z - 0.2
    got = rows("input e[N, M]\ninput w[N, M]: fixed\nreturn kept(e, w)", {"e": Z, "w": w})
    close(got, (Z**2 * (w > 0)).sum(1) / np.maximum((w > 0).sum(1), 1))


def test_an_axis_that_a_callee_declares() -> None:
    text = "input z[N, C], x[N, D]\nreturn top_two(z) + 3 * top_two(x)"
    best = -np.sort(-Z, axis=1)[:, :2], -np.sort(-X, axis=1)[:, :2]
    close(rows(text, {"z": Z, "x": X}), best[0].sum(1) + 3 * best[1].sum(1))


def test_a_map_of_a_vector_takes_the_axis_that_is_no_batch() -> None:
    close(rows("input z[N, K]\nreturn sum[K](center(z)^2)", {"z": Z}), ((Z - Z.mean(1, keepdims=True)) ** 2).sum(1))


def test_a_default_fills_the_axes_of_a_callees_input() -> None:
    text = "input logits[N, C]\ninput target[N]: index C\nreturn filled(logits, target)"
    close(rows(text, {"logits": Z, "target": Y}), -2 * Z[np.arange(5), Y])


def test_a_number_fills_the_axes_of_a_callees_input() -> None:
    text = "input logits[N, C]\ninput target[N]: index C\nreturn filled(logits, target, alpha = 5)"
    close(rows(text, {"logits": Z, "target": Y}), -5 * Z[np.arange(5), Y])


def test_modes_choose_functions() -> None:
    text = "input x[N]\nparam act = double in {double, tanh, pairwise}\ndef double(x) = 2 * x\n"
    text += "def pairwise(x) = sum[N'](x - x')\nreturn act(x)"
    x = X[:, 0]
    close(rows(text, {"x": x}), 2 * x)
    close(rows(text, {"x": x}, {"act": "tanh"}), np.tanh(x))
    close(rows(text, {"x": x}, {"act": "pairwise"}), 5 * x - x.sum())


def test_modes_of_a_callee_go_by_name() -> None:
    d = ((X[:, None] - X[None]) ** 2).sum(2)
    close(rows("input x[N, D]\nreturn pairs(x, act = tanh)", {"x": X}), np.tanh(d).sum(1))


def test_a_mask_that_is_false_for_a_whole_row_gives_the_value_over_nothing() -> None:
    text = "input z[N, C]\ninput w[N]: fixed\nreturn mean[C](z where w > 0) + norm[C](z where w > 0)"
    w = np.array([1.0, -1, 1, -1, 1])
    out = value(text, {"z": Z, "w": w})
    close(out["rows"], np.where(w > 0, Z.mean(1) + np.sqrt((Z**2).sum(1)), 0))


def test_masked_entries_of_normalize_are_zero() -> None:
    text = "input z[N, C]\nreturn sum[C](abs(normalize[C](z where z > 0)) + 1)"
    kept = np.where(Z > 0, Z, 0)
    size = np.sqrt((kept**2).sum(1))
    want = kept.sum(1) / np.where(size > 0, size, 1) + 4
    close(rows(text, {"z": Z}), want)


def test_a_root_varies_along_the_axes_of_its_equation() -> None:
    text = "input z[N, C]\nt = root(t in [-9, 9]: sum[C](tanh(t - z)))\nreturn t"
    got = rows(text, {"z": Z})
    assert got.shape == (5,)
    close(np.tanh(got[:, None] - Z).sum(1), np.zeros(5))


def test_conditions_reach_the_losses_that_a_callee_calls() -> None:
    r = np.where(Z > 1, -1.0, 1.0)
    there = r >= 0
    text = "input s[N, C]\ninput r[N, C]: fixed\nreturn masked_list(s, r) + 10 * plain_list(s)"
    masked = np.log((np.exp(Z) * there).sum(1)) - (Z * there).sum(1) / there.sum(1)
    close(rows(text, {"s": Z, "r": r}), masked + 10 * (np.log(np.exp(Z).sum(1)) - Z.mean(1)))
