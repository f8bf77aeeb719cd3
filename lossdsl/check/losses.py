"""Calls of registered losses: a file's text is read again with the arguments in place of inputs and params."""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha256

from lossdsl.check.axes import lookup
from lossdsl.check.bind import Actual, bind
from lossdsl.check.body import outermost, statements
from lossdsl.check.conditions import conditioned
from lossdsl.check.constants import constant
from lossdsl.check.context import Condition, Context, Scope
from lossdsl.check.defs import introduce, recursion
from lossdsl.check.operators import need
from lossdsl.check.terms import POISON, is_poison
from lossdsl.check.typed import Term
from lossdsl.packs.header import header_of
from lossdsl.registry import LossFile
from lossdsl.source.diagnostic import DiagnosticError
from lossdsl.source.suggest import closest
from lossdsl.source.text import Source, Span
from lossdsl.syntax import ast
from lossdsl.syntax.parse import parse


def find_loss(cx: Context, scope: Scope, name: str, span: Span) -> LossFile | None:
    """The registered loss of that name; None if there is none or several (which is reported)."""
    found = [f for f in cx.registry.losses.values() if f.name == name] or by_alias(cx, name)
    if len(found) > 1:
        packs = " and ".join(f"`{f.pack}` ({f.distribution})" for f in found)
        message = f"`{name}` is a loss of several packs: {packs}"
        cx.error(scope, "E0202", message, span, "which one?", "rename one, or turn a pack off: `LOSSDSL_DISABLE=…`")
        return None
    return found[0] if found else None


def by_alias(cx: Context, name: str) -> list[LossFile]:
    """The registered losses that have it as another name."""
    if cx.aliases_of is None:
        cx.aliases_of = {}
        for f in cx.registry.losses.values():
            for alias in header_of(f).aliases:
                cx.aliases_of.setdefault(alias, []).append(f)
    return cx.aliases_of.get(name, [])


def call_loss(cx: Context, scope: Scope, expr: ast.Call, file: LossFile) -> Term:
    """A registered loss as a function: the body of its outermost reduction, reduced over what isn't the batch here."""
    name = file.name
    full = f"{file.pack}/{name}"
    try:
        text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        message = f"the loss `{name}` of {file.distribution} can't be read: {error}"
        return cx.error(scope, "E0202", message, expr.function_span, "used here", f"see {file.path}")
    if full in cx.active or text == cx.source.text:
        through = cx.active[cx.active.index(full) + 1 :] if full in cx.active else []
        return recursion(cx, scope, name, through, expr.function_span)
    if full not in cx.parsed:
        try:
            cx.parsed[full] = parse(Source(file.path, text, file.owner))
        except DiagnosticError as error:
            message = f"the loss `{name}` of the pack `{file.pack}` is wrong itself: {error}"
            return cx.error(scope, "E0202", message, expr.function_span, "used here", f"run `lossdsl check {full}`")
    callee = cx.parsed[full]
    cx.dependencies[full] = sha256(text.encode()).hexdigest()
    inner = Scope({}, {}, {}, (), conditions=list(scope.conditions), site=scope.at(expr.span), title=f"`{name}`")
    actual = _loss_arguments(cx, scope, expr, callee, inner)
    if actual is None or not bind(cx, scope, expr, callee, actual, inner):
        return POISON
    key = (
        full,
        tuple(sorted((k, id(v)) for k, v in inner.values.items())),
        tuple(sorted(inner.axes.items())),
        scope.batch,
        tuple(sorted(inner.modes.items())),
        tuple(id(c) for c in inner.conditions),
    )
    if key in cx.memo:
        return cx.memo[key]
    cx.active.append(full)
    before, cx.terms.inlined = cx.terms.inlined, True
    result = _written_out(cx, scope, expr, callee, inner)
    cx.terms.inlined = before
    cx.active.pop()
    cx.memo[key] = result
    return result


