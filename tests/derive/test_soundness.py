"""False claims that were once called proved: whatever becomes of them, it isn't that."""

from __future__ import annotations

import pytest

from tests.derive.test_claims import HEAD, verdicts

X = "loss l\ninput x[N]\n"
Z = "loss l\ninput z[N, C]\n"
NONE = [  # tests that hold of numbers, of sides that may be none
    "relu(log(x)) >= 0",
    "exp(log(x) - log(y)) >= 0",
    "(x / y)^2 >= 0",
    "abs(x / y) >= 0",
    "sigmoid(log(x) - log(y)) <= 1",
    "sqrt(x) <= inf",
    "x / x > 0",
    "exp(log(x)) < x + 1",
    "min(sqrt(x), 3) <= 3",
    "atan(1/x - 1/x) <= 2",  # folded to a number
    "digamma(x)^2 >= 0",
    "log(x) - log(x) == 0",
    "(x * y) / x <= y^2 + 1",
    "not (tanh(sqrt(x)) != tanh(sqrt(x)))",
]
POLES = [
    ("x^-1", 0), ("x^-3", 0), ("(x - 1)^-1", 0), ("atan(x^-1)", 0), ("tanh(x^-3)", 0), ("exp(-x^-1)", 1),
    ("sigmoid(2/x)", 0.5), ("(1/x)^3", 0), ("1/(x - 1)^3", 0), ("softplus(1/x)", 0.7),
]  # fmt: skip
FALSE = [
    # powers with a base below 0
    (X + "param k = 2 in [1, 4]\nreturn x^k\n", "loss >= 0"),
    (X + "return x^65\n", "loss >= 0"),
    ("loss l\ninput x[N] in [-2, -1]\nreturn x^66\n", "loss <= 0"),
    # axes that the file sizes, and axes beside the batch and the classes
    (X + "axis K = 3\nreturn x^2 + sum[K](K)\n", "loss <= x^2 + 1"),
    (X + "axis K = 5\nreturn sum[K](exp(-K*x*x)*(K>2))\n", "loss <= 0"),
    (
        "loss l\ninput logits[N, K, C]\ninput target[N, K]: index C\n"
        "lp = log_softmax[C](logits)[target]\nreturn max[K](lp) - min[K](lp)\n",
        "loss <= 0",
    ),
    # the batch: which row, and how many
    (X + "return x^2 + 1 - size(N)\n", "loss >= 0"),
    (X + "return x^2 - N\n", "loss >= 0"),
    (HEAD + "return -log_softmax(logits)[target] - (if N > 5 then 1 else 0)\n", "loss >= 0"),
    # x/0 has the sign of x, and 0·inf is 0
    (X + "return -1 / min(x, 0)\n", "loss >= 0"),
    ("loss l\ninput x[N] in (-inf, 0]\nreturn 1 / x\n", "loss <= 0"),
    (X + "return x * (1 / x)\n", "loss >= 1"),
    (X + "return x * (1 / x)\n", "lipschitz(x) <= 0"),
    (X + "input y[N]\nd = x - y - 1.5e9\nreturn d * (1 / d)\n", "loss == 1"),
    (X + "input y[N]\nu = exp(-1 / (x - y - 1.5e9)^2)\nreturn u * (1 / u)\n", "loss >= 1"),
    (X + "input y[N]\nu = exp(1 / (x - y - 1.5e9)^2)\nreturn u * (1 / u)\n", "loss >= 1"),
    (X + "input y[N]\nreturn (x * (y - 1.5e9))^-1 - x^-1 * (y - 1.5e9)^-1\n", "loss <= 0"),
    # odd poles jump, whatever the sign of their slope
    *((f"{X}return {returned}\n", f"loss {op} {bound}") for returned, bound in POLES for op in (">=", "<=")),
    *((f"{X}return {returned}\n", "lipschitz(x) <= 2") for returned in ("atan(x^-1)", "atan(1/x)", "sigmoid(x^-3)")),
    # tests as numbers jump, and poles bend
    (X + "return exp(x > 1e9)\n", "lipschitz(x) <= 0"),
    (X + "return exp(x > 1e9)\n", "convex(x)"),
    ("loss l\ninput x[N, C]\nreturn sum[C](x > 1e9)\n", "lipschitz(x) <= 0"),
    (X + "return (x - 1e9)^-2\n", "convex(x)"),
    # a distribution may have zeros
    (X + "input q[N, C]: prob C\nreturn 0*x + sum[C](if q == 0 then 1 else 0)\n", "loss == 0"),
    (X + "input q[N, C]: prob C\nreturn 0*x + sum[C](if q == 0 then 1 else 0)\n", "loss <= 0"),
    (
        "loss l\ninput q[N, C]: prob C\nparam tau = 1 in [0, 1]\nreturn sum[C](q^tau)\n",
        "loss == size(C) when tau -> 0",
    ),
    # a step is not continuous, a scalar input is an input
    (X + "param tau = 1 in [0, 2]\nreturn floor(tau) * x\n", "loss == x when tau -> 1"),
    (
        "loss l\ninput x[N, C]\ninput target[N]: index C\ninput s\n"
        "return x[target] - mean[C](x) + relu(abs(s) - 1e6)\n",
        "symmetric(target)",
    ),
    # what has no value is less than nothing
    ("loss l\ninput x[N] in [-2, 0.5]\nreturn if sqrt(x) <= 1 then 1 else -1\n", "loss >= 0"),
    (
        "loss l\ninput u[N] in [-1e-9, 1e9]\ninput s[N]\ninput z[N]\n"
        "return if sqrt(u) > s - 5e8 then 1 else s - 5e8 - min(z, 0)\n",
        "loss >= 0",
    ),
    (
        "loss l\ninput u[N] in [0, inf)\ninput v[N] in [0, inf)\ninput s[N]\ninput z[N]\n"
        "return if softplus(log(u) - log(v)) > s - 5e8 then 1 else s - 5e8 - min(z, 0)\n",
        "loss >= 0",
    ),
    # a folded scalar lies where it lies, not where the node did that it was folded from
    (X + "input y[N]: fixed\nreturn if x*y > 0 then exp(log(x*y)) else x*y\n", "loss >= 0"),
    (X + "return if x > 0 then expm1(log(x)) else x - 1\n", "loss >= -1"),
    (X + "return (if x > 1 then exp(log(x - 1)) else 0) + (x - 1)\n", "loss >= 0"),
    # limits almost everywhere
    (X + "param tau = 1 in [0, 2]\nreturn abs(x - 0.3137)^tau\n", "loss == 1 when tau -> 0"),
    (X + "param tau = 1 in [0, 2]\nreturn tau / (tau + abs(x - 0.3137))\n", "loss == 0 when tau -> 0"),
    (X + "param tau = 1 in [0, 2]\nreturn exp(-abs(x - 0.3137) / tau)\n", "loss == 0 when tau -> 0"),
    (
        X + "param tau = 1 in [0, 2]\nreturn (max(tau, x) - max(0, x)) / tau\n",
        "loss == (if x > 0 then 0 else 0) when tau -> 0",
    ),
    (X + "param tau = 1 in [0, 2]\nreturn round(tau)\n", "loss == 0*x when tau -> 1/2"),
    # infinities move nowhere
    (Z + "param temp = 1 in [0, 1]\nreturn argmax[C](z / temp)\n", "shift_invariant(z)"),
    # a class of -inf leaves another a probability of 1
    *(
        (
            Z + "input t[N]: index C\ninput y[N]: fixed\ns = if C == t then z else (if y > 1e6 then -inf else z)\n"
            "p = softmax[C](s)[t]\nreturn (1 - p) * (1 / (1 - p))\n",
            claim,
        )
        for claim in ("loss == 1", "loss >= 1")
    ),
    # numbers that are near others
    (X + "return 0*x + 884279719003555 / 281474976710656\n", "loss >= pi"),
    ("loss l\ninput x[N] in [1.7e308, inf)\nreturn 1 / (2*x)\n", "loss <= 0"),
    (X + "return x*(1/x) + x*(2/x) - 3\n", "loss >= 0"),
    # targets as numbers, ints below 0, three entries
    (Z + "input t[N]: index C\nreturn t - 2 + 0*z[t]\n", "loss <= 0"),
    (X + "input k[N]: int\nreturn x^2 + (k - 3)^2*k\n", "loss >= 0"),
    *((f"{X}input y[N]\nreturn if {test} then 1 else -1\n", "loss >= 0") for test in NONE),
]


