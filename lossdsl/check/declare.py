"""Declarations of a file: inputs, batch, sizes and conditions of axes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lossdsl.check.axes import primes
from lossdsl.check.context import Context, Scope
from lossdsl.check.operators import need
from lossdsl.check.params import bounds_of, declare_param, of_name
from lossdsl.check.sizes import MOST, beyond, written
from lossdsl.check.terms import INDICES, is_poison
from lossdsl.check.typed import Input, Term
from lossdsl.check.types import base_axis
from lossdsl.primitives.interval import FINITE, REALS, UNIT
from lossdsl.source.diagnostic import Label
from lossdsl.source.suggest import closest
from lossdsl.source.text import Span
from lossdsl.syntax import ast
from lossdsl.syntax.gaps import NONE


def declare(cx: Context, scope: Scope, loss: ast.LossDef) -> list[tuple[str, Term]]:
    """Fill the scope with inputs and params, check batch and axes; gives the conditions on axes."""
    conditions: list[tuple[str, Term]] = []
    cx.declaring = True
    _check_batch(cx, scope, loss)
    fresh = _new_names(cx, scope, loss)
    for decl in loss.decls:  # inputs may have params of any place as defaults
        if isinstance(decl, ast.ParamDecl):
            declare_param(cx, scope, decl, fresh)
    inputs = [decl for decl in loss.decls if isinstance(decl, ast.InputDecl)]
    promised = {item.name: of_name(item) for decl in inputs for item in decl.items if item.span in fresh}
    cx.promised.update(promised)
    scope.later |= promised
    for decl in inputs:
        _input(cx, scope, decl, fresh)
        for item in decl.items:
            scope.later.pop(item.name, None)
            cx.promised.discard(item.name)
    bound = {base_axis(a) for i in cx.inputs.values() if i.default is None and i.draw is None for a in i.axes}
    for decl in loss.decls:
        if isinstance(decl, ast.AxisDecl):
            _axis(cx, scope, decl, bound, conditions, loss.decls)
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
            if base_axis(ref.name) != ref.name or not _known(cx, scope, ref.name):
                known = [a for a in scope.axes if a == base_axis(a)]
                near = closest(ref.name, known)
                fix = f"did you mean `{near}`?" if near else f"the axes are {', '.join(known)}"
                cx.error(scope, "E0203", f"no input has the batch axis `{ref.name}`", ref.span, "", fix)
                cx.gaps = replace(cx.gaps, batch=True)
    said = any(isinstance(d, ast.BatchDecl) for d in loss.decls)
    if loss.kind == "loss" and not scope.rows and not said and cx.gaps == NONE:
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
            span = of_name(item)
            if item.name in places:
                first = Label(places[item.name], "first declared here")
                cx.error(scope, "E0204", f"`{item.name}` is declared twice", span, "again", "rename one", first)
            else:
                places[item.name] = span
                fresh.add(item.span)
    return fresh


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
                if not _known(cx, scope, base):
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
    bounds = bounds_of(cx, scope, decl.bounds)
    if decl.draw is not None:
        interval = UNIT if decl.draw == "uniform" else FINITE
    default: Term | None = None
    if decl.default is not None:
        default = cx.expr(cx, scope, decl.default)
        if kind == "bool" and default.op == "const" and default.attrs[0] in (0, 1):  # as a tensor of 0 and 1
            default = cx.terms.const(bool(default.attrs[0]), decl.default.span)
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
            names = ", ".join([*axes, *extra.strip("[]").split(", ")])
            fix = f"declare `{item.name}[{names}]`, or reduce it: `mean{extra}(…)`"
            cx.error(scope, "E0407", message, decl.default.span, f"this has {cx.show_axes(value.type.axes)}", fix)
        if kind.startswith("prob ") and kind[5:] not in axes:
            message = f"`{item.name}` is `{kind}`, but has no axis `{kind[5:]}`"
            cx.error(scope, "E0413", message, item.span, "", f"write `{item.name}[N, {kind[5:]}]`")
        cx.inputs[item.name] = Input(item.name, tuple(axes), kind, decl.fixed, value, decl.draw, bounds, of_name(item))
        own = "real" if kind.startswith("prob") else kind
        term = cx.terms.leaf(item.name, axes, own, bounds if bounds is not None else interval, item.span)
        scope.values[item.name] = term


def _lengths(cx: Context, decls: Iterable[ast.Decl]) -> set[str]:
    """The axes whose length something says: an input, given or not, a param, or an `axis` line."""
    held = [*(i.axes for i in cx.inputs.values()), *(p.axes for p in cx.params.values())]
    return {base_axis(a) for axes in held for a in axes} | {
        decl.axis.name for decl in decls if isinstance(decl, ast.AxisDecl) and decl.size is not None
    }


def _axis(
    cx: Context,
    scope: Scope,
    decl: ast.AxisDecl,
    bound: set[str],
    conditions: list[tuple[str, Term]],
    decls: Iterable[ast.Decl],
) -> None:
    name = decl.axis.name
    if decl.size is not None:
        size = cx.expr(cx, scope, decl.size)
        if isinstance(decl.size, ast.Name) and size.op == "leaf" and size.type.kind == "real":
            message = f"the size of `{name}` is a whole number, but `{decl.size.name}` is real"
            fix = f"declare it so: `param {decl.size.name}: int = …`"
            cx.error(scope, "E0401", message, decl.size.span, "of kind real", fix)
            return
        size = need(cx, scope, "int", size, decl.size.span, "the size of an axis")
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
        elif (part := beyond(size)) is not None or written(size) > MOST:
            message = f"the size of `{name}` is more than arithmetic of numbers, params and sizes"
            what = "" if part is None else cx.text(scope, part.span)
            fix = "`+ - * / ^`, `min max mod floor round abs sqrt log exp`, comparisons and `if` may stand in it"
            caret = "too long" if part is None else f"{what} is none of these" if what != "this" else ""
            cx.error(scope, "E0309", message, decl.size.span, caret, fix)
        elif name not in bound:
            cx.sizes[name] = size
    elif base_axis(name) not in _lengths(cx, decls) and (decl.where is None or _known(cx, scope, name)):
        message = f"nothing says how long `{name}` is: no input has it as an axis"
        cx.error(scope, "E0309", message, decl.axis.span, "", f"write `axis {name} = 10`, or an int param: `= k`")
        return
    if decl.where is not None:
        if not _known(cx, scope, name):
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


def _known(cx: Context, scope: Scope, axis: str) -> bool:
    return axis in scope.axes or axis in cx.gaps.axes


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
