"""What may be absent, as conditions: presence is a set of bool nodes that all have to hold.

Kept apart as factors, a reduction over A can put those that vary along A into its mask and leave the others to its
result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from lossdsl.check.types import base_axis
from lossdsl.ir.builder import Builder

Factors = frozenset[int]
PRESENT: Factors = frozenset()


@dataclass(frozen=True, slots=True)
class Condition:
    """`axis T where m`, or an index that isn't `ignore_index`: the entries along `axes` of which `node` is true exist.

    It holds for copies of its axes by renaming, if its axes are of distinct bases.
    """

    axes: tuple[str, ...]
    node: int


def conjunction(b: Builder, factors: Iterable[int]) -> int | None:
    """The node that is true where all hold; None for no factors (always)."""
    result: int | None = None
    for factor in sorted(factors):
        result = factor if result is None else b.node("and", [result, factor])
    if result is None or b.value(result) is True:
        return None
    return result


def factors_of(b: Builder, node: int) -> Factors:
    """A condition as factors: a conjunction is its parts, `true` none."""
    found: set[int] = set()
    stack, seen = [node], {node}
    while stack:
        n = stack.pop()
        if b[n].op == "and":
            stack += [a for a in b[n].args if a not in seen]
            seen.update(b[n].args)
        elif b.value(n) is not True:
            found.add(n)
    return frozenset(found)


def split(b: Builder, factors: Factors, axes: Iterable[str]) -> tuple[Factors, Factors]:
    """The factors that vary along one of the axes, and the others."""
    over = frozenset(axes)
    inner = frozenset(f for f in factors if b.type(f).axes & over)
    return inner, factors - inner


def met(b: Builder, conditions: Sequence[Condition], axes: Iterable[str], over: Iterable[str] | None = None) -> Factors:
    """The conditions on a value that has these axes, renamed to its copies; with `over` those on these axes only."""
    have = sorted(set(axes))
    wanted = None if over is None else set(over)
    found: set[int] = set()
    for c in conditions:
        for chosen in _renamings(c, have):
            if wanted is None or wanted & set(chosen):
                pairs = {a: b.index(to) for a, to in zip(c.axes, chosen, strict=True) if a != to}
                found |= factors_of(b, b.pick(c.node, pairs) if pairs else c.node)
    return frozenset(found)


def _renamings(c: Condition, have: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The ways to read the condition's axes as axes of the value."""
    bases = [base_axis(a) for a in c.axes]
    if len(set(bases)) < len(bases):
        if set(c.axes) <= set(have):
            yield c.axes
        return
    yield from product(*([a for a in have if base_axis(a) == base] for base in bases))