@pytest.mark.parametrize(("text", "claim"), FALSE)
def test_a_false_claim_is_not_proved(text: str, claim: str) -> None:
    (verdict,) = verdicts(text, claim)
    assert verdict.status != "proved", verdict.detail


TRUE = [
    ("loss l\ninput x[N] in (0, inf)\nreturn 1/x\n", "convex(x)", "second derivative"),
    (X + "return sqrt(1e12 - x)^2\n", "loss == 1e12 - x", "where both sides have a value"),
    (HEAD + "return 1 - softmax(logits)[target]\n", "loss >= 0", ""),
    (Z + "input t[N]: index C\nreturn -1 / log_softmax[C](z)[t]\n", "loss >= 0", "from two on"),  # -inf for one
    (X + "input y[N]\nd = 1 + exp(x - y)\nreturn d * (1 / d)\n", "loss == 1", ""),
    ("loss l\ninput u[N] in [0, inf)\ninput s[N]\nreturn if sqrt(u) > s then 1 else s - min(s, 0)\n", "loss >= 0", ""),
    (X + "axis K = 3\nreturn x^2 + sum[K](K)\n", "loss >= 3", "K = 3"),
    (X + "axis K = 3\nreturn x^2 + sum[K](K)\n", "loss == x^2 + 3", "K = 3"),
    ("loss l\ninput x[N] in (-inf, 0)\nreturn 1 / x\n", "loss <= 0", ""),
    ("loss l\ninput x[N] in (0, 1)\nreturn x * (1 / x)\n", "loss >= 1", ""),
    (HEAD + "return log_softmax(logits)[target] / sum[C](log_softmax(logits))\n", "loss >= 0", ""),
]


