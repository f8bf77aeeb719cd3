"""Forms that rules give to what losses and their gradients are made of: each at 50 digits against what was said, with
the operation that it ends in; and the like that must be left alone."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from lossdsl.check.types import Type
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph, Leaf
from lossdsl.ir.interpret import evaluate
from lossdsl.primitives.interval import REALS, Interval
from lossdsl.registry import base_registry

REGISTRY = base_registry()
SIZES = {"N": 3, "C": 4}
LEAVES = (
    Leaf("x", ("N", "C"), Type(frozenset("NC"), "real", REALS), "input", True),
    Leaf("z", ("N", "C"), Type(frozenset("NC"), "real", REALS), "input", True),
    Leaf("s", (), Type(frozenset(), "real", Interval(0, float("inf"), True, True)), "param", True),
    Leaf("r", (), Type(frozenset(), "real", REALS), "param", True),
    Leaf("y", ("N",), Type(frozenset("N"), "index C", Interval(0, float("inf"), False, True)), "input", False),
    Leaf("m", ("N", "C"), Type(frozenset("NC"), "bool", Interval(0, 1)), "input", False),
)


class Said:
    """Words for what the forms are made of, over a builder with or without the rules."""

    def __init__(self, ruled: bool) -> None:
        self.b = Builder(REGISTRY, "form", ("N", "C"), ("N",), ruled)
        self.leaf = {leaf.name: self.b.leaf(leaf) for leaf in LEAVES}

    def __call__(self, op: str, *args: int) -> int:
        return self.b.node(op, list(args))

    def const(self, x: int | Fraction) -> int:
        return self.b.const(x)

    def logp(self, name: str, mask: int | None = None) -> int:
        return self.b.node("log_softmax", [self.leaf[name], *([] if mask is None else [mask])], ("C",))

    def sum(self, e: int, mask: int | None = None) -> int:
        return self.b.reduce("sum", ("C",), e, mask)

    def hot(self) -> int:
        return self("eq", self.b.index("C"), self.leaf["y"])

    def some(self, mask: int, logp: int | None = None) -> int:
        """What a softmax gives the classes under a mask."""
        return self.sum(self("exp", self.logp("x") if logp is None else logp), mask)

    def one(self, k: int) -> int:
        """What it gives class k."""
        return self("exp", self.b.pick(self.logp("x"), {"C": k}))

    def first(self, count: int) -> int:
        return self("lt", self.b.index("C"), self.const(count))

    def two(self) -> int:
        """What it gives y and class 0, which may be one."""
        y = self.leaf["y"]
        also = self("select", self("eq", self.const(0), y), self.const(0), self.one(self.const(0)))
        return self("add", self.one(y), also)

    def bit(self) -> int:
        """The probability that a sigmoid gives to what is said of each class."""
        p = self("sigmoid", self.leaf["x"])
        return self("select", self.hot(), p, self("sub", self.const(1), p))

    def mixed(self) -> int:
        """t·σ + (1 - t)·(1 - σ) for the t that is 1 at y."""
        t, p = self("select", self.hot(), self.const(1), self.const(0)), self("sigmoid", self.leaf["x"])
        rest = (self("sub", self.const(1), n) for n in (t, p))
        return self("add", self("mul", t, p), self("mul", *rest))

    def missed(self) -> int:
        """1 - |t - σ|."""
        t = self("select", self.hot(), self.const(1), self.const(0))
        return self("sub", self.const(1), self("abs", self("sub", t, self("sigmoid", self.leaf["x"]))))

    def length(self, name: str) -> int:
        """The length of a softmax, as `norm` says it."""
        square = self.sum(self("pow", self("exp", self.logp(name)), self.const(2)))
        return self("select", self("lt", self.const(0), square), self("sqrt", square), self.const(0))

    def masked(self, name: str) -> int:
        """The log-softmax of what is there; of all else it is -inf."""
        m = self.leaf["m"]
        return self("select", m, self.logp(name, m), self.b.const(float("-inf")))

    def others(self, name: str) -> int:
        """The log-softmax of all classes but y; of y it is -inf."""
        rest = self("not", self.hot())
        return self("select", rest, self.logp(name, rest), self.b.const(float("-inf")))

    def centred(self, axis: str) -> int:
        p = self("exp", self.logp("x"))
        count = self("maximum", self.b.size(axis), self.const(1))
        return self("sub", p, self("div", self.b.reduce("sum", (axis,), p), count))

    def kl(self, u: int, v: int, mask: int | None = None) -> int:
        """Σ p·(log p - log q), as `kl` says it: where p > 0, or where something is there."""
        p = self("exp", u)
        where = self("lt", self.const(0), p) if mask is None else mask
        return self.sum(self("mul", p, self("sub", u, v)), where)

    def mixture(self, weight: Fraction) -> int:
        """log(w·p + (1 - w)·q) with weights that are literals."""
        parts = zip((weight, 1 - weight), (self.logp("x"), self.logp("z")), strict=True)
        return self("log", self("add", *(self("mul", self.const(w), self("exp", u)) for w, u in parts)))

    def crossed(self, u: int, v: int) -> int:
        """c·e^v·(e^u - 1) - c·e^u·(e^v - 1)."""
        c = self.leaf["r"]
        left = self("mul", self("mul", c, self("exp", v)), self("expm1", u))
        return self("sub", left, self("mul", self("exp", u), self("mul", c, self("expm1", v))))

    def cotangent(self, u: int, v: int, mask: int | None = None) -> int:
        """A softmax's adjoint for the cotangent e^v: e^v·(e^u - 1) - e^u·(e^v - Σ e^v)."""
        t, own = self("exp", v), self("exp", v)
        rest = self("sub", t, self.sum(own, mask))
        return self("sub", self("mul", t, self("expm1", u)), self("mul", self("exp", u), rest))


