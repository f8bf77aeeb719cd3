"""Scalar expressions of which claims are proved, hash-consed and folded where that is exact.

What depends on reals stays open, so that what is shown of a scalar holds for all reals: no branch is chosen by a point.
`entries.py` writes a Graph out in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, isinf
from typing import Any

from lossdsl.derive.claims.folding import fold
from lossdsl.primitives.interval import UNIT, Interval

Number = Fraction | float | bool
MOST = 20_000  # scalars: more is no small size


class NotWrittenError(Exception):
    """An operation that has no written-out form here; the message names it."""


@dataclass(slots=True)
class Scalars:
    """Hash-consed scalar expressions: ("const", value), ("var", name) or (primitive, arguments), in topological order.

    Beside the primitives of the Graph: `lse` (log-sum-exp of its arguments), `logp` (the first argument less the
    log-sum-exp of all), `xlogx`, and `phi`, which is (e^x - 1)/x and 1 at 0. `simplices` are
    groups of scalars that sum to 1; `ranges` what is known of where variables lie.
    """

    nodes: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    ids: dict[tuple[Any, ...], int] = field(default_factory=dict)
    simplices: list[frozenset[int]] = field(default_factory=list)
    ranges: dict[int, Interval] = field(default_factory=dict)
    known: dict[int, Interval] = field(default_factory=dict)  # what `known.py` has found of scalars
    unknowns: list[str] = field(default_factory=list)

    def const(self, value: Number | int) -> int:
        if isinstance(value, bool):
            return self._raw("const", (value,))
        if isinstance(value, float) and not isinf(value):
            value = Fraction(value)
        return self._raw("const", (Fraction(value) if isinstance(value, int) else value,))

    def var(self, name: str, within: Interval | None = None) -> int:
        n = self._raw("var", (name,))
        if within is not None:
            self.ranges[n] = within
        return n

    def unknown(self) -> int:
        """A truth of which nothing is known: a variable from 0 to 1."""
        self.unknowns.append(f"?{len(self.unknowns)}")
        return self.var(self.unknowns[-1], UNIT)

    def narrow(self, n: int, within: Interval) -> None:
        """Notes where a scalar lies, beside what is known of it."""
        known = self.ranges.get(n, Interval())
        low = max((known.low, known.low_open), (within.low, within.low_open))
        high = min((known.high, not known.high_open), (within.high, not within.high_open))
        self.ranges[n] = Interval(low[0], high[0], low[1], not high[1])
        self.known.pop(n, None)

    def value(self, n: int) -> Any:
        """The number that a scalar is known to be, or None."""
        op, args = self.nodes[n]
        return args[0] if op == "const" else None

    def node(self, op: str, args: Sequence[int]) -> int:
        """The scalar op(args), folded where that is exact."""
        better = fold(self, op, tuple(args))
        return self._raw(op, tuple(args)) if better is None else better

    def _raw(self, op: str, args: tuple[Any, ...]) -> int:
        key = (op, args, op == "const" and isinstance(args[0], bool))
        if key not in self.ids:
            if len(self.nodes) > MOST:
                raise NotWrittenError("too many entries")
            self.ids[key] = len(self.nodes)
            self.nodes.append((op, args))
        return self.ids[key]

    def range(self, n: int) -> Interval:
        """Where it is known to lie."""
        return UNIT if any(n in simplex for simplex in self.simplices) else self.ranges.get(n, Interval())

    def total(self, terms: Sequence[int]) -> int:
        """The sum; probabilities of all outcomes sum to 1, those of all but one to its complement."""
        for simplex in self.simplices:
            here = {t for t in terms if t in simplex}
            rest = [t for t in terms if t not in simplex]
            if len(here) + len(rest) < len(terms) or len(here) < 2:
                continue
            if here == simplex or len(here) == len(simplex) - 1:
                left = simplex - here
                whole = self.node("sub", [self.const(1), *left]) if left else self.const(1)
                return self.total([*rest, whole]) if rest else whole
        total = self.const(0)
        for t in terms:
            total = self.node("add", [total, t])
        return total

    def lse(self, terms: Sequence[int]) -> int:
        """log Σ e^x."""
        if not terms:
            return self.const(-inf)
        return self.node("lse", terms)
