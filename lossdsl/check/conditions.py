"""Conditions `axis T where …` of a loss that is used as a function: they hold for what its own text reduces."""

from __future__ import annotations

from lossdsl.check.context import Context, Scope
from lossdsl.check.terms import is_poison
from lossdsl.check.typed import Term
from lossdsl.source.text import Span


def conditioned(cx: Context, scope: Scope, axes: tuple[str, ...], body: Term, span: Span) -> Term:
    """The body where the callee's `axis T where …` holds, for a reduction over `axes`."""
    if is_poison(body):
        return body
    masks = []
    for condition in scope.conditions:
        for a in axes:
            if condition.covers(a):
                here = condition.mask
                if a != condition.axis:
                    here = cx.terms.pick(here, [(condition.axis, cx.terms.index(a, span))], span)
                if here.type.axes <= body.type.axes:
                    masks.append(here)
    return cx.terms.where(body, masks, span) if masks else body


def extent(cx: Context, scope: Scope, axis: str, span: Span) -> Term:
    """The size of an axis; of a callee's conditioned batch axis, how many of its rows are there."""
    masks = [c.mask for c in scope.conditions if c.axis == axis and axis in scope.batch]
    both = cx.terms.both(masks, span)
    return cx.terms.size(axis, span) if both is None else cx.terms.reduce("sum", (axis,), both, None, span)
