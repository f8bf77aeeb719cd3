"""The first two stages as stable text: the syntax tree and the typed terms. Later stages print themselves."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from lossdsl.check.typed import CheckedLoss, Input, Param, Term
from lossdsl.source.text import Span
from lossdsl.syntax.ast import LossDef

WIDTH = 52


def print_ast(loss: LossDef) -> str:
    """One node a line: its class, what it says itself, then its children indented. Places and comments are left out."""
    lines: list[str] = []
    _node(loss, "", 0, lines)
    return "\n".join(lines) + "\n"


def _node(node: Any, role: str, depth: int, lines: list[str]) -> None:
    words = [f"{role}:" if role else "", type(node).__name__]
    children: list[tuple[str, Any]] = []
    for f in fields(node):
        value = getattr(node, f.name)
        if isinstance(value, Span) or value is None or value is False or value == () or f.name == "comments":
            continue
        if is_dataclass(value):
            children.append((f.name, value))
        elif isinstance(value, tuple) and any(is_dataclass(x) or isinstance(x, tuple) for x in value):
            children += [(f.name, item) for item in value]
        else:
            words.append(_word(f.name, value))
    lines.append("  " * depth + " ".join(word for word in words if word))
    for name, child in children:
        if isinstance(child, tuple):  # a pair: a param with its default, an example's binding
            lines.append("  " * (depth + 1) + f"{name}:")
            for part in child:
                _node(part, "", depth + 2, lines)
        else:
            _node(child, name, depth + 1, lines)


def _word(name: str, value: Any) -> str:
    if value is True:
        return name
    if isinstance(value, tuple):
        value = ", ".join(map(str, value))
    return f"{name}={value!r}" if isinstance(value, str) else f"{name}={value}"


def print_typed(checked: CheckedLoss) -> str:
    """The declarations, then one term a line with its type; a term that is used twice is printed once."""
    axes = [f"{axis.name} (batch)" if axis.batch else axis.name for axis in checked.axes]
    lines = [f"{checked.kind} {checked.name}", f"axes {', '.join(axes)}"]
    lines += map(_input, checked.inputs)
    lines += map(_param, checked.params)
    order = [axis.name for axis in checked.axes]
    numbers: dict[int, int] = {}
    named = [(f"default.{i.name}", i.default) for i in checked.inputs if i.default is not None]
    named += [(f"size.{axis.name}", axis.size) for axis in checked.axes if axis.size is not None]
    named += [(f"where.{axis}", term) for axis, term in checked.conditions]
    named += [(f"output.{name}", term) for name, term in checked.outputs]
    named += [(name, term) for name, term in (("keep", checked.keep), ("weight", checked.weight)) if term is not None]
    named.append(("result", checked.result))
    for _, term in named:
        _term(term, numbers, order, lines)
    lines += [f"{name} = %{numbers[id(term)]}" for name, term in named]
    over = ", ".join(checked.reduced)
    lines.append(f"return {checked.reduction} over {over}" if checked.reduction else "return the result as it is")
    return "\n".join(lines) + "\n"


def _term(term: Term, numbers: dict[int, int], order: list[str], lines: list[str]) -> None:
    stack = [term]  # no recursion: a file may be nested deeper than Python's stack
    while stack:
        top = stack[-1]
        waiting = [arg for arg in top.args if id(arg) not in numbers]
        if waiting:
            stack += reversed(waiting)
            continue
        stack.pop()
        if id(top) in numbers:
            continue
        numbers[id(top)] = len(numbers)
        attrs = f"[{', '.join(map(_attr, top.attrs))}]" if top.attrs else ""
        args = f"({', '.join(f'%{numbers[id(arg)]}' for arg in top.args)})" if top.args else ""
        axes = sorted(top.type.axes, key=lambda axis: (order.index(axis) if axis in order else len(order), axis))
        kind = top.type.kind + (f"[{', '.join(axes)}]" if axes else "")
        lines.append(f"{f'%{numbers[id(top)]} = {top.op}{attrs}{args}':<{WIDTH}} : {kind} in {top.type.interval}")


def _attr(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(value)})"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _input(item: Input) -> str:
    axes = f"[{', '.join(item.axes)}]" if item.axes else ""
    extra = [" fixed" if item.fixed else "", f" ~ {item.draw}" if item.draw else ""]
    return f"input {item.name}{axes}: {item.kind}{''.join(extra)}" + (f" in {item.bounds}" if item.bounds else "")


def _param(item: Param) -> str:
    axes = f"[{', '.join(item.axes)}]" if item.axes else ""
    kind = ": int" if item.integer else ""
    modes = f" in {{{', '.join(item.modes)}}}" if item.modes else ""
    bounds = f" in {item.bounds}" if item.bounds else ""
    return f"param {item.name}{axes}{kind} = {item.default}{bounds}{modes}" + (" learnable" if item.learnable else "")