def _written_out(cx: Context, scope: Scope, expr: ast.Call, callee: ast.LossDef, inner: Scope) -> Term:
    """The value of a callee whose inputs and params are bound."""
    name = callee.name
    if not _callee_declarations(cx, inner, callee):
        return POISON
    for term in inner.values.values():
        inner.used |= term.type.axes
    for images in inner.axes.values():
        inner.used.update(images)
    introduce(cx, inner, (*callee.body, callee.result))
    statements(cx, inner, callee.body)
    span = scope.at(expr.span)
    if callee.kind == "map":
        return cx.expr(cx, inner, callee.result.value)
    outer = outermost(cx, inner, callee)
    if outer.weight is not None and not is_poison(outer.body):
        message = f"`{name}` weights its mean, so it has no value of one row to use"
        return cx.error(scope, "E0408", message, expr.function_span, "", "write the mean: `mean[N](e weighted w)`")
    result = outer.body
    if outer.word is not None and not is_poison(result):
        rest = tuple(a for a in outer.axes if a not in scope.batch)
        kept = tuple(a for a in outer.axes if a in scope.batch)
        result = conditioned(cx, inner, kept, result, span)
        if rest:
            result = _reduced(cx, inner, outer.word, rest, result, outer.keep, span)
        elif outer.keep is not None:
            result = cx.terms.where(result, (outer.keep,), span)
    return result


def _reduced(
    cx: Context, scope: Scope, word: str, axes: tuple[str, ...], body: Term, keep: Term | None, span: Span
) -> Term:
    body = conditioned(cx, scope, axes, body, span)
    total = cx.terms.reduce("sum", axes, body, keep, span)
    if word == "sum":
        return total
    count = cx.terms.reduce("count", axes, body, keep, span)
    least = cx.terms.apply("maximum", (count, cx.terms.const(1, span)), span)
    return cx.terms.apply("div", (total, least), span)


def _items(callee: ast.LossDef) -> dict[str, tuple[ast.InputDecl, ast.Item]]:
    return {i.name: (d, i) for d in callee.decls if isinstance(d, ast.InputDecl) for i in d.items}


def _params(callee: ast.LossDef) -> dict[str, tuple[ast.ParamDecl, ast.Item, ast.Expr]]:
    return {i.name: (d, i, e) for d in callee.decls if isinstance(d, ast.ParamDecl) for i, e in d.items}


def _loss_arguments(
    cx: Context, scope: Scope, expr: ast.Call, callee: ast.LossDef, inner: Scope
) -> list[Actual] | None:
    """The tensors given, with params and modes put into `inner`; None after an error."""
    inputs, params = _items(callee), _params(callee)
    order = list(inputs)
    form = f"{callee.name}({', '.join(n for n, (d, _) in inputs.items() if d.default is None and d.draw is None)})"
    given: dict[str, ast.Argument] = {}
    ok = True
    for i, a in enumerate(expr.args):
        name = a.name if a.name is not None else order[i] if i < len(order) else None
        part = a.where if a.where is not None else a.weighted
        if part is not None:
            word = "where" if a.where is not None else "weighted"
            message = f"`{word}` in the argument of a loss would drop rows in silence"
            what = cx.text(scope, a.value.span, "x").strip("`")
            condition = cx.text(scope, part.span, "condition").strip("`")
            fix = (
                f"write `if {condition} then {what} else -inf`" if word == "where" else "write `mean[N](e weighted w)`"
            )
            cx.error(scope, "E0308", message, part.span, f"`{word}` here", fix)
            ok = False
        if name is None:
            message = f"`{callee.name}` has {len(order)} inputs; params go by name"
            names = ", ".join(f"`{p} = …`" for p in params)
            cx.error(scope, "E0404", message, a.span, "one too many", f"its params: {names}" if params else "")
            ok = False
        elif name not in inputs and name not in params:
            near = closest(name, [*inputs, *params])
            fix = f"did you mean `{near}`?" if near else f"write `{form}`"
            cx.error(scope, "E0404", f"`{callee.name}` has no input or param `{name}`", a.span, "", fix)
            ok = False
        elif name in given:
            cx.error(scope, "E0404", f"`{name}` of `{callee.name}` is given twice", a.span, "a second time")
            ok = False
        else:
            given[name] = a
    actual: list[Actual] = []
    for name, (decl, item) in inputs.items():
        if name in given:
            value = given[name].value
            term = cx.expr(cx, scope, value)
            actual.append(Actual(name, tuple(a.name for a in item.axes), decl.kind, term, value.span))
        elif decl.draw is not None:
            axes = f"[{', '.join(a.name for a in item.axes)}]" if item.axes else ""
            message = f"`{name}` of `{callee.name}` is drawn at the call, and here the caller is this file"
            fix = f"declare `input {name}{axes} ~ {decl.draw}` and pass it: `{name} = {name}`"
            cx.error(scope, "E0409", message, expr.span, "", fix)
            ok = False
        elif decl.default is None:
            if ok:
                cx.error(scope, "E0404", f"`{callee.name}` also takes `{name}`", expr.span, "", f"write `{form}`")
            ok = False
    for name, (pdecl, pitem, default) in params.items():
        if not _loss_param(cx, scope, expr, callee, inner, given.get(name), pdecl, pitem, default, actual):
            ok = False
    return actual if ok else None


