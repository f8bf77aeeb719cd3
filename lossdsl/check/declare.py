"""Declarations: inputs, params, batch and axes of a file."""

from __future__ import annotations

from collections.abc import Iterable

from lossdsl.check.axes import introduced, primes, spread, walk
from lossdsl.check.bind import batch_names
from lossdsl.check.constants import constant
from lossdsl.check.context import Context, Scope
from lossdsl.check.operators import need
from lossdsl.check.terms import INDICES, POISON, is_poison
from lossdsl.check.typed import Input, Param, Term
from lossdsl.check.types import base_axis
from lossdsl.primitives.interval import FINITE, REALS, UNIT, Interval
from lossdsl.source.diagnostic import Label
from lossdsl.source.suggest import closest
from lossdsl.source.text import Span
from lossdsl.syntax import ast


def file_scope(cx: Context, loss: ast.LossDef) -> Scope:
    """The scope of a file with all its axes, before any value: declared ones, orders, and copies with own names."""
    roots = (*loss.decls, *loss.body, loss.result)
    cx.spread = spread(roots)
    scope = Scope({}, {}, {}, (), later={s.name: s.name_span for s in loss.body if isinstance(s, ast.Assign)})
    for decl in loss.decls:
        for ref in _declared(decl):
            base = base_axis(ref.name)
            if base not in scope.axes:
                scope.axes[base] = (base,)
                cx.sizes[base] = None
    orders: dict[str, ast.AxisRef] = {}
    copies: dict[str, tuple[str, Span]] = {}
    for node in walk(roots):
        if isinstance(node, ast.Call):
            for m in node.axes:
                if m.to is not None and not m.binds and not primes(m.to.name):
                    orders.setdefault(m.to.name, m.to)
        elif isinstance(node, ast.Substitution) and isinstance(node.value, ast.AxisRef):
            copies.setdefault(base_axis(node.value.name), (node.axis.name, node.value.span))
    in_defs = _names_of_defs(roots)
    for ref in _passed_to_orders(loss.body, roots):
        orders.setdefault(ref.name, ref)
    for name in orders:
        if name not in scope.axes and name not in in_defs:
            scope.axes[name] = (name,)
            cx.sizes[name] = None
    scope.plain = frozenset(scope.axes)
    for base, n in cx.spread.items():
        scope.used.update(base + "'" * k for k in range(n + 1))
    _aliases(cx, scope, {n: c for n, c in copies.items() if n not in in_defs})
    names = batch_names(loss)
    scope.rows = tuple(n for n in names if base_axis(n) == n and n in scope.axes)
    scope.batch = scope.rows
    return scope


def _names_of_defs(roots: Iterable[object]) -> set[str]:
    """Axis names that occur in defs only: they are fresh at each call."""
    inside: set[str] = set()
    outside: set[str] = set()
    for root in roots:
        names = inside if isinstance(root, ast.Def) else outside
        for node in walk(root):
            if isinstance(node, ast.AxisRef):
                names.add(base_axis(node.name))
    return inside - outside


def _passed_to_orders(body: Iterable[ast.Statement], roots: tuple[object, ...]) -> list[ast.AxisRef]:
    """Axes that a call hands to a def which makes an order along them: `def sorted[R](x) = x[ascending[N -> R](x)]`."""
    makers: dict[str, list[int]] = {}
    for d in body:
        if isinstance(d, ast.Def):
            made, _ = introduced((d.body,))
            makers[d.name] = [i for i, a in enumerate(d.axes) if a.name in made]
    found = []
    for node in walk(roots):
        if isinstance(node, ast.Call) and len(node.axes) == sum(m.to is None for m in node.axes):
            found += [node.axes[i].axis for i in makers.get(node.function, ()) if i < len(node.axes)]
    return [ref for ref in found if not primes(ref.name)]


def _aliases(cx: Context, scope: Scope, copies: dict[str, tuple[str, Span]]) -> None:
    """`x[A -> E]` with a name E that nothing declares makes E a copy of A: here it gets its place among A's copies."""
    waiting = {n: c for n, c in copies.items() if n not in scope.axes}
    while waiting:
        ready = [n for n, (of, _) in waiting.items() if base_axis(of) in scope.axes]
        if not ready:
            return
        for name in ready:
            of, span = waiting.pop(name)
            base = base_axis(scope.axes[base_axis(of)][0])
            copy = base + "'"
            while copy in scope.used:
                copy += "'"
            scope.used.add(copy)
            scope.axes[name] = (copy,)
            cx.aliases[name] = (copy, span)
            cx.shown[copy] = name


