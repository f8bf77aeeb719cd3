"""The axes of a file, before any value: declared ones, those that orders make, and copies with names of their own."""

from __future__ import annotations

from collections.abc import Iterable

from lossdsl.check.axes import introduced, primes, spread, walk
from lossdsl.check.bind import batch_names
from lossdsl.check.context import Context, Scope
from lossdsl.check.types import base_axis
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
