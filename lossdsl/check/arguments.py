"""The arguments of functions that take no masks and no names."""

from __future__ import annotations

from lossdsl.check.context import Context, Scope
from lossdsl.check.typed import Term
from lossdsl.source.text import Span
from lossdsl.syntax import ast


def plain_arguments(cx: Context, scope: Scope, expr: ast.Call, count: int, form: str) -> list[Term] | None:
    """`count` arguments without where, weighted or names; None after an error. `form` shows the right call."""
    ok = check_names(cx, scope, expr, form)
    for a in expr.args:
        if a.where is not None or a.weighted is not None:
            part = a.where if a.where is not None else a.weighted
            assert part is not None
            word = "where" if a.where is not None else "weighted"
            message = f"`{word}` stands in a reduction, and `{expr.function}` isn't one"
            fix = "write `if condition then x else y`" if word == "where" else "multiply"
            cx.error(scope, "E0308", message, part.span, f"`{word}` here", fix)
            ok = False
    if len(expr.args) != count:
        message = f"`{expr.function}` takes {_count(count)}, not {len(expr.args)}"
        cx.error(scope, "E0404", message, expr.span, "", f"write `{form}`")
        ok = False
    terms = [cx.expr(cx, scope, a.value) for a in expr.args]
    return terms if ok else None


def _count(n: int) -> str:
    return "one argument" if n == 1 else f"{n} arguments" if n else "no argument"


def check_names(cx: Context, scope: Scope, expr: ast.Call, form: str) -> bool:
    for a in expr.args:
        if a.name is None:
            continue
        if a.name in ("dim", "axis", "axes", "keepdim", "keepdims"):
            if a.name.startswith("keep"):
                fix = "values are joined by their axes' names: leave it out"
            else:
                fix = f"name the axis in a bracket: `{expr.function}[C](x)`"
            cx.error(scope, "E0208", f"axes have names, not numbers: `{a.name} =` is torch", a.span, "", fix)
        else:
            message = f"`{expr.function}` has no argument called `{a.name}`"
            cx.error(scope, "E0404", message, a.span, "", f"write `{form}`")
        return False
    return True


def no_bracket(cx: Context, scope: Scope, expr: ast.Call) -> bool:
    """Whether the call has no axes in a bracket; reports if it has."""
    if not expr.axes:
        return True
    span = Span(expr.axes[0].span.start, expr.axes[-1].span.end)
    message = f"`{expr.function}` works entry by entry: it takes no axes"
    cx.error(scope, "E0307", message, span, "", f"write `{expr.function}(…)`")
    return False