@pytest.mark.parametrize(("text", "claim", "how"), TRUE)
def test_a_true_one_still_is(text: str, claim: str, how: str) -> None:
    (verdict,) = verdicts(text, claim)
    assert verdict.status == "proved", verdict
    assert how in verdict.detail


BENDS = [
    (X + "return abs(x) - 2 * relu(x - 1000)\n", "convex(x)"),
    (X + "return x^2 - 100*abs(x + 50)\n", "convex(x)"),
    (X + "return x + relu(x - 12345) * 3\n", "lipschitz(x) <= 2"),
    (X + "return x^2 - (if x == 0.123 then -5 else 0)\n", "convex(x)"),
    (X + "return x^2 + (if x == 0.123 then -5 else 0)\n", "loss >= 0"),
    (X + "return x^2 + (if x > 0.5173 and x < 0.5183 then -5 else 0)\n", "loss >= 0"),
    (X + "return abs(x) + (if x > 1e6 then -1e7 else 0)\n", "loss >= 0"),
    (HEAD + "pt = softmax(logits)[target]\nreturn if pt > 0.9999999 then -1 else 1-pt\n", "loss >= 0"),
    (HEAD + "return cross_entropy(logits, target) + relu(logits[target] - 5000)*1e-3\n", "shift_invariant(logits)"),
    (
        HEAD + "param a = 1 in [0, inf)\nreturn cross_entropy(logits, target) - (if a > 777 then 1 else 0)\n",
        "loss >= 0",
    ),
]


@pytest.mark.parametrize(("text", "claim"), BENDS)
def test_points_reach_where_a_loss_turns(text: str, claim: str) -> None:
    (verdict,) = verdicts(text, claim)
    assert verdict.status == "refuted", verdict


def test_without_such_points_they_would_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is seen by these tests."""
    from lossdsl.derive.claims import at_points

    monkeypatch.setattr(at_points, "suspects", lambda *args: ())
    found = [verdicts(text, claim)[0].status for text, claim in BENDS[3:5]]
    assert found == ["held"] * 2


JUMPS = [
    (X + "return exp(x > 1e6)\n", "lipschitz(x) <= 0"),
    (X + "return floor(x) + 0 * x\n", "lipschitz(x) <= 1"),
    (X + "return (if x > 777 then 1 else 0) + x\n", "lipschitz(x) <= 1"),
    (X + "input k[N]: int\nreturn x^2 - (if k > 100 then 1 else 0)\n", "loss >= 0"),
    (X + "param k: int = 2 in [1, 9]\nreturn x^2 - (if k == 9 then 1 else 0)\n", "loss == x^2"),
    (X + "return (x - 1e9)*(1/(x - 1e9))\n", "loss == 1"),
]


@pytest.mark.parametrize(("text", "claim"), JUMPS)
def test_a_jump_refutes(text: str, claim: str) -> None:
    (verdict,) = verdicts(text, claim)
    assert verdict.status == "refuted", verdict


ROUNDED = [
    (Z + "input t[N]: index C\np = softmax[C](z)\nreturn if p[t] < 1 then 1 else -1\n", "loss >= 1"),
    (X + "return (exp(x) + 1)^2 - exp(2*x) - 2*exp(x) - 1\n", "loss >= 0"),
    (X + "input y[N]: fixed\nreturn exp(x)*(1 + exp(y)) - exp(x + y) - exp(x)\n", "loss <= 0"),
]


@pytest.mark.parametrize(("text", "claim"), ROUNDED)
def test_what_may_be_rounding_refutes_nothing(text: str, claim: str) -> None:
    (verdict,) = verdicts(text, claim)
    assert verdict.status in ("held", "proved"), verdict
