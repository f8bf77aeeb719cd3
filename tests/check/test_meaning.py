"""Short forms mean their long forms: both sides of each pair give the same typed tree."""

from __future__ import annotations

import pytest

from lossdsl.check.dump import dump
from lossdsl.check.typed import CheckedLoss
from tests.check.helpers import checked

LOGITS = "input logits[N, C]\ninput target[N]: index C\n"
PAIRS = "input x[N, D], w[C, D]\ninput y[N]: label\n"
TOKENS = "batch B, T\ninput logits[B, T, V]\ninput target[B, T]: index V\ninput mask[B, T]: bool\n"
SQUARE = "input f[N, N']\n"

# (head, short, long)
SAME = {
    "pick": (LOGITS, "return logits[target]", "return logits[C -> target]"),
    "no bracket": (LOGITS, "return logsumexp(logits)", "return logsumexp[C](logits)"),
    "no bracket in a prelude function": (LOGITS, "return var(logits)", "return var[C](logits)"),
    "copies are not batch": (PAIRS, "return sum(sum[D](x * x'))", "return sum[N'](sum[D](x * x'))"),
    "the shared axis": (PAIRS, "return max[C](cosine(x, w))", "return max[C](cosine[D](x, w))"),
    "priming": (PAIRS, "return sum[N'](sum[D](x'))", "return sum[N'](sum[D](x[N -> N']))"),
    "priming a matrix": (
        PAIRS,
        "s = dot[D](x, x')\nreturn sum[N', N''](s * s')",
        "s = dot[D](x, x')\nreturn sum[N', N''](s * s[N -> N', N' -> N''])",
    ),
    "piping": (
        LOGITS,
        "return logits |> temperature(2) |> logsumexp[C]()",
        "return logsumexp[C](temperature(logits, 2))",
    ),
    "piping into the mean": (LOGITS, "return logits[target] |> mean[N]()", "return mean[N](logits[target])"),
    "short for a mean": (LOGITS, "return logits[target]", "return mean[N](logits[target])"),
    "a def": (LOGITS, "def f(z) = exp(z) + 1\nreturn f(logits)[target]", "return (exp(logits) + 1)[target]"),
    "a def with an axis": (LOGITS, "def f[A](z) = sum[A](z^2)\nreturn f[C](logits)", "return sum[C](logits^2)"),
    "a def of two axes": (
        SQUARE,
        "def f[A](z) = sum[A](z^2)\nreturn exp(f[N, N'](f))",
        "return exp(sum[N, N'](f^2))",
    ),
    "a def sees params and values above": (
        LOGITS + "param t = 2\n",
        "z = logits / t\ndef f(k) = z[target] - k * t\nreturn f(3)",
        "return (logits / t)[target] - 3 * t",
    ),
    "an index parameter": (
        LOGITS,
        "return sum[C](margin(logits, target, 2))",
        "return sum[C](if C == target then logits - 2 else logits)",
    ),
    "an index parameter alone": (
        LOGITS,
        "return sum[C](smooth(target, 0.1) * logits)",
        "return sum[C](((1 - 0.1) * (C == target) + 0.1 / size(C)) * logits)",
    ),
    "a vector parameter": (
        LOGITS + "param coef[K] = [1, 0.5]\n",
        "return poly(logits[target], coef)",
        "return sum[K](coef * logits[target]^(K + 1))",
    ),
    "masks of prelude functions": (
        LOGITS,
        "return mean[C](logits where C != target)",
        "return sum[C](logits where C != target) / max(count[C](logits where C != target), 1)",
    ),
    "masks are joined": (
        LOGITS,
        "def f[A](z[A]) = sum[A](z where z > 0)\nreturn f[C](logits where C != target)",
        "return sum[C](logits where C != target and logits > 0)",
    ),
    "a new name is a copy": (
        PAIRS,
        "return sum[M](dot[D](x, x[N -> M]) where N != M)",
        "return sum[N'](dot[D](x, x') where N != N')",
    ),
    "a loss": (LOGITS, "return cross_entropy(logits, target)", "return logsumexp[C](logits) - logits[target]"),
    "a loss, its rows against each other": (
        SQUARE,
        "return cross_entropy(f, N)",
        "return logsumexp[N'](f) - f[N' -> N]",
    ),
    "a loss along the other axis": (
        SQUARE,
        "return cross_entropy(f[N -> N', N' -> N], N)",
        "g = f[N -> N', N' -> N]\nreturn logsumexp[N'](g) - g[N' -> N]",
    ),
    "a loss with bound axes": (
        "input a[N, C, K]\ninput b[N, C, K]\n",
        "return kd_kl[C = C](a, b, t = 1)",
        "return mean[K](1^2 * kl[C](softmax[C](b / 1), softmax[C](a / 1)))",
    ),
    "rows that aren't the batch are reduced by the callee's word": (
        "input logits[N, M, C]\ninput target[N, M]: index C\n",
        "return cross_entropy(logits, target)",
        "return mean[M](logsumexp[C](logits) - logits[target])",
    ),
    "rows that are the batch are not": (
        TOKENS,
        "return mean[B, T](cross_entropy(logits, target) where mask)",
        "return mean[B, T](logsumexp[V](logits) - logits[target] where mask)",
    ),
    "params of a loss": (
        LOGITS,
        "return poly1_ce(logits, target, epsilon = 3)",
        "p = softmax[C](logits)[target]\nreturn -log(p) + 3 * (1 - p)",
    ),
    "defaults of a loss": (
        LOGITS,
        "return poly1_ce(logits, target)",
        "p = softmax[C](logits)[target]\nreturn -log(p) + 2 * (1 - p)",
    ),
    "a loss by named inputs": (
        LOGITS,
        "return cross_entropy(target = target, logits = logits)",
        "return cross_entropy(logits, target)",
    ),
    "a weighted mean inside": (
        LOGITS + "input w[C]: fixed\n",
        "return mean[C](logits weighted w) + logits[target]",
        "s = sum[C](w)\nreturn (if s != 0 then sum[C](w * logits) / s else 0) + logits[target]",
    ),
    "precedence of a sign": (LOGITS, "return -logits[target]^2", "return -(logits[target]^2)"),
}


def _body(loss: CheckedLoss) -> str:
    lines = [line for line in dump(loss).splitlines() if not line.startswith("uses ")]
    return "\n".join(lines)


@pytest.mark.parametrize("name", sorted(SAME))
def test_short_and_long(name: str) -> None:
    head, short, long = SAME[name]
    one, other = (_body(checked(f"loss test\n{head}{text}\n")) for text in (short, long))
    assert one == other
