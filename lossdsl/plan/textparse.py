"""The parser of a KernelProgram's text (`plan/text.py` says the form): lines and their indent, no look-ahead."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import cast

from lossdsl.ir.graph import Attr, Scalar
from lossdsl.plan.kernel import (
    Buffer,
    Dtype,
    Island,
    KernelProgram,
    Let,
    Load,
    Loop,
    Operand,
    Pick,
    Reduce,
    Scatter,
    Stmt,
    Store,
    Value,
)
from lossdsl.plan.textline import DTYPES, NAME, NUMBER, KernelTextError, Line, tokens

ROLES = ("in", "param", "out", "scratch")


def parse_kernel(text: str) -> KernelProgram:
    """The program that a text says; `#` starts a comment. KernelTextError with the line where it is malformed."""
    lines = []
    for number, raw in enumerate(text.splitlines(), 1):
        content = raw.split("#", 1)[0].rstrip()
        if content.strip():
            indent = len(content) - len(content.lstrip(" "))
            lines.append(Line(number, indent, tokens(content, number)))
    if len(lines) < 2:
        raise KernelTextError("line 1: expected `kernel NAME` and `axes …`")
    lines[0].take("kernel")
    name = lines[0].name()
    lines[0].end()
    lines[1].take("axes")
    axes = _names(lines[1]) if lines[1].peek() else ()
    lines[1].end()
    at = 2
    buffers = []
    while at < len(lines) and lines[at].indent == 0 and lines[at].peek() in ROLES and lines[at].peek(1) != "=":
        buffers.append(_buffer(lines[at]))
        at += 1
    body, at = _block(lines, at, 0)
    if at < len(lines):
        raise lines[at].error("unexpected indent")
    return KernelProgram(name, axes, tuple(buffers), body)


def _buffer(line: Line) -> Buffer:
    role = line.take()
    name = line.name()
    axes = _bracketed(line)
    line.take(":")
    dtype = line.take()
    if dtype not in DTYPES:
        raise line.error(f"unknown dtype {dtype}")
    line.end()
    return Buffer(name, axes, cast(Dtype, dtype), role)  # type: ignore[arg-type]


def _block(lines: list[Line], at: int, indent: int) -> tuple[tuple[Stmt, ...], int]:
    """The statements from line `at` on that stand at `indent`, and the next line."""
    statements: list[Stmt] = []
    while at < len(lines) and lines[at].indent == indent:
        line = lines[at]
        if line.peek() == "guard" and line.peek(1) != "=":
            break
        if line.peek() == "for":
            loop, at = _loop(lines, at, indent)
            statements.append(loop)
            continue
        statement = _store(line) if line.peek() == "store" else _definition(line)
        at += 1
        if isinstance(statement, Island) and statement.bound:
            body, at = _block(lines, at, indent + 2)
            statement = Island(
                statement.values, statement.op, statement.args, statement.attrs, body, statement.bound, None
            )
        line.end()
        statements.append(statement)
    return tuple(statements), at


def _loop(lines: list[Line], at: int, indent: int) -> tuple[Loop, int]:
    line = lines[at]
    line.take("for")
    axis = line.name()
    line.take(":")
    line.end()
    body, at = _block(lines, at + 1, indent + 2)
    head: tuple[Stmt, ...] = ()
    guard = None
    if at < len(lines) and lines[at].indent == indent + 2 and lines[at].peek() == "guard":
        lines[at].take("guard")
        guard = lines[at].name()
        lines[at].end()
        head = body
        body, at = _block(lines, at + 1, indent + 2)
    return Loop(axis, body, head, guard), at


def _store(line: Line) -> Store:
    line.take("store")
    buffer = line.name()
    index = _bracketed(line)
    line.take("=")
    value = _operand(line)
    where = _operand(line) if line.accept("where") else None
    otherwise: Scalar = Fraction(0)
    if line.accept("else"):
        given = _operand(line)
        if isinstance(given, str):
            raise line.error(f"expected a constant after else, found {given}")
        otherwise = given
    return Store(buffer, index, value, where, otherwise)


def _definition(line: Line) -> Stmt:
    values = [_value(line)]
    while line.accept(","):
        values.append(_value(line))
    line.take("=")
    word = line.name()
    if word == "load":
        return Load(_one(line, values), line.name(), _bracketed(line))
    if word == "pick":
        return _pick(line, _one(line, values))
    if word == "scatter":
        axis = line.name()
        line.take("over")
        axes = _names(line)
        line.take("(")
        arg = _operand(line)
        line.take(")")
        line.take("at")
        return Scatter(_one(line, values), axis, axes, arg, line.name())
    if word == "reduce":
        name = line.name()
        line.take("over")
        axes = _names(line)
        args = _arguments(line)
        where = _operand(line) if line.accept("where") else None
        return Reduce(tuple(values), name, axes, args, where)
    if word == "island":
        op = line.name()
        attrs = _attrs(line)
        args = _arguments(line)
        bound: list[Value] = []
        if line.accept("bound"):
            bound.append(_value(line))
            while line.accept(","):
                bound.append(_value(line))
            line.take(":")
        return Island(tuple(values), op, args, attrs, (), tuple(bound))
    attrs = _attrs(line)
    args = _arguments(line) if line.peek() == "(" else ()
    return Let(_one(line, values), word, args, attrs)


def _pick(line: Line, value: Value) -> Pick:
    source = line.name()
    axes: list[str] = []
    index: list[str] = []
    line.take("[")
    while not axes or line.accept(","):
        axes.append(line.name())
        line.take("->")
        index.append(line.name())
    line.take("]")
    return Pick(value, source, tuple(axes), tuple(index))


def _one(line: Line, values: list[Value]) -> Value:
    if len(values) != 1:
        raise line.error("this statement defines one value")
    return values[0]


def _value(line: Line) -> Value:
    name = line.name()
    axes = _bracketed(line)
    dtype = "real"
    if line.peek() == ":" and line.peek(1) in DTYPES:
        line.take(":")
        dtype = line.take()
    return Value(name, axes, cast(Dtype, dtype))


def _names(line: Line) -> tuple[str, ...]:
    names = [line.name()]
    while line.accept(","):
        names.append(line.name())
    return tuple(names)


def _bracketed(line: Line) -> tuple[str, ...]:
    if not line.accept("["):
        return ()
    names = _names(line)
    line.take("]")
    return names


def _arguments(line: Line) -> tuple[Operand, ...]:
    line.take("(")
    args = [_operand(line)]
    while line.accept(","):
        args.append(_operand(line))
    line.take(")")
    return tuple(args)


def _operand(line: Line) -> Operand:
    token = line.take()
    if re.fullmatch(NUMBER, token):
        return float(token) if re.search(r"[.ean]", token) else Fraction(token)
    if token in ("true", "false"):
        return token == "true"
    if not re.fullmatch(NAME, token):
        raise line.error(f"expected a value or a constant, found {token}")
    return token


def _attrs(line: Line) -> tuple[Attr, ...]:
    if not line.accept("["):
        return ()
    attrs: list[Attr] = []
    while not attrs or line.accept(","):
        if line.accept("("):
            attrs.append(_names(line))
            line.take(")")
        elif re.fullmatch(r"-?\d+", line.peek()):
            attrs.append(int(line.take()))
        else:
            attrs.append(_operand(line))
    line.take("]")
    return tuple(attrs)