def _loss_param(
    cx: Context,
    scope: Scope,
    expr: ast.Call,
    callee: ast.LossDef,
    inner: Scope,
    given: ast.Argument | None,
    decl: ast.ParamDecl,
    item: ast.Item,
    default: ast.Expr,
    actual: list[Actual],
) -> bool:
    name = item.name
    if decl.modes:
        chosen = given.value if given is not None else default
        names = [m.name for m in decl.modes]
        word = chosen.name if isinstance(chosen, ast.Name) else ""
        word = scope.modes.get(word, word) if given is not None else word
        if word not in names:
            near = closest(word, names)
            fix = f"did you mean `{near}`?" if near else f"write one of {', '.join(names)}"
            cx.error(scope, "E0406", f"`{name}` of `{callee.name}` has no such mode", chosen.span, "", fix)
            return False
        inner.modes[name] = word
        return True
    if given is None:
        if decl.learnable:
            message = f"`{name}` of `{callee.name}` is learnable, and a function has no parameters of its own"
            fix = f"declare `param {name} = 1 learnable` here and pass it: `{name} = {name}`"
            cx.error(scope, "E0409", message, expr.span, "", fix)
            return False
        term = cx.expr(cx, inner, default)
        span = expr.span
    else:
        term, span = cx.expr(cx, scope, given.value), given.value.span
        term = need(cx, scope, "int" if decl.integer else "real", term, span, f"`{name}` of `{callee.name}`")
        if term.op == "const" and decl.bounds is not None:
            low = constant(cx, inner, decl.bounds.low, "a bound")
            high = constant(cx, inner, decl.bounds.high, "a bound")
            value = float(term.attrs[0]) if isinstance(term.attrs[0], Fraction) else term.attrs[0]
            if low is not None and high is not None and isinstance(value, (int, float)):
                outside = value < low or value > high
                at_end = (value == low and decl.bounds.low_open) or (value == high and decl.bounds.high_open)
                if outside or at_end:
                    left, right = "(" if decl.bounds.low_open else "[", ")" if decl.bounds.high_open else "]"
                    message = f"`{name}` of `{callee.name}` lies in {left}{low}, {high}{right}, not at {value}"
                    cx.error(scope, "E0405", message, span, "outside")
                    return False
    if is_poison(term):
        return False
    if item.axes:
        actual.append(Actual(name, tuple(a.name for a in item.axes), None, term, span))
    else:
        inner.values[name] = term
    return True


def _callee_declarations(cx: Context, inner: Scope, callee: ast.LossDef) -> bool:
    """Defaults of inputs that were left out, sizes and conditions of axes."""
    span = inner.site or callee.span
    for decl in callee.decls:
        if isinstance(decl, ast.InputDecl) and decl.default is not None:
            for item in decl.items:
                if item.name in inner.values:
                    continue
                term = cx.expr(cx, inner, decl.default)
                axes = [b for a in item.axes for b in (lookup(inner, a.name) or ())]
                inner.values[item.name] = cx.terms.fill(term, axes, span)
        elif isinstance(decl, ast.AxisDecl):
            images = lookup(inner, decl.axis.name)
            if decl.size is not None and images is None:
                size = cx.expr(cx, inner, decl.size)
                if is_poison(size):
                    return False
                inner.orders[decl.axis.name] = size
                inner.axes[decl.axis.name] = (cx.new_axis(decl.axis.name, size),)
            if decl.where is not None:
                mask = cx.expr(cx, inner, decl.where)
                if is_poison(mask):
                    return False
                for axis in images or ():
                    if axis in mask.type.axes:
                        others = frozenset(x for xs in inner.axes.values() for x in xs if x != axis)
                        inner.conditions.append(Condition(axis, mask, others))
    return True
