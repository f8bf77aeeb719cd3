"""Calls of defs and of losses used as functions: their text is read again with the arguments in place of the names."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from lossdsl.check.axes import fresh_copy, inferred, introduced, lookup, non_batch, resolve
from lossdsl.check.bind import Actual, bind
from lossdsl.check.constants import constant
from lossdsl.check.context import Context, Function, Scope
from lossdsl.check.operators import need
from lossdsl.check.terms import POISON, is_index, is_poison
from lossdsl.check.typed import Term
from lossdsl.check.types import base_axis
from lossdsl.packs.header import read_header
from lossdsl.registry import LossFile
from lossdsl.source.diagnostic import DiagnosticError
from lossdsl.source.suggest import closest
from lossdsl.source.text import Source, Span
from lossdsl.syntax import ast
from lossdsl.syntax.parse import parse

# --- conditions of a loss that is used as a function ------------------------------------------------------------------


def conditioned(cx: Context, scope: Scope, axes: tuple[str, ...], body: Term, span: Span) -> Term:
    """The body where the callee's `axis T where …` holds, for a reduction over `axes`."""
    if is_poison(body):
        return body
    masks = []
    for axis, condition in scope.conditions:
        for a in axes:
            if base_axis(a) == base_axis(axis):
                here = condition if a == axis else cx.terms.pick(condition, [(axis, cx.terms.index(a, span))], span)
                if here.type.axes <= body.type.axes:
                    masks.append(here)
    return cx.terms.where(body, masks, span) if masks else body


def extent(cx: Context, scope: Scope, axis: str, span: Span) -> Term:
    """The size of an axis; of a callee's conditioned batch axis, how many of its rows are there."""
    masks = [m for a, m in scope.conditions if a == axis and axis in scope.batch]
    both = cx.terms.both(masks, span)
    return cx.terms.size(axis, span) if both is None else cx.terms.reduce("sum", (axis,), both, None, span)


# --- defs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Given:
    argument: ast.Argument
    term: Term
    mask: Term | None = None


def call_def(cx: Context, scope: Scope, expr: ast.Call, function: Function) -> Term:
    """A call of a def: its body with its parameters bound."""
    definition = function.definition
    name = definition.name
    given = _arguments(cx, scope, expr, definition)
    if given is None:
        return POISON
    foreign = function.scope.title != "" and function.scope.site is None
    inner = Scope(
        values=dict(function.scope.values),
        functions=function.scope.functions,
        axes={},
        batch=scope.batch if foreign else function.scope.batch,
        rows=() if foreign else function.scope.rows,
        parent=None if foreign else function.scope,
        later=function.scope.later,
        modes=function.scope.modes,
        conditions=scope.conditions,
        site=scope.at(expr.span) if foreign else function.scope.site,
        title=f"`{name}`" if foreign else function.scope.title,
    )
    if not _bind_axes(cx, scope, expr, definition, given, inner):
        return POISON
    if any(is_poison(g.term) for g in given.values()):
        return POISON
    for p in definition.parameters:
        inner.values[p.name] = _masked(cx, inner, p, given[p.name])
    key = (
        id(definition),
        id(function.scope),
        tuple(id(inner.values[p.name]) for p in definition.parameters),
        tuple(sorted(inner.axes.items())),
        inner.batch,
        tuple(id(m) for _, m in inner.conditions),
        tuple(sorted(inner.modes.items())),
    )
    if key in cx.memo:
        return cx.memo[key]
    active = f"def {id(definition)}"
    if active in cx.active:
        message = f"`{name}` calls itself: functions are written out where they are called"
        return cx.error(scope, "E0206", message, expr.function_span, "calls itself", "recursion has no end here")
    for term in inner.values.values():
        inner.used |= term.type.axes
    for images in inner.axes.values():
        inner.used.update(images)
    introduce(cx, inner, (definition.body,))
    cx.active.append(active)
    before, cx.terms.inlined = cx.terms.inlined, cx.terms.inlined or inner.site is not None
    result = cx.expr(cx, inner, definition.body)
    cx.terms.inlined = before
    cx.active.pop()
    cx.memo[key] = result
    return result


def _masked(cx: Context, inner: Scope, parameter: ast.Parameter, given: _Given) -> Term:
    """The argument where its mask holds; the mask is that of the parameter's axes, even if it varies along none."""
    if given.mask is None:
        return given.term
    assert parameter.axis is not None
    axes = inner.axes[parameter.axis.name]
    mask = given.mask
    if not mask.type.axes & set(axes):
        mask = cx.terms.fill(mask, axes[:1], mask.span)
    return cx.terms.where(given.term, (mask,), given.term.span)


def introduce(cx: Context, scope: Scope, roots: tuple[object, ...]) -> None:
    """Give the axes that an inlined text introduces (orders, copies with a name of their own) fresh ones."""
    orders, copies = introduced(roots)
    for name in orders:
        if lookup(scope, name) is None and name in scope.orders:
            scope.axes[name] = (cx.new_axis(name, scope.orders[name]),)
    for name, (of, _) in copies.items():
        if lookup(scope, name) is None and name not in orders:
            images = lookup(scope, of)
            if images is not None:
                scope.axes[name] = tuple(fresh_copy(scope, a) for a in images)


