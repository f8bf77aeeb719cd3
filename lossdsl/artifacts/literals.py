"""Python literals as a formatter would leave them: at most 88 columns, one item a line where that isn't enough."""

from __future__ import annotations

import math
from dataclasses import dataclass

WIDTH = 88


@dataclass(frozen=True, slots=True)
class Name:
    """A name, or any other text that stands as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Apply:
    """A call with arguments by position and by keyword."""

    function: str
    args: tuple[Literal, ...] = ()
    keywords: tuple[tuple[str, Literal], ...] = ()


@dataclass(frozen=True, slots=True)
class Dict:
    """A dictionary with string keys."""

    items: tuple[tuple[str, Literal], ...]


Literal = None | bool | int | float | str | tuple["Literal", ...] | Name | Apply | Dict


def quoted(text: str) -> str:
    """A string literal in double quotes, unless that takes more escapes than single ones."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    return quote + "".join(_escaped(c, quote) for c in text) + quote


def _escaped(c: str, quote: str) -> str:
    if c in (quote, "\\"):
        return f"\\{c}"
    if c == "\n":
        return "\\n"
    if c.isprintable():
        return c
    code = ord(c)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def long_text(text: str, before: int) -> str:
    """A string that is assigned, after `before` characters: in brackets, a line of text a line, where it is long."""
    line = quoted(text)
    if before + len(line) <= WIDTH:
        return line
    if 4 + len(line) <= WIDTH:
        return f"(\n    {line}\n)"
    parts = text.splitlines(keepends=True)
    return line if len(parts) == 1 else "(\n" + "".join(f"    {quoted(part)}\n" for part in parts) + ")"


def docstring_text(text: str) -> str:
    """Text that may stand between triple double quotes."""
    lines = [line.rstrip() for line in text.strip().splitlines()]
    clean = "\n".join("".join(c if c.isprintable() else " " for c in line.expandtabs(4)) for line in lines)
    clean = clean.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'{clean[:-1]}\\"' if clean.endswith('"') and not clean.endswith('\\"') else clean


def number(x: float) -> str:
    """A float or int as an expression."""
    if isinstance(x, float) and not math.isfinite(x):
        return 'float("nan")' if math.isnan(x) else f'float("{"-" if x < 0 else ""}inf")'
    return repr(x)


def flat(x: Literal) -> str:
    """On one line."""
    match x:
        case Name(text):
            return text
        case Apply(function, args, keywords):
            inside = [flat(a) for a in args] + [f"{k}={flat(v)}" for k, v in keywords]
            return f"{function}({', '.join(inside)})"
        case Dict(items):
            return "{" + ", ".join(f"{quoted(k)}: {flat(v)}" for k, v in items) + "}"
        case tuple():
            inner = ", ".join(flat(v) for v in x)
            return f"({inner},)" if len(x) == 1 else f"({inner})"
        case str():
            return quoted(x)
        case None | bool():
            return repr(x)
        case _:
            return number(x)


def literal(x: Literal, indent: int = 0, before: int = 0, after: int = 1) -> str:
    """The text of a value whose first line starts after `before` characters of a line indented by `indent`, and whose
    last is followed by `after` more."""
    line = flat(x)
    if indent + before + len(line) + after <= WIDTH or isinstance(x, Name | str | int | float | bool | None):
        return line
    pad = " " * (indent + 4)
    if isinstance(x, Apply):
        items = [literal(a, indent + 4) for a in x.args]
        items += [f"{k}={literal(v, indent + 4, len(k) + 1)}" for k, v in x.keywords]
        opening, closing = f"{x.function}(", ")"
    elif isinstance(x, Dict):
        items = [f"{quoted(k)}: {literal(v, indent + 4, len(quoted(k)) + 2)}" for k, v in x.items]
        opening, closing = "{", "}"
    else:
        items = [literal(v, indent + 4) for v in x]
        opening, closing = "(", ")"
    return opening + "\n" + "".join(f"{pad}{item},\n" for item in items) + " " * indent + closing
