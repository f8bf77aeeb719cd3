"""Sums of products as matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lossdsl.check.types import Type

if TYPE_CHECKING:
    from lossdsl.plan.expand import Table

FACTORS = 16  # of a product that is looked at for a matrix product


def contraction(t: Table, args: tuple[int, ...], axes: tuple[str, ...]) -> int | None:
    """Σ a·b as `contract`, if either factor has an axis that the other lacks: no product of all axes is formed."""
    factors = _factors(t, args[0]) if len(args) == 1 else []
    if len(factors) < 2 or any(t.type(f).kind != "real" for f in factors):
        return None
    widest = max(factors, key=lambda f: (len(t.type(f).axes), -f))
    left = [f for f in factors if t.type(f).axes <= t.type(widest).axes]
    right = [f for f in factors if f not in left]
    over = set(axes)
    if not right:
        return None
    a, b = _multiplied(t, left), _multiplied(t, right)
    x, y = t.type(a).axes, t.type(b).axes
    if not (x - y and y - x and over <= x and over <= y and x - y - over and y - x - over):
        return None
    return t.builder.raw("contract", (a, b), (axes,), Type((x | y) - over, "real"))


def _factors(t: Table, n: int) -> list[int]:
    found = [n]
    while len(found) < FACTORS:
        at = next((i for i, f in enumerate(found) if t.builder.nodes[f].op in ("mul", "mulz")), None)
        if at is None:
            break
        found[at : at + 1] = t.builder.nodes[found[at]].args
    return found


def _multiplied(t: Table, factors: Sequence[int]) -> int:
    total = factors[0]
    for f in factors[1:]:
        total = t.product(total, f)
    return total