def _arguments(cx: Context, scope: Scope, expr: ast.Call, definition: ast.Def) -> dict[str, _Given] | None:
    """The arguments by parameter; None after an error."""
    parameters = {p.name: p for p in definition.parameters}
    form = f"{expr.function}({', '.join(parameters)})"
    given: dict[str, _Given] = {}
    ok = True
    for i, a in enumerate(expr.args):
        name = a.name
        if name is None and i < len(definition.parameters):
            name = definition.parameters[i].name
        if name is None or name not in parameters:
            if a.name in ("dim", "axis", "axes", "keepdim"):
                fix = f"name the axis in a bracket: `{expr.function}[C](x)`"
                cx.error(scope, "E0208", f"axes have names, not numbers: `{a.name} =` is torch", a.span, "", fix)
            elif a.name is not None:
                near = closest(a.name, parameters)
                fix = f"did you mean `{near}`?" if near else f"write `{form}`"
                cx.error(scope, "E0404", f"`{expr.function}` has no parameter `{a.name}`", a.span, "", fix)
            else:
                message = f"`{expr.function}` takes {len(parameters)} arguments, not {len(expr.args)}"
                cx.error(scope, "E0404", message, a.span, "one too many", f"write `{form}`")
            cx.expr(cx, scope, a.value)
            ok = False
            continue
        term = cx.expr(cx, scope, a.value)
        if name in given:
            cx.error(scope, "E0404", f"`{name}` of `{expr.function}` is given twice", a.span, "a second time")
            ok = False
            continue
        if a.weighted is not None:
            cx.error(scope, "E0308", "`weighted` stands in `mean` and `sum` only", a.weighted.span, "", "multiply")
            ok = False
        if a.where is not None:
            mask = need(cx, scope, "bool", cx.expr(cx, scope, a.where), a.where.span, "`where`")
            if parameters[name].axis is None:
                message = f"`{name}` of `{expr.function}` has no axis of its own: `where` would drop entries in silence"
                fix = "write `if condition then x else y`"
                cx.error(scope, "E0308", message, a.where.span, "`where` here", fix)
                ok = False
            elif is_poison(mask) or is_poison(term):
                term = POISON
            else:
                given[name] = _Given(a, term, mask)
        given.setdefault(name, _Given(a, term))
    missing = [p for p in parameters if p not in given]
    if missing and ok:
        names = ", ".join(f"`{m}`" for m in missing)
        cx.error(scope, "E0404", f"`{expr.function}` also takes {names}", expr.span, "", f"write `{form}`")
        ok = False
    return given if ok else None


def _bind_axes(
    cx: Context, scope: Scope, expr: ast.Call, definition: ast.Def, given: dict[str, _Given], inner: Scope
) -> bool:
    """Bind the def's axis parameters, and those that its parameters bring; False after an error."""
    own = [a.name for a in definition.axes]
    terms = [t for g in given.values() for t in (g.term, g.mask) if t is not None]
    written: list[str] = []
    for m in expr.axes:
        if m.to is not None:
            cx.error(scope, "E0307", f"`{expr.function}` takes axes only", m.span, "", f"write `{expr.function}[C](…)`")
            return False
        axes = resolve(cx, scope, m.axis.name, m.axis.span)
        if axes is None:
            return False
        written += axes
    if any(is_poison(t) for t in terms):
        return False
    if written and (not own or (len(own) > 1 and len(written) != len(own))):
        span = Span(expr.axes[0].span.start, expr.axes[-1].span.end)
        count = f"{len(own)} axes" if own else "no axes in a bracket"
        cx.error(scope, "E0307", f"`{expr.function}` takes {count}", span, "", "")
        return False
    if len(own) == 1:
        first = [
            t for n, g in given.items() if _declares(definition, n, own[0]) for t in (g.term, g.mask) if t is not None
        ]
        found = tuple(written) or _shared(scope, first, terms)
        found = found or inferred(cx, scope, expr.function, first or terms, expr.function_span)
        if found is None:
            return False
        inner.axes[own[0]] = found
    elif own and not written:
        message = f"`{expr.function}` takes {len(own)} axes in a bracket"
        names = ", ".join(own)
        cx.error(scope, "E0302", message, expr.function_span, "", f"write `{expr.function}[{names}](…)`")
        return False
    elif own:
        inner.axes.update({a: (x,) for a, x in zip(own, written, strict=True)})
    return all(_bind_parameter(cx, scope, expr, p, given, inner, own) for p in definition.parameters)


