"""Expressions to typed terms: names looked up, indices substituted, kinds checked."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import inf, pi
from typing import Any

from lossdsl.check import calls
from lossdsl.check.axes import moved, one, resolve
from lossdsl.check.body import piped
from lossdsl.check.context import DEEPEST, Context, Scope
from lossdsl.check.names import unknown_value
from lossdsl.check.operators import arithmetic, need
from lossdsl.check.roots import root
from lossdsl.check.terms import POISON, Exhausted, is_index, is_poison, is_whole
from lossdsl.check.typed import Term
from lossdsl.check.types import base_axis
from lossdsl.source.diagnostic import Label
from lossdsl.syntax import ast

CONSTANTS = {"pi": pi, "inf": inf}
LONGEST = 64
DIGITS = 64  # of a number that is taken as written


def elaborate(cx: Context, scope: Scope, expr: ast.Expr) -> Term:
    """The term of an expression; poison after an error, which is then reported."""
    cx.step()
    cx.depth += 1
    if cx.depth > DEEPEST:
        raise Exhausted(f"with its functions written out, the loss is nested more than {DEEPEST} deep")
    try:
        return _RULES[type(expr)](cx, scope, expr)
    finally:
        cx.depth -= 1


def _number(cx: Context, scope: Scope, expr: ast.Number) -> Term:
    span = scope.at(expr.span)
    text = expr.text
    if text.isdigit() and len(text) <= 15:
        return cx.terms.const(int(text), span)
    return cx.terms.const(_decimal(text), span)


def _decimal(text: str) -> Fraction | float:
    """What the digits say, which a float may miss; a float where it is beyond all floats."""
    near = float(text)
    if near in (0, inf) or len(text) > DIGITS:
        return near
    exact = Fraction(text)
    return near if exact == Fraction(near) else exact


def _vector(cx: Context, scope: Scope, expr: ast.Vector) -> Term:
    """[a, b, …] varies along an axis of its own of that length: a chain of selections on the axis' index."""
    span = scope.at(expr.span)
    if len(expr.items) > LONGEST:
        raise Exhausted(f"a vector in a formula has {len(expr.items)} entries, more than {LONGEST}")
    items = [elaborate(cx, scope, e) for e in expr.items]
    if any(is_poison(t) for t in items):
        return POISON
    axis = cx.new_axis("I", cx.terms.const(len(items), span))
    result = items[-1]
    for i in range(len(items) - 2, -1, -1):
        here = cx.terms.apply("eq", (cx.terms.index(axis, span), cx.terms.const(i, span)), span)
        result = cx.terms.apply("select", (here, items[i], result), span)
    return cx.terms.fill(result, (axis,), span)


def _name(cx: Context, scope: Scope, expr: ast.Name) -> Term:
    found = scope.values.get(expr.name)
    if found is not None:
        cx.note("value", scope, expr.name, expr.span, found)
        return found
    if expr.name in CONSTANTS and not cx.gaps.nameless and expr.name not in cx.gaps.names:
        return cx.terms.const(CONSTANTS[expr.name], scope.at(expr.span))
    return unknown_value(cx, scope, expr)


def _axis(cx: Context, scope: Scope, expr: ast.AxisRef) -> Term:
    axis = one(cx, scope, expr)
    return POISON if axis is None else cx.terms.index(axis, scope.at(expr.span))


def _primed(cx: Context, scope: Scope, expr: ast.Primed) -> Term:
    value = _name(cx, scope, ast.Name(expr.name, span=expr.span))
    if is_poison(value):
        return POISON
    span = scope.at(expr.span)
    targets = {a: moved(scope, a, expr.primes) for a in sorted(value.type.axes)}
    pairs = [(a, cx.terms.index(b, span)) for a, b in targets.items() if b is not None]
    if not pairs:
        batch = cx.show_axes(scope.batch)
        has = cx.show_axes(value.type.axes)
        message = f"`{expr.name}'` is `{expr.name}` for another row, but `{expr.name}` has {has}"
        fix = f"name the copy: `{expr.name}[C -> C']`"
        return cx.error(scope, "E0310", message, expr.span, f"the batch is {batch}", fix)
    return cx.terms.pick(value, pairs, span)


