"""Brackets behind a name: axes of a call, an index, or what is put in an axis's place; and what every tree must be."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from lossdsl.source.text import Span
from lossdsl.syntax import ast
from lossdsl.syntax.names import Mistake


@dataclass(frozen=True, slots=True)
class Bracketed:
    """`f[N, C]` or `f[C = K]`: right as the front of a call, wrong as a value of its own."""

    base: ast.Expr
    entries: tuple[Any, ...]
    span: Span


def callee(base: ast.Expr | Bracketed) -> tuple[ast.Name, tuple[ast.AxisMap, ...]]:
    """The function and the axes of `f`, `f[A]`, `f[A -> B]`, `f[C = K]`."""
    entries: tuple[Any, ...] = ()
    front: ast.Expr | Bracketed = base
    if isinstance(base, ast.Substitute):
        front, entries = base.base, base.pairs
    elif isinstance(base, ast.Pick):
        front, entries = base.base, (base.index,)
    elif isinstance(base, Bracketed):
        front, entries = base.base, base.entries
    if not isinstance(front, ast.Name):
        fix = (
            "put `*` between two factors"
            if not isinstance(front, ast.AxisRef)
            else f"a function starts with a small letter: `{front.name.lower()}`"
        )
        raise Mistake("E0124", "only a function's name can be called", front.span, "this isn't a function's name", fix)
    return front, tuple(_axis_map(e) for e in entries)


def _axis_map(entry: Any) -> ast.AxisMap:
    if isinstance(entry, ast.AxisMap):
        return entry
    if isinstance(entry, ast.AxisRef):
        return ast.AxisMap(entry, span=entry.span)
    if isinstance(entry, ast.Substitution) and isinstance(entry.value, ast.AxisRef):
        return ast.AxisMap(entry.axis, entry.value, span=entry.span)
    if isinstance(entry, ast.Name):
        fix = f"write `{entry.name[0].upper() + entry.name[1:]}`"
        raise Mistake("E0108", "an axis starts with a capital letter", entry.span, "axes are capitals: N, C, K'", fix)
    fix = "write a capital name, as in `softmax[C](x)`"
    raise Mistake("E0125", "the brackets of a call hold axes", entry.span, "this isn't an axis", fix)


def check_tree(statement: object, deepest: int) -> None:
    """Refuses a bracket list that no call followed, and trees deeper than `deepest`; walks without recursion."""
    stack: list[tuple[object, int]] = [(statement, 0)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, tuple):
            stack.extend((child, depth) for child in node)
            continue
        if isinstance(node, Bracketed):
            raise _not_an_index(node)
        if not is_dataclass(node) or isinstance(node, Span | type):
            continue
        if depth > deepest:
            message = f"the expression is nested more than {deepest} levels deep"
            span = getattr(node, "span", Span(0, 0))
            raise Mistake("E0102", message, span, "too deep here", "give a part of it a name of its own")
        stack.extend((getattr(node, f.name), depth + 1) for f in fields(node) if f.compare)


def _not_an_index(node: Bracketed) -> Mistake:
    if any(isinstance(e, ast.AxisMap) for e in node.entries):
        return Mistake("E0122", "`C = K` binds an axis in the call of a loss", node.span, "nothing is called here")
    fix = "say which axis takes which index: `x[A -> i, B -> j]`"
    if isinstance(node.entries[0], ast.AxisRef) and isinstance(node.entries[-1], ast.Name):
        fix = f"name only what is replaced: `…[{node.entries[-1].name}]`; the other axes stay"
    return Mistake("E0122", "one index stands in brackets, or one `A -> i` for each axis", node.span, "here", fix)