def _declared(decl: ast.Decl) -> list[ast.AxisRef]:
    if isinstance(decl, ast.InputDecl):
        return [a for item in decl.items for a in item.axes]
    if isinstance(decl, ast.ParamDecl):
        return [a for item, _ in decl.items for a in item.axes]
    if isinstance(decl, ast.AxisDecl):
        return [decl.axis] if decl.where is None else []
    return []


def declare(cx: Context, scope: Scope, loss: ast.LossDef) -> list[tuple[str, Term]]:
    """Fill the scope with inputs and params, check batch and axes; gives the conditions on axes."""
    conditions: list[tuple[str, Term]] = []
    cx.declaring = True
    _check_batch(cx, scope, loss)
    fresh = _new_names(cx, scope, loss)
    for decl in loss.decls:  # inputs may have params of any place as defaults
        if isinstance(decl, ast.ParamDecl):
            _param(cx, scope, decl, fresh)
    for decl in loss.decls:
        if isinstance(decl, ast.InputDecl):
            _input(cx, scope, decl, fresh)
    bound = {base_axis(a) for i in cx.inputs.values() if i.default is None and i.draw is None for a in i.axes}
    for decl in loss.decls:
        if isinstance(decl, ast.AxisDecl):
            _axis(cx, scope, decl, bound, conditions)
    for p in cx.params.values():
        size = cx.sizes.get(p.axes[0]) if p.axes else None
        given = len(p.default) if isinstance(p.default, tuple) else None
        if size is not None and size.op == "const" and given is not None and size.attrs[0] != given:
            message = f"`{p.name}` has {given} entries along `{p.axes[0]}`, whose size is {size.attrs[0]}"
            cx.error(scope, "E0309", message, p.span, "", f"leave `axis {p.axes[0]} = …` out, or give as many")
    cx.declaring = False
    return conditions


def _check_batch(cx: Context, scope: Scope, loss: ast.LossDef) -> None:
    for decl in loss.decls:
        if not isinstance(decl, ast.BatchDecl):
            continue
        for ref in decl.axes:
            if base_axis(ref.name) != ref.name or ref.name not in scope.axes:
                known = [a for a in scope.axes if a == base_axis(a)]
                near = closest(ref.name, known)
                fix = f"did you mean `{near}`?" if near else f"the axes are {', '.join(known)}"
                cx.error(scope, "E0203", f"no input has the batch axis `{ref.name}`", ref.span, "", fix)
    if loss.kind == "loss" and not scope.rows and not any(isinstance(d, ast.BatchDecl) for d in loss.decls):
        inputs = [d for d in loss.decls if isinstance(d, ast.InputDecl)]
        span = inputs[0].span if inputs else loss.name_span
        message = "no input has an axis, so there is no batch"
        cx.error(scope, "E0309", message, span, "", "give an input its axes: `input logits[N, C]`")


def _new_names(cx: Context, scope: Scope, loss: ast.LossDef) -> set[Span]:
    """The places of all items whose name is new; the others are reported."""
    places: dict[str, Span] = {}
    fresh: set[Span] = set()
    for decl in loss.decls:
        if isinstance(decl, ast.InputDecl):
            items = list(decl.items)
        elif isinstance(decl, ast.ParamDecl):
            items = [i for i, _ in decl.items]
        else:
            continue
        for item in items:
            span = _of_name(item)
            if item.name in places:
                first = Label(places[item.name], "first declared here")
                cx.error(scope, "E0204", f"`{item.name}` is declared twice", span, "again", "rename one", first)
            else:
                places[item.name] = span
                fresh.add(item.span)
    return fresh


def _of_name(item: ast.Item) -> Span:
    """The place of an item's name, without its axes."""
    return Span(item.span.start, min(item.span.end, item.span.start + len(item.name)))


