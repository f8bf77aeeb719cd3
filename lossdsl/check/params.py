"""Declarations of params: defaults, intervals, modes."""

from __future__ import annotations

from lossdsl.check.constants import constant
from lossdsl.check.context import Context, Scope
from lossdsl.check.terms import POISON
from lossdsl.check.typed import Param
from lossdsl.primitives.interval import FINITE, REALS, Interval
from lossdsl.source.suggest import closest
from lossdsl.source.text import Span
from lossdsl.syntax import ast


def of_name(item: ast.Item) -> Span:
    """The place of an item's name, without its axes."""
    return Span(item.span.start, min(item.span.end, item.span.start + len(item.name)))


def bounds_of(cx: Context, scope: Scope, bounds: ast.Bounds | None) -> Interval | None:
    if bounds is None:
        return None
    low = constant(cx, scope, bounds.low, "a bound")
    high = constant(cx, scope, bounds.high, "a bound")
    if low is None or high is None:
        return None
    if low > high or (low == high and (bounds.low_open or bounds.high_open)):
        cx.error(scope, "E0405", "this interval holds nothing", bounds.span, "", "the lower bound comes first")
        return None
    return Interval(float(low), float(high), bounds.low_open, bounds.high_open)


def declare_param(cx: Context, scope: Scope, decl: ast.ParamDecl, fresh: set[Span]) -> None:
    bounds = bounds_of(cx, scope, decl.bounds)
    for item, value in decl.items:
        if item.span not in fresh:
            continue
        if decl.modes:
            _mode(cx, scope, decl, item, value)
            continue
        default = _default(cx, scope, decl, item, value)
        axes = tuple(a.name for a in item.axes)
        if len(axes) > 1:
            cx.error(scope, "E0309", f"the param `{item.name}` has more than one axis", item.span, "", "use an input")
        if default is None:
            scope.values[item.name] = POISON
            continue
        if bounds is not None:
            values = default if isinstance(default, tuple) else (default,)
            bad = next((v for v in values if isinstance(v, (int, float)) and float(v) not in bounds), None)
            if bad is not None:
                message = f"the default of `{item.name}` is {bad:g}, outside {bounds}"
                cx.error(scope, "E0405", message, value.span, "outside", "move the default or the interval")
        if decl.integer and decl.learnable:
            cx.error(scope, "E0413", f"`{item.name}` is an int, which can't be learned", item.span)
        cx.params[item.name] = Param(item.name, axes, decl.integer, default, bounds, (), decl.learnable, of_name(item))
        kind = "int" if decl.integer else "real"
        interval = bounds if bounds is not None else FINITE
        if bounds is None and isinstance(default, float) and default in (float("inf"), float("-inf")):
            interval = REALS
        scope.values[item.name] = cx.terms.leaf(item.name, axes, kind, interval, item.span)
    if decl.modes and (decl.integer or decl.learnable):
        cx.error(scope, "E0406", "a mode picks a function: it is neither `int` nor `learnable`", decl.span, "")


def _default(
    cx: Context, scope: Scope, decl: ast.ParamDecl, item: ast.Item, value: ast.Expr
) -> float | tuple[float, ...] | None:
    what = f"the default of `{item.name}`"
    if isinstance(value, ast.Vector):
        if not item.axes:
            fix = f"give it an axis: `param {item.name}[K] = …`"
            cx.error(scope, "E0405", f"`{item.name}` is one number, its default is several", value.span, "", fix)
            return None
        found = [constant(cx, scope, v, what) for v in value.items]
        if any(v is None for v in found):
            return None
        numbers = tuple(float(v) for v in found if v is not None)
        if decl.integer and any(v != int(v) for v in numbers):
            cx.error(scope, "E0405", f"{what} isn't whole", value.span, "")
            return None
        return numbers
    number = constant(cx, scope, value, what)
    if number is None:
        return None
    if decl.integer and (isinstance(number, float) and not number.is_integer()):
        cx.error(scope, "E0405", f"`{item.name}` is an int, its default {number:g} isn't", value.span, "not whole")
        return None
    return float(number)


def _mode(cx: Context, scope: Scope, decl: ast.ParamDecl, item: ast.Item, value: ast.Expr) -> None:
    names = [m.name for m in decl.modes]
    if len(set(names)) < len(names):
        cx.error(scope, "E0406", f"a mode of `{item.name}` is named twice", decl.span, "")
    if not isinstance(value, ast.Name) or value.name not in names:
        near = closest(value.name, names) if isinstance(value, ast.Name) else None
        fix = f"did you mean `{near}`?" if near else f"write one of {', '.join(names)}"
        message = f"the default of the mode `{item.name}` is none of {', '.join(names)}"
        cx.error(scope, "E0406", message, value.span, "", fix)
        default = names[0]
    else:
        default = value.name
    chosen = cx.chosen.get(item.name, default)
    if chosen not in names:
        near = closest(chosen, names)
        fix = f"did you mean `{near}`?" if near else f"choose one of {', '.join(names)}"
        cx.error(scope, "E0406", f"`{item.name}` has no mode `{chosen}`", decl.span, "the modes are here", fix)
        chosen = default
    cx.params[item.name] = Param(item.name, (), False, chosen, None, tuple(names), False, of_name(item))
    scope.modes[item.name] = chosen
