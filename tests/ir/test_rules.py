"""Every rewrite rule keeps the value, at 50 digits: random expressions are built with the rules and without them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from lossdsl.check.types import Type
from lossdsl.ir import rewrite as rewriting
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Attr, Graph, Leaf
from lossdsl.ir.interpret import evaluate
from lossdsl.primitives.interval import REALS, Interval
from lossdsl.registry import base_registry

REGISTRY = base_registry()
N, C = 4, 4
SIZES = {"N": N, "C": C}
INF = float("inf")


LEAVES = (
    Leaf("x", ("N", "C"), Type(frozenset("NC"), "real", REALS), "input", True),
    Leaf("w", ("C",), Type(frozenset("C"), "real", Interval(0, 5, True, False)), "input", True),
    Leaf("s", ("N",), Type(frozenset("N"), "real", REALS), "input", True),
    Leaf("a", (), Type(frozenset(), "real", Interval(0, 1, True, True)), "param", True),
    Leaf("y", ("N",), Type(frozenset("N"), "index C", Interval(0, INF, False, True)), "input", False),
    Leaf("m", ("N", "C"), Type(frozenset("NC"), "bool", Interval(0, 1)), "input", False),
)


def values(rng: np.random.Generator) -> dict[str, np.ndarray]:
    mask = rng.random((N, C)) < 0.6
    mask[:, 0] = True
    return {
        "x": rng.normal(0, 2, (N, C)),
        "w": rng.uniform(0.1, 3, C),
        "s": rng.normal(0, 2, N),
        "a": np.array(0.3),
        "y": rng.integers(0, C, N),
        "m": mask,
    }


class Programs:
    """Random choices, replayed alike on both builders by seed.

    A rule may find that a value does not vary along C after all; `varies` holds what the builder without rules said.
    """

    def __init__(self, b: Builder, seed: int, varies: list[bool]) -> None:
        self.b = b
        self.varies = varies
        self.replaying = iter(tuple(varies)) if varies else None
        self.rng = random.Random(seed)
        leaf = {x.name: b.leaf(x) for x in LEAVES}
        self.y, self.mask = leaf["y"], leaf["m"]
        self.hot = b.node("eq", [b.index("C"), self.y])
        self.reals = [leaf["x"], leaf["w"], leaf["s"], leaf["a"], b.const(Fraction(1, 2)), b.const(2), b.const(1)]

    def along(self, x: int) -> int:
        """x if it varies along C, else something that does."""
        if self.replaying is None:
            self.varies.append("C" in self.b.type(x).axes)
            varies = self.varies[-1]
        else:
            varies = next(self.replaying)
        return x if varies else self.reals[0]

    def real(self, depth: int) -> int:
        b, rng = self.b, self.rng
        if depth == 0:
            return rng.choice(self.reals)
        x = self.real(depth - 1)
        match rng.randrange(16):
            case 0:
                return b.node(rng.choice(["add", "sub", "mul"]), [x, self.real(depth - 1)])
            case 1:
                return b.node(rng.choice(["add", "sub", "mul"]), [x, rng.choice([self.hot, self.mask])])
            case 2:
                one = b.const(1)
                return b.node("sub", rng.choice([[x, one], [one, x]]))
            case 3:
                return b.node("neg", [rng.choice([x, self.hot, b.node("sub", [x, self.reals[2]])])])
            case 4:
                return b.node(
                    rng.choice(["exp", "sigmoid", "softplus", "expm1"]),
                    [b.node("sub", [b.const(0), b.node("abs", [x])])],
                )
            case 5:
                return b.node("log", [self.positive(depth)])
            case 6:
                return b.node("pow", [self.positive(depth), rng.choice(self.reals)])
            case 7:
                return b.node("sqrt", [self.positive(depth)])
            case 8:
                return b.node("div", [x, self.positive(depth)])
            case 9:
                return b.node("select", [self.condition(), x, self.real(depth - 1)])
            case 10:
                return self.pick(x)
            case 11:
                return self.reduction(x)
            case 12:
                x = self.along(x)
                return b.node(rng.choice(["softmax", "log_softmax"]), [x, self.mask][: rng.randint(1, 2)], ("C",))
            case 13:
                return self.idiom(x)
            case 14:
                return self.idiom(self.reals[0])
            case _:
                return rng.choice([self.folded, self.logistic])(x)

    def logistic(self, x: int) -> int:
        """Sigmoids, tanhs and their logarithms as people type them."""
        b, rng = self.b, self.rng
        one, two, minus = b.const(1), b.const(2), b.node("neg", [x])
        up, down = b.node("exp", [x]), b.node("exp", [rng.choice([minus, self.reals[0], self.reals[2]])])
        both = b.node("add", [rng.choice([one, up]), down])
        s, g = b.node("sigmoid", [x]), rng.choice([one, self.reals[2]])
        twice = b.node("mul", [g, b.node("mul", [rng.choice([two, b.const(-2)]), s])])
        match rng.randrange(15):
            case 0:
                return b.node("div", [rng.choice([one, up, down]), both])
            case 1:
                return b.node("div", [b.node("sub", rng.choice([[up, down], [one, down], [down, up]])), both])
            case 2:
                return b.node(rng.choice(["add", "sub"]), rng.choice([[twice, g], [g, twice]]))
            case 3:
                return b.node("sub", [s, b.node("sigmoid", [minus])])
            case 4:
                return b.node("log", [b.node(rng.choice(["mul", "div"]), [both, two])])
            case 5:
                return b.node("log1p", [b.node(rng.choice(["mul", "div"]), [up, two])])
            case 6:
                return b.node("log", [b.node("add", [both, rng.choice([one, up])])])
            case 7:
                return b.node("log", [b.node("mul", [s, b.node("sub", [one, s])])])
            case 8:
                return b.node("log", [b.node("softplus", [x])])
            case 9:
                return b.node(rng.choice(["add", "sub"]), [one, b.node("tanh", [x])])
            case 10:
                none = b.node("sub", [one, b.node("exp", [b.node("neg", [b.node("abs", [x])])])])
                return b.node("log", [b.node("sub", [one, b.node("pow", [none, self.reals[3]])])])
            case 11:
                total = b.reduce("sum", ("C",), b.node("exp", [self.reals[0]]))
                mean = b.node(rng.choice(["div", "mul"]), [total, b.const(4)])
                return b.node("log", [mean]) if rng.random() < 0.5 else b.node("div", [up, rng.choice([total, mean])])
            case 12:
                total = b.reduce("sum", ("C",), b.node("exp", [self.reals[0]]), self.mask)
                over = [b.node("mul", [b.node("exp", [self.reals[0]]), self.reals[1]]), self.reals[0]]
                return b.node("div", [b.reduce("sum", ("C",), rng.choice(over)), total])
            case 13:
                p = b.node("softmax", [self.reals[0]], ("C",))
                powers = b.reduce("sum", ("C",), b.node("pow", [p, b.const(rng.choice([2, 3]))]))
                less = b.node("sub", [one, powers])
                return b.node("log", [rng.choice([less, b.reduce("max", ("C",), p, self.mask)])])
            case _:
                return b.node("log", [b.node("sub", [b.node("exp", [b.node("abs", [x])]), one])])

    def folded(self, x: int) -> int:
        b, rng = self.b, self.rng
        one, half, two = b.const(1), b.const(Fraction(1, 2)), b.const(2)
        p = b.node("softmax", [self.reals[0]], ("C",))
        match rng.randrange(9):
            case 0:
                return b.node(rng.choice(["relu", "abs", "detach"]), [x])
            case 1:
                right = b.node("asin", [b.node("sqrt", [b.node("sub", [one, self.pick(p)])])])
                angle = rng.choice([b.node("acos", [p]), right])
                return b.node("abs", [rng.choice([b.node("neg", [p]), self.hot, b.node("neg", [half]), angle])])
            case 2:
                return b.node("pow", [b.node(rng.choice(["minimum", "maximum"]), [half, two]), self.hot])
            case 3:
                test = b.node(rng.choice(["eq", "lt", "le"]), [half, rng.choice([half, two])])
                return b.node("select", [test, x, self.reals[2]])
            case 4:
                return b.node("expm1", [rng.choice([b.const(0), b.node("log1p", [p])])])
            case 5:
                some = b.reduce("sum", ("C",), p, b.node("lt", [b.index("C"), b.const(3)]))
                less = [b.node("neg", [p]), b.node("neg", [some])]
                inner = rng.choice([b.node("exp", [x]), b.node("expm1", [self.reals[2]]), *less, b.const(0)])
                return b.node("log1p", [inner])
            case 6:
                return b.node("relu", [rng.choice([b.node("add", [one, p]), b.node("detach", [two])])])
            case 7:
                neg = b.node("sub", [self.reals[2], self.pick(self.reals[0])])
                return b.node("add", [neg, b.reduce("logsumexp", ("C",), self.reals[0])])
            case _:
                e = b.node("neg", [self.reals[2]])
                return b.node(
                    "exp", [rng.choice([b.const(0), b.node("log1p", [p]), b.node("neg", [b.node("softplus", [e])])])]
                )

    def positive(self, depth: int) -> int:
        b, rng = self.b, self.rng
        x = self.real(depth - 1)
        match rng.randrange(10):
            case 9:
                bit = b.node("select", [self.hot, b.const(1), b.const(0)])
                return b.node("sub", [b.const(1), b.node("abs", [b.node("sub", [bit, b.node("sigmoid", [x])])])])
            case 8:
                return b.node("softmax", [b.node("div", [self.reals[0], b.const(3)])], ("C",))
            case 0:
                return b.node("exp", [b.node("neg", [b.node("abs", [x])])])
            case 6 | 7 as which:
                some = b.reduce(
                    "sum", ("C",), b.node("softmax", [self.reals[0]], ("C",)), b.node("lt", [b.index("C"), b.const(2)])
                )
                return some if which == 6 else b.node("sub", [b.const(1), some])
            case 1:
                return b.node("add", [b.const(1), b.node("exp", [b.node("neg", [b.node("abs", [x])])])])
            case 2:
                return b.node("mul", [self.reals[3], b.node("sigmoid", [x])])
            case 3:
                scaled = b.node("mul", [self.reals[3], b.node("softmax", [self.reals[0]], ("C",))])
                return b.node("add", [scaled, b.node("exp", [b.node("neg", [b.node("abs", [x])])])])
            case 4:
                return b.node("sub", [b.const(1), self.pick(b.node("softmax", [self.reals[0]], ("C",)))])
            case _:
                return b.node("add", [b.const(Fraction(1, 10)), b.node("abs", [x])])

    def condition(self) -> int:
        b, rng = self.b, self.rng
        hot, mask, x = self.hot, self.mask, self.reals[0]
        p = b.node("softmax", [x], ("C",))
        options: list[Callable[[], int]] = [
            lambda: hot,
            lambda: mask,
            lambda: b.node("not", [hot]),
            lambda: b.node("and", [mask, b.node("not", [hot])]),
            lambda: b.node("or", [hot, mask]),
            lambda: b.node("ne", [b.index("C"), self.y]),
            lambda: b.node(rng.choice(["lt", "le", "gt", "ge"]), [x, self.reals[2]]),
            lambda: b.node(rng.choice(["lt", "le", "eq"]), [p, self.pick(p)]),
            lambda: b.const(True),
            lambda: self.increasing(x),
        ]
        return rng.choice(options)()

    def increasing(self, x: int) -> int:
        """A comparison of two that are the same increasing function of others."""
        f = self.rng.choice(["exp", "sigmoid", "tanh", "neg"])
        args = [self.b.node(f, [a]) for a in (x, self.reals[2])]
        return self.b.node(self.rng.choice(["lt", "le", "eq"]), args)

    def pick(self, x: int) -> int:
        return self.b.pick(self.along(x), {"C": self.y})

    def reduction(self, x: int) -> int:
        b, rng = self.b, self.rng
        name = rng.choice(["sum", "sum", "sum", "logsumexp", "max", "count"])
        return b.reduce(name, ("C",), self.along(x), rng.choice([None, self.condition()]))

    def idiom(self, x: int) -> int:
        """What losses are made of."""
        b, rng = self.b, self.rng
        x = self.along(x)
        p = b.node("softmax", [x], ("C",))
        logp = b.node("log", [p])
        one = b.const(1)
        match rng.randrange(12):
            case 9:
                return rng.choice([self.balance(logp), b.reduce("logsumexp", ("C",), logp)])
            case 10:
                odds = rng.sample([logp, self.b.pick(logp, {"C": self.y})], 2)
                return rng.choice([b.node("sub", odds), self.apart(p)])
            case 11:
                a = self.reals[3]
                more, product = b.node("sub", [x, a]), b.node("mul", [x, b.node("add", [self.reals[2], a])])
                return b.node("add", [b.node("add", [more, a]), b.node("sub", [product, b.node("mul", [x, a])])])
            case 0:
                return b.node("sub", [b.reduce("logsumexp", ("C",), x), self.pick(x)])
            case 1:
                return b.node("sub", [x, b.reduce("logsumexp", ("C",), x)])
            case 2:
                return b.reduce("sum", ("C",), b.node("pow", [b.node("sub", [p, self.hot]), b.const(2)]))
            case 3:
                q = b.node("softmax", [self.reals[0]], ("C",))
                return b.reduce("sum", ("C",), b.node("mul", [q, b.node("sub", [b.node("log", [q]), logp])]))
            case 4:
                return b.reduce("sum", ("C",), p, b.node("not", [self.hot]))
            case 5:
                return b.node("pow", [b.node("sub", [one, self.pick(p)]), self.reals[3]])
            case 6:
                half = b.node("div", [b.reduce("logsumexp", ("C",), x), b.const(2)])
                return b.node("sub", [half, b.node("div", [self.pick(x), b.const(2)])])
            case 7:
                return b.node("sub", [b.node("softplus", [self.reals[2]]), self.reals[2]])
            case _:
                q = b.node("softmax", [self.reals[0]], ("C",))
                return b.node(rng.choice(["sub", "div"]), [p, q])

    def apart(self, p: int) -> int:
        """A softmax less its mean over rows, or less that of the other classes."""
        b = self.b
        if self.rng.random() < 0.5:
            return b.node("sub", [p, b.node("div", [b.reduce("sum", ("N",), p), b.size("N")])])
        others = b.node("not", [self.hot])
        of_them = b.node("exp", [b.node("log_softmax", [self.reals[0], others], ("C",))])
        return b.node("sub", [b.node("softmax", [self.reals[0]], ("C",)), of_them])

    def balance(self, logp: int) -> int:
        """What the cotangent of a mixture comes to."""
        b, t = self.b, self.reals[3]
        other = b.node("log_softmax", [self.reals[0]], ("C",))
        less = b.node("sub", [b.const(1), t])
        own, rest = b.node("log", [t]), b.node("log1p", [b.node("neg", [t])])
        mixture = b.node("logaddexp", [b.node("add", [own, logp]), b.node("add", [rest, other])])
        parts = [b.node("expsub", [mixture, p]) for p in (logp, other)]
        return b.node("add", [b.node("mul", [w, p]) for w, p in zip((t, less), parts, strict=True)])


def both(seed: int) -> tuple[Graph, Graph]:
    """One random program as said and as the rules have it."""
    varies: list[bool] = []
    graphs = []
    for ruled in (False, True):
        b = Builder(REGISTRY, "random", ("N", "C"), ("N",), ruled)
        programs = Programs(b, seed, varies)
        e = programs.real(3)
        nothing = b.raw("mul", [b.raw("const", (), (Fraction(0),)), programs.reals[0]])
        graphs.append(b.graph({"aux.e": b.raw("add", [e, nothing])}))  # so that both vary along N and C
    return graphs[0], graphs[1]


@pytest.fixture(scope="module")
def fired() -> Iterator[Counter[str]]:
    """Counts which rules gave a node, while the module's tests run."""
    counts: Counter[str] = Counter()
    original = rewriting.rules()

    def counting(rule: rewriting.Rule) -> rewriting.Rule:
        def apply(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
            found = rule.apply(b, args, attrs)
            counts[rule.name] += found is not None
            return found

        return rewriting.Rule(rule.name, rule.ops, rule.reason, apply)

    wrapped = {op: tuple(counting(r) for r in found) for op, found in original.items()}
    patch = pytest.MonkeyPatch()
    patch.setattr(rewriting, "rules", lambda: wrapped)
    yield counts
    patch.undo()


@pytest.mark.parametrize("block", range(8))
@mpmath.workdps(60)
def test_rules_keep_the_value(block: int, fired: Counter[str]) -> None:
    for seed in range(block * 100, block * 100 + 100):
        leaves = values(np.random.default_rng(seed))
        plain, ruled = (evaluate(g, REGISTRY, leaves, number="mpmath", sizes=SIZES)["aux.e"] for g in both(seed))
        for expected, found in zip(plain.flat, ruled.flat, strict=True):
            same = expected == found or (mpmath.isnan(expected) and mpmath.isnan(found))
            close = abs(mpmath.mpf(expected) - found) <= mpmath.mpf(10) ** -45 * (1 + abs(mpmath.mpf(expected)))
            assert same or close, f"seed {seed}: {mpmath.nstr(expected, 20)} became {mpmath.nstr(found, 20)}"


def test_every_rule_is_reached(fired: Counter[str]) -> None:
    """By the programs of the blocks above, built once more since these may run in another process."""
    for seed in range(800):
        both(seed)
    names = {rule.name for found in rewriting.rules().values() for rule in found}
    unreached = sorted(name for name in names if not fired[name])
    assert not unreached, ", ".join(unreached)