def _substitute(cx: Context, scope: Scope, expr: ast.Substitute) -> Term:
    base = elaborate(cx, scope, expr.base)
    pairs: list[tuple[str, Term]] = []
    for pair in expr.pairs:
        index = _index(cx, scope, pair.value, base, None, pair.axis.name)
        axes = resolve(cx, scope, pair.axis.name, pair.axis.span)
        if axes is None or is_poison(index) or is_poison(base):
            base = POISON
            continue
        if len(axes) > 1 and index.op != "index":
            one(cx, scope, pair.axis)
            base = POISON
            continue
        if any(a in dict(pairs) for a in axes):
            message = f"`{pair.axis.name}` is replaced twice"
            base = cx.error(scope, "E0311", message, pair.span, "a second time", "substitutions are simultaneous")
            continue
        axis = axes[0]
        if axis not in base.type.axes:
            has = cx.show_axes(base.type.axes)
            message = f"{cx.text(scope, expr.base.span)} has {has}, no `{pair.axis.name}` to replace"
            base = cx.error(scope, "E0301", message, pair.axis.span, "not an axis of the value")
            continue
        if not is_whole(index.type.kind) or index.type.kind == "bool":
            fix = "`floor` or `round` makes a whole number" if index.type.kind == "real" else ""
            message = f"an index is a whole number, but {cx.text(scope, pair.value.span)} is {index.type.kind}"
            base = cx.error(scope, "E0306", message, pair.value.span, f"of kind {index.type.kind}", fix)
            continue
        if index.op != "index" and is_index(index.type.kind) and index.type.kind != f"index {base_axis(axis)}":
            message = f"{cx.text(scope, pair.value.span)} is an index into `{index.type.kind[6:]}`, not into `{axis}`"
            base = cx.error(scope, "E0306", message, pair.value.span, f"of kind {index.type.kind}")
            continue
        if _other_copy(cx, scope, pair.value, axis):
            assert isinstance(pair.value, ast.AxisRef)
            copy, place = cx.aliases[pair.value.name]
            message = f"`{pair.value.name}` is a copy of `{base_axis(copy)}` already, not of `{axis}`"
            first = Label(place, f"here it became a copy of `{base_axis(copy)}`")
            base = cx.error(scope, "E0311", message, pair.value.span, "", "take another name for the copy", first)
            continue
        pairs.append((axis, index))
    if is_poison(base):
        return POISON
    return cx.terms.pick(base, pairs, scope.at(expr.span))


def _other_copy(cx: Context, scope: Scope, value: ast.Expr, axis: str) -> bool:
    """Whether a name that a substitution has made a copy of one axis is to stand for another."""
    if scope.site is not None or not isinstance(value, ast.AxisRef) or value.name not in cx.aliases:
        return False
    return base_axis(cx.aliases[value.name][0]) != base_axis(axis)


def _index(cx: Context, scope: Scope, index: ast.Expr, base: Term, of: ast.Expr | None, axis: str = "") -> Term:
    """What stands in an index's place; a name that isn't known is met as what it would be there."""
    if not isinstance(index, ast.Name) or index.name in scope.values or index.name in CONSTANTS or is_poison(base):
        return elaborate(cx, scope, index)
    free = sorted(base.type.axes - set(scope.batch), key=cx.axis_order) or sorted(base.type.axes, key=cx.axis_order)
    axis = axis or (cx.shown.get(free[-1], free[-1]) if free else "C")
    rows = ", ".join(scope.rows) or "N"
    fix = f"declare it: `input {index.name}[{rows}]: index {axis}`"
    if of is not None:
        what = cx.text(scope, of.span, "x").strip("`")
        fix += f", or say which entry: `{what}[{axis} -> 0]`; `{what}` alone stands for all of them"
    return unknown_value(cx, scope, index, fix)


