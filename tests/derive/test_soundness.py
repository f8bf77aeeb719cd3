"""False claims that were once called proved: whatever becomes of them, it isn't that."""

from __future__ import annotations

import pytest

from tests.derive.test_claims import HEAD, verdicts

X = "loss l\ninput x[N]\n"
Z = "loss l\ninput z[N, C]\n"
ZT = Z + "input t[N]: index C\n"
YS = "input y[N, K]\ninput s[N]: index K\n"
W = X + "input w[N]: fixed\n"
INSIDE = "loss l\ninput x[N] in (0, 1)\n"
YES = "input t[N]: bool\n"
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
    # a softmax of logarithms of 0 alone has no logarithm
    ("loss l\ninput x[N, C] in [0, inf)\nreturn logsumexp[C](log_softmax(log(x)))\n", "loss == 0"),
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
    # what a rule makes a number of, though a step of it has no value: a test of it fails
    (W + "input y[N]\nreturn if (1/w)*y + 1 - (1/w)*y > 0 then 1 else -1\n", "loss >= 1"),
    (W + "u = 1/w\nreturn if softplus(u) - u >= 0 then 1 else -1\n", "loss >= 1"),
    (W + "g = 1/w\nreturn if abs(g - 2*g*sigmoid(x)) >= 0 then 1 else -1\n", "loss >= 1"),
    (W + "g = 1/w\nreturn if abs(g*exp(x) - g) >= 0 then 1 else -1\n", "loss >= 1"),
    ("loss l\ninput x[N, C]\ninput w[N]: fixed\nreturn if abs(sum[C](x/w)) >= 0 then 1 else -1\n", "loss >= 1"),
    (W + "u = 1/w^2\nreturn if exp(u)/(exp(u) + exp(x)) >= 0 then 1 else -1\n", "loss >= 1"),
    (W + "u = 1/w\nreturn if abs(u - (if x > 0 then 0 else 2 + u)) >= 0 then 1 else -1\n", "loss >= 1"),
    (W + "return 0*x\n", "loss >= (if abs(1/w - 1/w) >= 0 then 0 else 1)"),
    (X + "input y[N]: fixed\nreturn if x > 0 then x else x + y*(1/y) - 1\n", "lipschitz(x) <= 1"),
    # what is counted below a probability, several kinds of classes, labels, entries that aren't there
    (ZT + "return -log_softmax(z*size(C))[t]\n", "lipschitz(z) <= 2*sqrt(2)"),
    (ZT + "return -log_softmax(z/(if C < 11 then 1 else 0.001))[t]\n", "lipschitz(z) <= sqrt(2)"),
    (ZT + YS + "return z[t]^2 + y[s]^2 + (size(C) - size(K))\n", "loss >= 0"),
    (ZT + YS + "return z[t]^2 + y[s]^2 - (if t >= size(K) then 1 else 0)\n", "loss >= 0"),
    (
        X + "input a[N]: label\ninput b[N]: label\ninput c[N]: label\n"
        "return x^2 + (if a != b and b != c and a != c then -1 else 1)\n",
        "loss >= 1",
    ),
    ("loss l\ninput x[N, D]\nreturn x[D -> 12]^3\n", "loss >= 0"),
    ("loss l\ninput x[N, D]\nreturn x[D -> 0]^2\n", "loss >= x[D -> 12]"),
    (X + "input k[N]: index N\nreturn x^2 - k\n", "loss >= 0"),
    (X + "input k[N]: index N\nreturn if k > 0 then x^2 else -x^2\n", "loss <= 0"),
    (X + "axis K = size(N)\nreturn x^2 + 1 - size(K)\n", "loss >= 0"),
    # what no derivative sees
    (X + "return x^2 - detach(x^4)*1e-30\n", "convex(x)"),
    (X + "return x^2 - detach(exp(x - 1e7))\n", "convex(x)"),
    (ZT + "return z[t] - mean[C](z) + floor(2*sigmoid(z[C -> 0] - 1e6))\n", "symmetric(t)"),
    (ZT + "return z[t] - mean[C](z) + round(0.9*sigmoid(z[C -> 0] - 1e6))\n", "symmetric(t)"),
    (ZT + "return z[t] - mean[C](z) + (z[C -> 0]*z[C -> 1] > 1e40)\n", "symmetric(t)"),
    (X + YES + "return (if t then softplus(-x) else softplus(x)) - floor(2*sigmoid(x - 1e6))\n", "proper"),
    (X + YES + "return (if t then softplus(-x) else softplus(x)) - (x*abs(x) > 1e22)\n", "proper"),
    # limits, and names that are taken
    (
        "loss l\ninput x[N] in [1, 2]\nparam k = 1 in (0, inf)\nreturn exp(-1000*x/(1 + 1/k))\n",
        "loss == 0 when k -> inf",
    ),
    (
        X + "param k = 1 in (0, inf)\nparam u = 1 in (0, inf)\nreturn x + exp(-500*(2+u))*(u*k-1)/(u*k+1)\n",
        "loss == x when k -> inf",
    ),
    (
        ZT + "param p = 0.5 in [0, 1]\nq = softmax[C](z)[t]\nreturn q*(1 - q)*(if abs(q - p) > 0.999 then -1 else 1)\n",
        "loss >= 0",
    ),
    # several targets in a row, what of it is ignored, a maximum of nothing
    (
        "loss l\ninput x[N, C]\ninput t[N, T]: index C\np = softmax[C](x)\n"
        "return mean[T](if t == t[T -> 0] then p[C -> t] else x[C -> 0])\n",
        "symmetric(t)",
    ),
    (
        "loss l\ninput x[N, C]\ninput t[N]: index C\np = softmax[C](x)\n"
        "return mean[N'](if t == t[N -> N'] then p[t] else x[C -> 0])\n",
        "symmetric(t)",
    ),
    ("loss l\ninput x[N, T, C]\ninput t[N, T]: index C\nreturn sum[T](1 + 0*relu(x[C -> t]))\n", "loss == size(T)"),
    ("loss l\ninput x[N, T, C]\ninput t[N, T]: index C\nreturn sum[T](1 + relu(x[C -> t]))\n", "loss >= 1"),
    (
        ZT + "input w[N, C]: bool\nm = max[C](z where w)\nreturn z[t] - (if abs(m) < inf then m else 0)\n",
        "shift_invariant(z)",
    ),
    # an end that is excluded, where a test of it would change
    *((f"{INSIDE}return {e}\n", "lipschitz(x) <= 0.5") for e in ("relu(x)", "max(x, 0)", "x*(x > 0)")),
    (INSIDE + "return if x > 0 then -1 else 1\n", "loss >= 0"),
    ("loss l\ninput x[N] in (-1, 1)\nreturn if x^2 < 1 then -1 else 1\n", "loss >= 0"),
    ("loss l\ninput x[N] in [0, 1)\nreturn max(x, 1) - x^4\n", "lipschitz(x) <= 3.99"),
    (ZT + "input y[N]\np = softmax[C](z)[t]\nreturn relu(y - 1e6)*(if p > 0 then -1 else 1)\n", "loss >= 0"),
    (INSIDE + "return if x > 0 then 1 else -1\n", "loss <= -1"),
    ("loss l\ninput x[N] in (0, inf)\nreturn x - (if x > 0 then 1 else 0)\n", "loss >= -0.5"),
    (X + "param d = 1 in (0, inf)\nreturn if d > 0 then -x^2/d else x^2\n", "loss >= 0"),
    (X + "input s[N] in (0, inf)\nreturn x^2*(s > 0) - (s > 0)\n", "loss >= 0"),
    ("loss l\ninput x[N] in (0, 5)\nparam m = 1 in (0, inf)\nreturn relu(m*x)\n", "lipschitz(x) <= m/2"),
    ("loss l\ninput x[N] in (-1, 0)\nreturn 1/x + 5\n", "loss >= 0"),
    # of an input at one of its values
    (X + "return x^2\n", "grad(x) == 0 when x = 3"),
    (X + "return x^2\n", "lipschitz(x) <= 5 when x = 3"),
    (X + "return -x^2\n", "convex(x) when x = 3"),
    (ZT + "return z[t]^2\n", "symmetric(t) when t = 0"),
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


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        (ZT + "input q[N, C]: prob C\nreturn 1 - q[t]\n", "symmetric(t)"),
        ("loss l\ninput x[N, D] in [5, 6]\nreturn x[D -> 3]\n", "loss >= 5"),
        ("loss l\ninput x[N, C] in [0, inf)\nreturn sqrt(x[C -> 0]^2) - x[C -> 0]\n", "shift_invariant(x)"),
        (X + "input s\nreturn tanh(x) + s\n", "lipschitz(s) <= 1"),
        (ZT + "input b[C]\nreturn -log_softmax[C](z + b)[t]\n", "lipschitz(b) <= sqrt(2)"),
    ],
)
def test_a_true_claim_is_not_refuted(text: str, claim: str) -> None:
    (verdict,) = verdicts(text, claim)
    assert verdict.status != "refuted", verdict


@pytest.mark.parametrize("quotient", ["1/(1 - exp(x))", "1/(0 - x)", "1/(-x)"])
def test_a_proof_leaves_out_the_sign_of_a_pole(quotient: str) -> None:
    """As written it is +inf at 0; rewritten and in torch it is -inf."""
    (verdict,) = verdicts(f"loss l\ninput x[N] in [0, inf)\nreturn {quotient}\n", "loss <= 0")
    assert verdict.status != "proved" or verdict.detail.endswith(", where no denominator is 0")


def test_a_proof_tells_what_is_as_by_default() -> None:
    (verdict,) = verdicts(
        "loss l\ninput x[N] in [0, inf)\ninput w[N]: fixed = 1 in [0, inf)\nreturn w * x\n", "loss <= x"
    )
    assert verdict.status == "proved"
    assert verdict.detail.endswith(", with w as by default")


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