def _shared(scope: Scope, first: list[Term], terms: list[Term]) -> tuple[str, ...] | None:
    """The one non-batch axis that all arguments share, for a def that leaves a choice of several."""
    if not first:
        return None
    common = [a for a in non_batch(scope, first) if all(a in t.type.axes for t in terms if t.type.axes)]
    return (common[0],) if len(common) == 1 else None


def _declares(definition: ast.Def, parameter: str, axis: str) -> bool:
    return any(p.name == parameter and p.axis is not None and p.axis.name == axis for p in definition.parameters)


def _bind_parameter(
    cx: Context,
    scope: Scope,
    expr: ast.Call,
    p: ast.Parameter,
    given: dict[str, _Given],
    inner: Scope,
    own: list[str],
) -> bool:
    term, span = given[p.name].term, given[p.name].argument.value.span
    axes = term.type.axes | (given[p.name].mask or term).type.axes
    what = cx.text(scope, span, f"`{p.name}`")
    has = cx.show_axes(axes)
    if p.axis is not None and p.axis.name in own:
        lacking = [a for a in inner.axes[p.axis.name] if a not in axes]
        if lacking:
            message = f"`{expr.function}` can't run over `{cx.shown.get(lacking[0], lacking[0])}`: {what} has {has}"
            cx.error(scope, "E0301", message, span, f"this has {has}")
            return False
    elif p.axis is not None:
        found = non_batch(scope, [term])
        if len(found) != 1:
            message = f"`{p.name}` of `{expr.function}` has one axis that isn't a batch axis, but {what} has {has}"
            cx.error(scope, "E0302", message, span, f"this has {has}")
            return False
        inner.axes[p.axis.name] = (found[0],)
    if p.kind is None:
        return True
    kind = term.type.kind
    if p.kind.name != "index":
        wanted = "real" if p.kind.name == "prob" else p.kind.name
        if wanted == "label":
            return True
        return not is_poison(need(cx, scope, wanted, term, span, f"`{p.name}` of `{expr.function}`"))
    if not is_index(kind):
        message = f"`{p.name}` of `{expr.function}` is an index into an axis, but {what} is {kind}"
        cx.error(scope, "E0306", message, span, f"of kind {kind}", "declare it `: index C`")
        return False
    assert p.kind.axis is not None
    if p.kind.axis.name in inner.axes:
        return True
    base = kind.removeprefix("index ")
    others = [g.term for n, g in given.items() if n != p.name]
    near = {a for t in others for a in t.type.axes if base_axis(a) == base}
    choice = sorted(near - term.type.axes or near, key=len)
    inner.axes[p.kind.axis.name] = (choice[0] if choice else base,)
    return True


# --- losses -----------------------------------------------------------------------------------------------------------


def find_loss(cx: Context, scope: Scope, name: str, span: Span) -> LossFile | None:
    """The registered loss of that name; None if there is none or several (which is reported)."""
    found = [f for f in cx.registry.losses.values() if f.name == name]
    if not found:
        if cx.aliases_of is None:
            cx.aliases_of = {}
            for f in cx.registry.losses.values():
                for alias in read_header(f.read()).aliases:
                    cx.aliases_of.setdefault(alias, []).append(f)
        found = cx.aliases_of.get(name, [])
    if len(found) > 1:
        packs = " and ".join(f"`{f.pack}` ({f.distribution})" for f in found)
        message = f"`{name}` is a loss of several packs: {packs}"
        cx.error(scope, "E0202", message, span, "which one?", "rename one, or switch a pack off")
        return None
    return found[0] if found else None


def call_loss(cx: Context, scope: Scope, expr: ast.Call, file: LossFile) -> Term:
    """A registered loss as a function: the body of its outermost reduction, reduced over what isn't the batch here."""
    name = file.name
    text = file.read()
    full = f"{file.pack}/{name}"
    if full in cx.active or text == cx.source.text:
        message = f"`{name}` calls itself: losses are written out where they are called"
        return cx.error(scope, "E0206", message, expr.function_span, "calls itself", "recursion has no end here")
    if full not in cx.parsed:
        try:
            cx.parsed[full] = parse(Source(file.path, text))
        except DiagnosticError as error:
            message = f"the loss `{name}` of the pack `{file.pack}` is wrong itself: {error}"
            return cx.error(scope, "E0202", message, expr.function_span, "used here", f"run `lossdsl check {full}`")
    callee = cx.parsed[full]
    cx.dependencies[full] = sha256(text.encode()).hexdigest()
    inner = Scope({}, {}, {}, (), conditions=[], site=scope.at(expr.span), title=f"`{name}`")
    actual = _loss_arguments(cx, scope, expr, callee, inner)
    if actual is None or not bind(cx, scope, expr, callee, actual, inner):
        return POISON
    key = (
        full,
        tuple(sorted((k, id(v)) for k, v in inner.values.items())),
        tuple(sorted(inner.axes.items())),
        scope.batch,
        tuple(sorted(inner.modes.items())),
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
    from lossdsl.check.body import outermost, statements

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
            value = term.attrs[0]
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
                        inner.conditions.append((axis, mask))
    return True