def _pick(cx: Context, scope: Scope, expr: ast.Pick) -> Term:
    base = elaborate(cx, scope, expr.base)
    index = _index(cx, scope, expr.index, base, expr.base)
    if is_poison(base) or is_poison(index):
        return POISON
    kind = index.type.kind
    what, value = cx.text(scope, expr.index.span, "the index"), cx.text(scope, expr.base.span, "the value")
    axes = cx.show_axes(base.type.axes)
    if not is_index(kind):
        example = next(iter(sorted(base.type.axes - set(scope.batch))), "C")
        if is_whole(kind):
            message = f"{what} is {kind}: it doesn't say which axis of {value} it is for"
            fix = f"write `…[{example} -> {what.strip('`')}]`, or declare it `: index {example}`"
        else:
            message, fix = f"an index is a whole number, but {what} is {kind}", f"declare it `: index {example}`"
        return cx.error(scope, "E0306", message, expr.index.span, f"of kind {kind}", fix)
    base_name = kind.removeprefix("index ")
    found = sorted(a for a in base.type.axes if base_axis(a) == base_name)
    if not found:
        message = f"{what} is an index into `{base_name}`, but {value} has {axes}"
        return cx.error(
            scope, "E0306", message, expr.index.span, f"of kind {kind}", "", Label(expr.base.span, f"this has {axes}")
        )
    if len(found) > 1:  # rows are picked by name: the short form is for what isn't the batch
        found = [a for a in found if a not in scope.batch] or found
    if len(found) > 1:
        message = f"{value} has {axes}: {what} could pick from any of {cx.show_axes(tuple(found))}"
        fix = f"write `…[{found[0]} -> {what.strip('`')}]`"
        return cx.error(scope, "E0306", message, expr.index.span, "which axis?", fix)
    return cx.terms.pick(base, [(found[0], index)], scope.at(expr.span))


def _call(cx: Context, scope: Scope, expr: ast.Call) -> Term:
    return calls.call(cx, scope, expr)


def _pipe(cx: Context, scope: Scope, expr: ast.Pipe) -> Term:
    return calls.call(cx, scope, piped(expr))


def _unary(cx: Context, scope: Scope, expr: ast.Unary) -> Term:
    value = elaborate(cx, scope, expr.value)
    span = scope.at(expr.span)
    if expr.op == "not":
        return cx.terms.apply("not", (need(cx, scope, "bool", value, expr.value.span, "`not`"),), span)
    if value.op == "const" and not isinstance(value.attrs[0], (bool, str, tuple)):
        return cx.terms.const(-value.attrs[0], span)
    return cx.terms.apply("neg", (need(cx, scope, "real", value, expr.value.span, "`-`"),), span)


def _binary(cx: Context, scope: Scope, expr: ast.Binary) -> Term:
    """A chain a + b + c + … is walked, not recursed into: it may be long."""
    chain = [expr]
    while isinstance(chain[-1].left, ast.Binary):
        chain.append(chain[-1].left)
    result = elaborate(cx, scope, chain[-1].left)
    for link in reversed(chain):
        cx.step()
        result = arithmetic(cx, scope, link, result, elaborate(cx, scope, link.right))
    return result


def _if(cx: Context, scope: Scope, expr: ast.If) -> Term:
    condition = need(cx, scope, "bool", elaborate(cx, scope, expr.condition), expr.condition.span, "`if`")
    then = elaborate(cx, scope, expr.then)
    otherwise = elaborate(cx, scope, expr.otherwise)
    if is_poison(then) or is_poison(otherwise):
        return POISON
    kinds = (then.type.kind, otherwise.type.kind)
    if "label" in kinds and kinds[0] != kinds[1]:
        other = Label(expr.then.span, f"of kind {kinds[0]}")
        message = "the branches of `if` are a label and a number"
        return cx.error(scope, "E0401", message, expr.otherwise.span, f"of kind {kinds[1]}", "", other)
    return cx.terms.apply("select", (condition, then, otherwise), scope.at(expr.span))


_RULES: dict[type, Callable[[Context, Scope, Any], Term]] = {
    ast.Number: _number,
    ast.Vector: _vector,
    ast.Name: _name,
    ast.AxisRef: _axis,
    ast.Primed: _primed,
    ast.Substitute: _substitute,
    ast.Pick: _pick,
    ast.Call: _call,
    ast.Pipe: _pipe,
    ast.Unary: _unary,
    ast.Binary: _binary,
    ast.If: _if,
    ast.Root: root,
}
