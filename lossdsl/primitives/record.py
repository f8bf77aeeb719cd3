"""What a primitive is: one record in one file of this folder.

The functions of a record are written over a *namespace* `f` and operands with the usual operators: `f.exp(x)`, `x * y`,
`-x`, `x ** y`, `f.select(c, a, b)`. The same function runs over the Graph builder, numpy in float64, mpmath at 50
digits and sympy, so the meaning is said once. Nothing here imports sympy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from lossdsl.primitives.interval import REALS, Interval

Formula = Callable[..., Any]  # (f, x, …) -> value
Formulas = Callable[..., tuple[Any, ...]]  # (f, x, …) -> one partial derivative an argument


@dataclass(frozen=True, slots=True, kw_only=True)
class Primitive:
    """One pointwise operation.

    name        what the language (if `public`) and the Graph call it
    arity       number of arguments
    doc         one sentence, with the formula
    exact       its meaning as elementary mathematics, over a namespace with exp, log, sqrt, sin, …, select and
                comparisons; None for the floor that every backend spells itself (add, mul, exp, log, select, lt, …)
    partials    its derivatives in other primitives, as refs or plain numbers; None: sympy's, from the generated table
                `primitives/table.py` (`load_primitives` fills it in), or no derivative at all (kind bool or int)
    expand      a numerically good form in more elementary primitives, for backends that do not spell it; None for the
                floor. It is for the last stage: no rewrite rule may see it (`exp(x) - 1` would become expm1 again)
    range       interval of the value from those of the arguments
    domain      for each argument the interval where it is defined; outside it the value is NaN (lints read this)
    kind        of the value from those of the arguments: "real", "bool", "int", "same" (the join of the arguments),
                "number" (real if one is real, else int); see `primitives/kinds.py`
    kinks       per argument: values at which it is not differentiable and the convention there, as text for the
                reference
    samples     arguments at which proofs and error measurements are made (ends, kinks, large, tiny)
    ulp         the largest error a backend may make in float32, in units of the last place
    public      whether the language offers it by this name (log1p is public with a lint; log1mexp is internal)
    rounding    it is about what rounding does, and nothing in exact arithmetic: its expansion in floats is another
                function
    plain       how to write it plainly ("log(1 + x)"), for the lint on log1p and its kin
    """

    name: str
    arity: int
    doc: str
    exact: Formula | None = None
    partials: Formulas | None = None
    expand: Formula | None = None
    range: Callable[..., Interval]
    domain: tuple[Interval, ...] = ()
    kind: str = "real"
    kinks: str = ""
    samples: tuple[tuple[float, ...], ...] = ()
    ulp: float = 2.0
    public: bool = True
    plain: str = ""
    commutative: bool = False
    rounding: bool = False
    argument_kind: str = "real"  # what arguments must be at most: "real", "int", "bool"; bool ⊂ int ⊂ real

    def enclosure(self, *args: Interval) -> Interval:
        """The interval of the value: `range` where the arguments lie in the domain, else anything and nothing."""
        pairs = [*zip(args, self.domain, strict=False)]
        if any(a.low < d.low or a.high > d.high for a, d in pairs):
            return REALS.or_none()
        found = self.range(*args)
        if self.kind == "bool":  # a test has an answer
            return found
        outside = any(end in a and end not in d for a, d in pairs for end in (-inf, inf))
        read = args[1:] if self.name == "select" else args
        return found.or_none(outside or any(a.nan for a in read))