Form = Callable[[Said], int]
# What is said, an operation that its form has, and one that it has no longer.
FORMS: dict[str, tuple[Form, str, str]] = {
    "a divergence": (lambda s: s.kl(s.logp("x"), s.logp("z")), "divergence", "exp"),
    "a divergence under a mask": (lambda s: s.kl(s.masked("x"), s.masked("z"), s.leaf["m"]), "divergence", "exp"),
    "a divergence from a mixture of a fifth": (
        lambda s: s.kl(s.logp("x"), s.mixture(Fraction(1, 5))),
        "divergence",
        "exp",
    ),
    "a divergence of a mixture of halves": (
        lambda s: s.kl(s.mixture(Fraction(1, 2)), s.logp("z")),
        "divergence",
        "mul",
    ),
    "a cotangent that is a softmax": (lambda s: s.cotangent(s.logp("x"), s.logp("z")), "expsub", "expm1"),
    "a cotangent that is a softmax of what is there": (
        lambda s: s.cotangent(s.logp("x"), s.masked("z")),
        "expsub",
        "expm1",
    ),
    "crossed differences from 1": (lambda s: s.crossed(s.logp("x"), s.leaf["z"]), "expsub", "expm1"),
    "a multiple less the number itself": (
        lambda s: s("sub", s("mul", s.leaf["r"], s("exp", s.leaf["x"])), s.leaf["r"]),
        "expm1",
        "exp",
    ),
    "1 taken from an exponential at one place": (
        lambda s: s("add", s("select", s.hot(), s.const(-1), s.const(0)), s("exp", s.logp("x"))),
        "expm1",
        "neg",
    ),
    "the same, said as a difference": (
        lambda s: s("sub", s("exp", s.logp("x")), s("select", s.hot(), s.const(1), s.const(0))),
        "expm1",
        "sub",
    ),
    "a softmax over what others have of it": (
        lambda s: s("div", s("exp", s.logp("x")), s.sum(s("exp", s.logp("x")), s("not", s.hot()))),
        "logp",
        "div",
    ),
    "a probability over the length of all": (
        lambda s: s("div", s("exp", s.b.pick(s.logp("x"), {"C": s.leaf["y"]})), s.length("x")),
        "logp",
        "sqrt",
    ),
    "a multiple of it": (
        lambda s: s(
            "add",
            s("select", s.hot(), s("neg", s.leaf["s"]), s.const(0)),
            s("mul", s.leaf["s"], s("exp", s.logp("x"))),
        ),
        "expm1",
        "neg",
    ),
    "a product and its inverse": (
        lambda s: s("mul", s("mul", s.leaf["s"], s.leaf["x"]), s("div", s.const(1), s.leaf["s"])),
        "leaf",
        "div",
    ),
    "a softmax less that of the other classes": (
        lambda s: s("sub", s("exp", s.logp("x")), s("exp", s.others("x"))),
        "neg",
        "expsub",
    ),
    "the softmax of the other classes less that of all": (
        lambda s: s("sub", s("exp", s.others("x")), s("exp", s.logp("x"))),
        "neg",
        "expsub",
    ),
    "probabilities centred over rows": (lambda s: s.centred("N"), "expsub", "exp"),
    "two sigmoids": (
        lambda s: s("sub", s("sigmoid", s.leaf["x"]), s("sigmoid", s.leaf["z"])),
        "expsub",
        "sigmoid",
    ),
    "the logarithm of a bit's probability": (lambda s: s("log", s.bit()), "softplus", "sigmoid"),
    "what a bit's probability is from 1": (lambda s: s("sub", s.const(1), s.bit()), "sigmoid", "sub"),
    "an exponential of a logarithm that has one": (
        lambda s: s("exp", s("log1p", s.leaf["s"])),
        "add",
        "log1p",
    ),
    "the logarithm of a bit's mixture": (lambda s: s("log", s.mixed()), "softplus", "sigmoid"),
    "of what a bit is from its probability": (lambda s: s("log", s.missed()), "softplus", "sigmoid"),
    "of the odds against a class": (
        lambda s: s("log", s("div", s("sub", s.const(1), s.one(s.leaf["y"])), s.one(s.leaf["y"]))),
        "log1mexp",
        "div",
    ),
    "the angle of a complement": (
        lambda s: s("asin", s("sqrt", s("sub", s.const(1), s.one(s.leaf["y"])))),
        "expm1",
        "sub",
    ),
    "the inverse of a sigmoid, less 1": (
        lambda s: s("sub", s("div", s.const(1), s("sigmoid", s.leaf["x"])), s.const(1)),
        "exp",
        "sigmoid",
    ),
    "the logarithm of a product over classes": (
        lambda s: s("log", s.b.reduce("prod", ("C",), s("sigmoid", s.leaf["x"]))),
        "softplus",
        "sigmoid",
    ),
    "the angle of which p is the half's": (
        lambda s: s("acos", s("sub", s("mul", s.const(2), s.one(s.leaf["y"])), s.const(1))),
        "asin",
        "acos",
    ),
    "the logarithm of a part": (lambda s: s("log", s.some(s.leaf["m"])), "softplus", "exp"),
    "of what it leaves": (lambda s: s("log", s("sub", s.const(1), s.some(s.leaf["m"]))), "softplus", "exp"),
    "of the others, taken from 1": (
        lambda s: s("log", s("sub", s.const(1), s.some(s("and", s.leaf["m"], s("not", s.hot()))))),
        "softplus",
        "exp",
    ),
    "of a part of what is there": (
        lambda s: s("log", s.some(s("and", s.leaf["m"], s.first(2)), s.logp("x", s.leaf["m"]))),
        "softplus",
        "exp",
    ),
    "of two classes": (lambda s: s("log", s("add", s.one(s.const(0)), s.one(s.const(2)))), "softplus", "logaddexp"),
    "of three": (
        lambda s: s("log", s("add", s("add", s.one(s.const(0)), s.one(s.const(2))), s.one(s.const(1)))),
        "softplus",
        "logaddexp",
    ),
    "of two that may be one": (lambda s: s("log", s.two()), "softplus", "exp"),
    "of all but two": (
        lambda s: s("log", s("sub", s("sub", s.const(1), s.one(s.const(0))), s.one(s.const(2)))),
        "softplus",
        "exp",
    ),
    "the angle of a probability": (
        lambda s: s("acos", s("exp", s.b.pick(s.logp("x"), {"C": s.leaf["y"]}))),
        "asin",
        "acos",
    ),
    "the sum of a softmax of what is there": (
        lambda s: s("sub", s.leaf["x"], s.sum(s("exp", s.masked("z")))),
        "select",
        "exp",
    ),
}
# What looks alike, and is left as it is: the operation is still there.
LEFT: dict[str, tuple[Form, str]] = {
    "an exponential of a logarithm that may have no value": (
        lambda s: s("exp", s("log1p", s.leaf["x"])),
        "log1p",
    ),
    "the same less 1": (lambda s: s("expm1", s("log1p", s.leaf["x"])), "log1p"),
    "the same of a complement": (lambda s: s("exp", s("log1mexp", s.leaf["x"])), "log1mexp"),
    "a divergence from what does not sum to 1": (lambda s: s.kl(s.logp("x"), s.leaf["z"]), "mul"),
    "a mixture whose weights do not sum to 1": (
        lambda s: s.kl(
            s.logp("x"),
            s("log", s("add", *(s("mul", s.const(Fraction(1, 5)), s("exp", s.logp(n))) for n in "xz"))),
        ),
        "mul",
    ),
    "a divergence under another mask": (lambda s: s.kl(s.logp("x", s.leaf["m"]), s.logp("z"), s.leaf["m"]), "mul"),
    "an inverse of what may be 0": (
        lambda s: s("mul", s("mul", s.leaf["r"], s.leaf["x"]), s("div", s.const(1), s.leaf["r"])),
        "div",
    ),
    "the sum of a softmax of other entries": (
        lambda s: s("sub", s.leaf["x"], s.sum(s("exp", s.logp("z", s.leaf["m"])), s.hot())),
        "exp",
    ),
    "the logarithm of two classes that may be one": (
        lambda s: s("log", s("add", s.one(s.leaf["y"]), s.one(s.const(0)))),
        "logaddexp",
    ),
    "of a part with another's": (
        lambda s: s("log", s("add", s.one(s.const(0)), s("exp", s.b.pick(s.logp("z"), {"C": s.const(2)})))),
        "logaddexp",
    ),
    "a softmax less that of another's other classes": (
        lambda s: s("sub", s("exp", s.logp("x")), s("exp", s.others("z"))),
        "expsub",
    ),
    "a softmax centred over its own classes": (lambda s: s.centred("C"), "exp"),
    "crossed differences with another factor": (
        lambda s: s(
            "sub",
            s("mul", s("mul", s.leaf["r"], s("exp", s.leaf["z"])), s("expm1", s.leaf["x"])),
            s("mul", s("exp", s.leaf["x"]), s("mul", s.leaf["s"], s("expm1", s.leaf["z"]))),
        ),
        "expm1",
    ),
}


