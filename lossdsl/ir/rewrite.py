"""Rewriting by rule, on construction.

A rule is tried on a node about to be made, whose arguments are already in their best form; it gives an equal node
that is more exact (or cheaper at no loss), or None. Equality is that of real mathematics with the language's
conventions (0 · ±inf = 0); rounding is what the rules improve. Every rule states its reason and is tested at 50
digits on random arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from lossdsl.ir.graph import Attr

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder

Apply = Callable[["Builder", tuple[int, ...], tuple[Attr, ...]], int | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """`apply(builder, args, attrs)` is called for nodes of one of `ops`."""

    name: str
    ops: tuple[str, ...]
    reason: str
    apply: Apply


@cache
def rules() -> dict[str, tuple[Rule, ...]]:
    """The rules by operation, in the order in which they are tried."""
    from lossdsl.ir.rules import (
        algebra,
        apart,
        comparisons,
        differences,
        exponentials,
        far,
        logarithms,
        logistic,
        masks,
        onehot,
        opposites,
        parts,
        shares,
        softmax,
        sums,
    )

    table: dict[str, list[Rule]] = {}
    numbers = (parts, far, shares, logistic, logarithms, exponentials, differences, opposites, comparisons)
    for module in (masks, algebra, onehot, softmax, apart, *numbers, sums):
        for rule in module.RULES:
            for op in rule.ops:
                table.setdefault(op, []).append(rule)
    return {op: tuple(found) for op, found in table.items()}


def rewrite(builder: Builder, op: str, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """The better node, or None when no rule applies."""
    for rule in rules().get(op, ()):
        found = rule.apply(builder, args, attrs)
        if found is not None:
            return found
    return None


def definitions(builder: Builder, op: str, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """The node that a name of the softmax family stands for; None for all others, which stay as they are written."""
    from lossdsl.ir.rules import softmax

    return next((rule.apply(builder, args, attrs) for rule in softmax.DEFINITIONS if op in rule.ops), None)
