"""The parser of a KernelProgram's text (`plan/text.py` says the form): lines and their indent, no look-ahead."""

from __future__ import annotations

import re
from dataclasses import dataclass
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

NAME = r"[@\w][@\w.']*"
NUMBER = r"-?(?:\d+/\d+|\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf|nan)"
TOKEN = re.compile(rf"\s*(?:(?P<arrow>->)|(?P<number>{NUMBER})(?![\w.'@/])|(?P<name>{NAME})|(?P<mark>[\[\](),:=]))")
DTYPES = ("real", "int", "bool")
ROLES = ("in", "param", "out", "scratch")


class KernelTextError(ValueError):
    """The text of a KernelProgram is malformed; the message has the line's number."""


@dataclass(slots=True)
class _Line:
    """A line being read: its tokens from `at` on."""

    number: int
    indent: int
    tokens: list[str]
    at: int = 0

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise self.error(f"expected {expected or 'more'}, found {token or 'the end of the line'}")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def name(self) -> str:
        token = self.take()
        if not re.fullmatch(NAME, token) or re.fullmatch(NUMBER, token):
            raise self.error(f"expected a name, found {token}")
        return token

    def error(self, what: str) -> KernelTextError:
        return KernelTextError(f"line {self.number}: {what}")

    def end(self) -> None:
        if self.peek():
            raise self.error(f"expected the end of the line, found {self.peek()}")


def parse_kernel(text: str) -> KernelProgram:
    """The program that a text says; `#` starts a comment. KernelTextError with the line where it is malformed."""
    lines = []
    for number, raw in enumerate(text.splitlines(), 1):
        content = raw.split("#", 1)[0].rstrip()
        if content.strip():
            indent = len(content) - len(content.lstrip(" "))
            lines.append(_Line(number, indent, _tokens(content, number)))
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


def _tokens(content: str, number: int) -> list[str]:
    tokens, at = [], 0
    while at < len(content):
        m = TOKEN.match(content, at)
        if m is None:
            raise KernelTextError(f"line {number}: cannot read {content[at:].strip()!r}")
        tokens.append(m.group().strip())
        at = m.end()
    return tokens


def _buffer(line: _Line) -> Buffer:
    role = line.take()
    name = line.name()
    axes = _bracketed(line)
    line.take(":")
    dtype = line.take()
    if dtype not in DTYPES:
        raise line.error(f"unknown dtype {dtype}")
    line.end()
    return Buffer(name, axes, cast(Dtype, dtype), role)  # type: ignore[arg-type]


def _block(lines: list[_Line], at: int, indent: int) -> tuple[tuple[Stmt, ...], int]:
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


def _loop(lines: list[_Line], at: int, indent: int) -> tuple[Loop, int]:
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


def _store(line: _Line) -> Store:
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


def _definition(line: _Line) -> Stmt:
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


def _pick(line: _Line, value: Value) -> Pick:
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


def _one(line: _Line, values: list[Value]) -> Value:
    if len(values) != 1:
        raise line.error("this statement defines one value")
    return values[0]


def _value(line: _Line) -> Value:
    name = line.name()
    axes = _bracketed(line)
    dtype = "real"
    if line.peek() == ":" and line.peek(1) in DTYPES:
        line.take(":")
        dtype = line.take()
    return Value(name, axes, cast(Dtype, dtype))


def _names(line: _Line) -> tuple[str, ...]:
    names = [line.name()]
    while line.accept(","):
        names.append(line.name())
    return tuple(names)


def _bracketed(line: _Line) -> tuple[str, ...]:
    if not line.accept("["):
        return ()
    names = _names(line)
    line.take("]")
    return names


def _arguments(line: _Line) -> tuple[Operand, ...]:
    line.take("(")
    args = [_operand(line)]
    while line.accept(","):
        args.append(_operand(line))
    line.take(")")
    return tuple(args)


def _operand(line: _Line) -> Operand:
    token = line.take()
    if re.fullmatch(NUMBER, token):
        return float(token) if re.search(r"[.ean]", token) else Fraction(token)
    if token in ("true", "false"):
        return token == "true"
    if not re.fullmatch(NAME, token):
        raise line.error(f"expected a value or a constant, found {token}")
    return token


def _attrs(line: _Line) -> tuple[Attr, ...]:
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