def built(form: Form, ruled: bool) -> Graph:
    said = Said(ruled)
    nothing = said.b.raw("mul", [said.b.raw("const", (), (Fraction(0),)), said.leaf["x"]])
    return said.b.graph({"aux.e": said.b.raw("add", [form(said), nothing])})  # so that all vary along N and C


def leaves(scale: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    mask = rng.random((3, 4)) < 0.6
    mask[0] = [True, False, False, False]
    mask[2] = scale > 1  # nothing is there
    x = rng.normal(0, scale, (3, 4))
    near = x + rng.normal(0, 1e-9, (3, 4))
    return {"x": x, "z": near, "s": np.array(0.3), "r": np.array(-1.7), "y": rng.integers(0, 4, 3), "m": mask}


def ops(graph: Graph) -> set[str]:
    return {node.op for node in graph.nodes}


@pytest.mark.parametrize("what", [*FORMS, *LEFT])
@mpmath.workdps(60)
def test_a_form_at_50_digits(what: str) -> None:
    form = (FORMS.get(what) or LEFT[what])[0]
    plain, ruled = built(form, False), built(form, True)
    if what in FORMS:
        _, made, gone = FORMS[what]
        assert made in ops(ruled)
        assert gone not in ops(ruled) or gone == "mul"  # which is also what makes all forms vary
        assert what == "a product and its inverse" or ops(ruled) != ops(plain)
    else:
        assert LEFT[what][1] in ops(ruled)
    for seed, scale in enumerate((1.0, 1e-3, 30.0)):
        given = leaves(scale, np.random.default_rng(seed))
        expected, found = (evaluate(g, REGISTRY, given, number="mpmath", sizes=SIZES)["aux.e"] for g in (plain, ruled))
        for a, b in zip(expected.flat, found.flat, strict=True):
            close = abs(mpmath.mpf(a) - b) <= mpmath.mpf(10) ** -50 * max(abs(mpmath.mpf(a)), mpmath.mpf(10) ** -25)
            assert close or a == b or (mpmath.isnan(a) and mpmath.isnan(b)), (
                seed,
                mpmath.nstr(a, 20),
                mpmath.nstr(b, 20),
            )
