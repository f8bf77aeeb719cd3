"""Operators and primitives: which kinds they take."""

from __future__ import annotations

from collections.abc import Sequence

from lossdsl.check.context import Context, Scope
from lossdsl.check.terms import POISON, is_index, is_poison, is_whole
from lossdsl.check.typed import Term
from lossdsl.source.diagnostic import Label
from lossdsl.source.text import Span
from lossdsl.syntax import ast

PRIMITIVES = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "^": "pow",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "==": "eq",
    "!=": "ne",
    "and": "and",
    "or": "or",
}


def accepts(wanted: str, kind: str) -> bool:
    """bool ⊂ int ⊂ real, index A ⊂ int; label is none of these."""
    if wanted == "real":
        return kind == "real" or is_whole(kind)
    if wanted == "int":
        return is_whole(kind)
    return kind == wanted


def need(cx: Context, scope: Scope, wanted: str, term: Term, span: Span, user: str) -> Term:
    """The term if its kind fits what `user` takes, else poison and a report."""
    if is_poison(term) or accepts(wanted, term.type.kind):
        return term
    kind = term.type.kind
    what = cx.text(scope, span)
    if kind == "label":
        message = f"{what} is a label: labels can only be compared with `==` and `!=`"
        return cx.error(scope, "E0402", message, span, "a label", "declare it `: int` if its value means something")
    fix = ""
    if wanted == "bool":
        fix = (
            f"write a comparison: `{what.strip('`')} > 0`" if what != "this" else "write a comparison, such as `x > 0`"
        )
        if scope.site is None and kind == "real" and term.op == "leaf" and str(term.attrs[0]) in cx.inputs:
            fix = f"declare `{term.attrs[0]}` as `: bool`, or w{fix[1:]}"
    elif wanted == "int":
        fix = "`floor` or `round` makes a whole number"
    message = f"{user} takes {'a condition' if wanted == 'bool' else wanted}, but {what} is {kind}"
    return cx.error(scope, "E0401", message, span, f"of kind {kind}", fix)


def arithmetic(cx: Context, scope: Scope, expr: ast.Binary, left: Term, right: Term) -> Term:
    """A binary operator."""
    if is_poison(left) or is_poison(right):
        return POISON
    span, op = scope.at(expr.span), expr.op
    if op in ("and", "or"):
        left = need(cx, scope, "bool", left, expr.left.span, f"`{op}`")
        right = need(cx, scope, "bool", right, expr.right.span, f"`{op}`")
    elif op in ("==", "!=", "<", "<=", ">", ">="):
        if not comparable(cx, scope, expr, left, right):
            return POISON
    else:
        left = need(cx, scope, "real", left, expr.left.span, f"`{op}`")
        right = need(cx, scope, "real", right, expr.right.span, f"`{op}`")
    return cx.terms.apply(PRIMITIVES[op], (left, right), span)


def comparable(cx: Context, scope: Scope, expr: ast.Binary, left: Term, right: Term) -> bool:
    """Whether the two sides of a comparison may be compared; reports if not."""
    a, b = left.type.kind, right.type.kind
    both = (Label(expr.left.span, f"of kind {a}"), Label(expr.right.span, f"of kind {b}"))
    texts = cx.text(scope, expr.left.span, "the left"), cx.text(scope, expr.right.span, "the right")
    if "label" in (a, b):
        if expr.op not in ("==", "!="):
            side = expr.left if a == "label" else expr.right
            message = f"{cx.text(scope, side.span)} is a label: labels can only be compared with `==` and `!=`"
            fix = "declare it `: int` if its order means something"
            cx.error(scope, "E0402", message, expr.op_span, "not for labels", fix)
            return False
        if a != b:
            label, other = texts if a == "label" else texts[::-1]
            message = f"{label} is a label and can't be compared with {other}, which is {b if a == 'label' else a}"
            cx.error(
                scope,
                "E0402",
                message,
                expr.op_span,
                "a label against a number",
                "declare both `: label`, or both `: int`",
                *both,
            )
            return False
        return True
    if is_index(a) and is_index(b) and a != b:
        message = f"{texts[0]} counts along `{a[6:]}` and {texts[1]} along `{b[6:]}`: indices of two axes don't compare"
        fix = "indices compare between copies of one axis, or with an int"
        cx.error(scope, "E0403", message, expr.op_span, "two axes", fix, *both)
        return False
    return True


def apply_primitive(cx: Context, scope: Scope, name: str, args: Sequence[tuple[Term, Span]], span: Span) -> Term:
    """A primitive of the registry, with its arguments' kinds checked."""
    record = cx.registry.primitives[name]
    terms = [need(cx, scope, record.argument_kind, t, s, f"`{name}`") for t, s in args]
    return cx.terms.apply(name, terms, span)
