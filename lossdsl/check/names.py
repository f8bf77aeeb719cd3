"""Names that are not known, and what was probably meant."""

from __future__ import annotations

from lossdsl.check.context import Context, Scope
from lossdsl.check.habits import FUNCTIONS, VALUES
from lossdsl.check.typed import Term
from lossdsl.source.diagnostic import Label
from lossdsl.source.suggest import closest
from lossdsl.source.text import Span
from lossdsl.syntax import ast

SPECIAL = (
    "size",
    "detach",
    "softmax",
    "log_softmax",
    "normalize",
    "cumsum",
    "descending",
    "ascending",
    "logdet",
    "eigvals",
    "solve",
    "max",
    "min",
)


def functions_known(cx: Context, scope: Scope) -> list[str]:
    """Every function that can be called here, the file's own first."""
    from lossdsl.check.prelude import prelude

    names = [*scope.functions, *scope.modes, *SPECIAL]
    names += [r.name for r in cx.registry.reductions.values() if r.public]
    names += [p.name for p in cx.registry.primitives.values() if p.public]
    names += [*prelude(), *(f.name for f in cx.registry.losses.values())]
    return list(dict.fromkeys(names))


def unknown_value(cx: Context, scope: Scope, expr: ast.Name) -> Term:
    """Report a name that has no value here."""
    name = expr.name
    if name in scope.later:
        message = f"`{name}` is used before it is assigned"
        other = Label(scope.later[name], "assigned here")
        if cx.declaring:
            fix = "a declaration reads inputs and params only"
            return cx.error(scope, "E0205", message, expr.span, "not yet assigned", fix, other)
        return cx.error(scope, "E0205", message, expr.span, "not yet assigned", "move the assignment up", other)
    if name in scope.modes:
        message = f"`{name}` is a mode: it picks a function"
        return cx.error(scope, "E0210", message, expr.span, "used as a value", f"call it: `{name}(x)`")
    if name in VALUES:
        message = f"`{name}` is no value of the language"
        return cx.error(scope, "E0208", message, expr.span, "not a value here", VALUES[name])
    near = closest(name, [*scope.values, *scope.later])
    known = functions_known(cx, scope)
    if name in known and near is None:
        message = f"`{name}` is a function, not a value"
        return cx.error(scope, "E0210", message, expr.span, "a function without its argument", f"call it: `{name}(x)`")
    fix = f"did you mean `{near}`?" if near else f"declare it: `input {name}[N]` or `param {name} = 1`"
    return cx.error(scope, "E0201", f"`{name}` is not known", expr.span, "no value has this name", fix)


def unknown_function(cx: Context, scope: Scope, name: str, span: Span) -> Term:
    """Report a function that doesn't exist."""
    if name in FUNCTIONS:
        return cx.error(
            scope, "E0208", f"there is no function `{name}`", span, "a name of torch or Python", FUNCTIONS[name]
        )
    if name in scope.values:
        message = f"`{name}` is a value, not a function"
        return cx.error(
            scope, "E0210", message, span, "called here", f"to pick from it, write `{name}[i]`; to multiply, `*`"
        )
    near = closest(name, functions_known(cx, scope))
    fix = f"did you mean `{near}`?" if near else f"define it: `def {name}(x) = …`"
    return cx.error(scope, "E0202", f"there is no function `{name}`", span, "not known", fix)