def _input(cx: Context, scope: Scope, decl: ast.InputDecl, fresh: set[Span]) -> None:
    kind, interval = "real", REALS
    if decl.kind is not None:
        kind = decl.kind.name
        if kind in ("prob", "index"):
            if decl.kind.axis is None:
                example = f"input {decl.items[0].name}[N]: {kind} C"
                cx.error(
                    scope,
                    "E0413",
                    f"`{kind}` says of which axis",
                    decl.kind.span,
                    "of which axis?",
                    f"write `{example}`",
                )
                kind = "int" if kind == "index" else "real"
            else:
                base = base_axis(decl.kind.axis.name)
                if base not in scope.axes:
                    known = list(scope.axes)
                    near = closest(base, known)
                    fix = f"did you mean `{near}`?" if near else "an input or an `axis` line declares it"
                    cx.error(scope, "E0203", f"no axis is called `{base}`", decl.kind.axis.span, "", fix)
                kind = f"{kind} {base}"
    if kind.startswith("prob") or kind == "bool":
        interval = UNIT
    elif kind.startswith("index"):
        interval = INDICES
    elif kind in ("int", "label"):
        interval = FINITE
    bounds = _bounds(cx, scope, decl.bounds)
    if decl.draw is not None:
        interval = UNIT if decl.draw == "uniform" else FINITE
    default: Term | None = None
    if decl.default is not None:
        default = cx.expr(cx, scope, decl.default)
        wanted = {"label": "int"}.get(kind, "real" if kind.startswith("prob") else kind)
        if wanted.startswith("index"):
            wanted = "int"
        default = need(cx, scope, wanted, default, decl.default.span, "this input")
    for item in decl.items:
        if item.span not in fresh:
            continue
        axes: list[str] = []
        for ref in item.axes:
            if ref.name in axes:
                fix = f"the second is a copy: `{ref.name}'`"
                cx.error(scope, "E0309", f"`{item.name}` has the axis `{ref.name}` twice", ref.span, "again", fix)
                axes.append(f"{ref.name}'")
            else:
                axes.append(ref.name)
        value = default
        if value is not None and not is_poison(value) and not value.type.axes <= set(axes):
            extra = cx.show_axes(value.type.axes - set(axes))
            message = f"the default of `{item.name}` has axes that it hasn't: {extra}"
            assert decl.default is not None
            cx.error(scope, "E0407", message, decl.default.span, f"this has {cx.show_axes(value.type.axes)}")
        if kind.startswith("prob ") and kind[5:] not in axes:
            message = f"`{item.name}` is `{kind}`, but has no axis `{kind[5:]}`"
            cx.error(scope, "E0413", message, item.span, "", f"write `{item.name}[N, {kind[5:]}]`")
        cx.inputs[item.name] = Input(item.name, tuple(axes), kind, decl.fixed, value, decl.draw, bounds, _of_name(item))
        own = "real" if kind.startswith("prob") else kind
        term = cx.terms.leaf(item.name, axes, own, bounds if bounds is not None else interval, item.span)
        scope.values[item.name] = term


def _bounds(cx: Context, scope: Scope, bounds: ast.Bounds | None) -> Interval | None:
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


def _param(cx: Context, scope: Scope, decl: ast.ParamDecl, fresh: set[Span]) -> None:
    bounds = _bounds(cx, scope, decl.bounds)
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
        cx.params[item.name] = Param(item.name, axes, decl.integer, default, bounds, (), decl.learnable, _of_name(item))
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
    cx.params[item.name] = Param(item.name, (), False, chosen, None, tuple(names), False, _of_name(item))
    scope.modes[item.name] = chosen


def _axis(cx: Context, scope: Scope, decl: ast.AxisDecl, bound: set[str], conditions: list[tuple[str, Term]]) -> None:
    name = decl.axis.name
    if decl.size is not None:
        size = need(cx, scope, "int", cx.expr(cx, scope, decl.size), decl.size.span, "the size of an axis")
        if is_poison(size):
            return
        if size.type.axes:
            message = f"the size of `{name}` varies along {cx.show_axes(size.type.axes)}"
            cx.error(scope, "E0309", message, decl.size.span, "", "an axis has one size: use `axis T where …`")
        elif any(t.op == "leaf" and str(t.attrs[0]) in cx.inputs for t in _terms(size)):
            message = f"the size of `{name}` depends on a tensor's values"
            cx.error(scope, "E0309", message, decl.size.span, "", "make it a param: `param k: int = 3`")
        elif primes(name):
            cx.error(
                scope, "E0309", "copies have the size of their axis", decl.span, "", f"declare `{base_axis(name)}`"
            )
        elif name not in bound:
            cx.sizes[name] = size
    if decl.where is not None:
        if name not in scope.axes:
            known = list(scope.axes)
            near = closest(name, known)
            fix = f"did you mean `{near}`?" if near else f"the axes are {', '.join(known)}"
            cx.error(scope, "E0203", f"no axis is called `{name}`", decl.axis.span, "", fix)
            return
        mask = need(cx, scope, "bool", cx.expr(cx, scope, decl.where), decl.where.span, "`axis … where`")
        if is_poison(mask):
            return
        if name not in mask.type.axes:
            has = cx.show_axes(mask.type.axes)
            message = f"the condition says nothing of `{name}`: it has {has}"
            cx.error(
                scope, "E0309", message, decl.where.span, f"this has {has}", f"write one that varies along `{name}`"
            )
            return
        conditions.append((name, mask))


def _terms(term: Term) -> list[Term]:
    found, stack, seen = [], [term], {id(term)}
    while stack:
        t = stack.pop()
        found.append(t)
        for a in t.args:
            if id(a) not in seen:
                seen.add(id(a))
                stack.append(a)
    return found
