"""Names that are not known, and what was probably meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lossdsl.check.axes import visible, walk
from lossdsl.check.context import Context, Scope
from lossdsl.check.prelude import prelude
from lossdsl.check.terms import POISON, is_poison
from lossdsl.check.typed import Term
from lossdsl.packs.lookup import absent
from lossdsl.source.diagnostic import DiagnosticError, Label
from lossdsl.source.suggest import closest
from lossdsl.source.text import Source, Span
from lossdsl.syntax import ast
from lossdsl.syntax.foreign import FUNCTIONS, VALUES
from lossdsl.syntax.parse import parse

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


MOST_GUESSES = 40  # a file with more mistakes than this is told of them without guesses at each


def guess(cx: Context, name: str, known: Iterable[str], fits: Callable[[str], bool] | None = None) -> str | None:
    """The known name that was probably meant, rather one that fits than another."""
    return closest(name, known, fits) if len(cx.diagnostics) < MOST_GUESSES else None


def takes(cx: Context, name: str, given: int) -> bool:
    """Whether a function may be called with so many arguments without a name, as far as it is known."""
    primitive = cx.registry.primitives.get(name)
    if primitive is not None:
        return primitive.arity == given
    files = [f for f in cx.registry.losses.values() if f.name == name]
    if len(files) != 1:
        return True
    try:
        callee = parse(Source(files[0].path, files[0].read()))
    except (OSError, UnicodeDecodeError, DiagnosticError):
        return False
    inputs = [(decl, item) for decl in callee.decls if isinstance(decl, ast.InputDecl) for item in decl.items]
    needed = sum(decl.default is None and decl.draw is None for decl, _ in inputs)
    return needed <= given <= len(inputs)


def functions_known(cx: Context, scope: Scope) -> list[str]:
    """Every function that can be called here, the file's own first."""
    if not cx.known:
        names = [*SPECIAL, *(r.name for r in cx.registry.reductions.values() if r.public)]
        names += [p.name for p in cx.registry.primitives.values() if p.public]
        cx.known = [*names, *prelude(), *(f.name for f in cx.registry.losses.values())]
    return list(dict.fromkeys([*scope.functions, *scope.modes, *cx.known]))


def unsure(cx: Context, scope: Scope, name: str) -> bool:
    """Whether a value may be there that can't be read, or is declared in a way that was reported."""
    found = scope.values.get(name)
    return (found is not None and is_poison(found)) or (found is None and (cx.gaps.nameless or name in cx.gaps.names))


def unknown_value(cx: Context, scope: Scope, expr: ast.Name, instead: str = "") -> Term:
    """Report a name that has no value here; `instead` is the fix where nothing better is known."""
    name = expr.name
    if unsure(cx, scope, name):
        return POISON
    if name in scope.later:
        message = f"`{name}` is used before it is assigned"
        other = Label(scope.later[name], "assigned here")
        if cx.declaring:
            fix = "a declaration reads params and the inputs above it only"
            if name in cx.promised:
                message, other = f"`{name}` is read before it is declared", Label(scope.later[name], "declared here")
                fix = "move its declaration up"
            return cx.error(scope, "E0205", message, expr.span, "not yet there", fix, other)
        path = _circle(scope, name)
        if cx.circles.intersection(path):
            return POISON
        cx.circles.update(path)
        if path == [name]:
            fix = f"a name has one value: give this one another, `{name}2 = …`, or the value it starts from"
            return cx.error(scope, "E0206", f"`{name}` is defined by itself", expr.span, "reads itself", fix)
        if path:
            message = f"`{path[0]}` is defined in a circle: {_chain([*path, path[0]])}"
            fix = "write one of them without the others; what solves an equation is `root(t in [low, high]: f)`"
            return cx.error(scope, "E0206", message, expr.span, f"reads `{name}`", fix, other)
        return cx.error(scope, "E0205", message, expr.span, "not yet assigned", "move the assignment up", other)
    if name in scope.modes:
        message = f"`{name}` is a mode: it picks a function"
        return cx.error(scope, "E0210", message, expr.span, "used as a value", f"call it: `{name}(x)`")
    if name in VALUES:
        message = f"`{name}` is no value of the language"
        return cx.error(scope, "E0208", message, expr.span, "not a value here", VALUES[name])
    for param in cx.params.values():
        if param.modes and name in param.modes:
            message = f"`{name}` is a mode of `{param.name}`, not a value"
            return cx.error(scope, "E0210", message, expr.span, "used as a value", f"call it: `{param.name}(x)`")
    near = guess(cx, name, [*scope.values, *scope.later])
    if near is None and name in functions_known(cx, scope):
        message = f"`{name}` is a function, not a value"
        return cx.error(scope, "E0210", message, expr.span, "a function without its argument", f"call it: `{name}(x)`")
    axis = next((a for a in visible(scope) if a == name.upper() or a == name.capitalize()), None)
    fix = instead or f"declare it: `input {name}[N]` or `param {name} = 1`"
    if axis is not None:
        fix = f"axes start with a capital: `{axis}` is its index, `size({axis})` its length"
    elif near is not None:
        fix = f"did you mean `{near}`?"
    return cx.error(scope, "E0201", f"`{name}` is not known", expr.span, "no value has this name", fix)


def _circle(scope: Scope, name: str) -> list[str]:
    """How what is being assigned reads itself by way of `name`: the names in order, itself first; [] if not so."""
    start = scope.assigning
    came: dict[str, str] = {name: start}
    queue = [name]
    while queue:
        here = queue.pop()
        if here == start:
            path = [start]
            while came[path[-1]] != start:
                path.append(came[path[-1]])
            return [start, *reversed(path[1:])]
        for node in walk((scope.written.get(here),)):
            if isinstance(node, ast.Name | ast.Primed) and node.name in scope.written and node.name not in came:
                came[node.name] = here
                queue.append(node.name)
    return []


def _chain(names: list[str]) -> str:
    return " → ".join(f"`{name}`" for name in names)


def unknown_function(cx: Context, scope: Scope, name: str, span: Span, given: int | None = None) -> Term:
    """Report a function that doesn't exist, called with so many arguments that have no name."""
    if name in cx.gaps.functions:
        return POISON
    if name in FUNCTIONS:
        return cx.error(
            scope, "E0208", f"there is no function `{name}`", span, "a name of torch or Python", FUNCTIONS[name]
        )
    if name in scope.values:
        message = f"`{name}` is a value, not a function"
        return cx.error(
            scope, "E0210", message, span, "called here", f"to pick from it, write `{name}[i]`; to multiply, `*`"
        )
    if name == "root":
        message = "`root` is written with its unknown and the interval that holds it"
        return cx.error(scope, "E0412", message, span, "of which unknown?", "write `root(t in [low, high]: f)`")
    if name == cx.name and scope.site is None:
        message = f"`{name}` is this file, which can't call itself: losses are written out where they are called"
        fix = "say it with a reduction over an axis, or rename the file if another loss is meant"
        return cx.error(scope, "E0206", message, span, "calls itself", fix)
    near = guess(cx, name, functions_known(cx, scope), lambda c: given is None or takes(cx, c, given))
    fix = f"did you mean `{near}`?" if near else f"define it, `def {name}(x) = …`, or install the pack that brings it"
    blamed = absent(name, cx.registry.failures)
    message = f"there is no function `{name}`" + (f", but {blamed}" if blamed else "")
    return cx.error(scope, "E0202", message, span, "not known", fix)
