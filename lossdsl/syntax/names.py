"""Names, and what is wrong with them: capitals are axes, small letters are everything else."""

from __future__ import annotations

from lark import Token

from lossdsl.source.diagnostic import Diagnostic, Label
from lossdsl.source.text import Span
from lossdsl.syntax import ast
from lossdsl.syntax.odd import odd_character
from lossdsl.syntax.words import RESERVED

LONGEST = 64  # letters of a name


class Mistake(Exception):
    """One diagnostic about the statement that is being built; it ends that statement and no other."""

    def __init__(self, code: str, message: str, span: Span, text: str = "", fix: str = "") -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(code, message, (Label(span, text),), fix)

    @classmethod
    def of(cls, d: Diagnostic) -> Mistake:
        """A diagnostic that is at hand, to be raised."""
        return cls(d.code, d.message, d.labels[0].span, d.labels[0].text, d.fix)


def span_of(token: Token) -> Span:
    """The place of a token."""
    assert token.start_pos is not None
    assert token.end_pos is not None
    return Span(token.start_pos, token.end_pos)


def between(first: Span, last: Span) -> Span:
    """From the start of one place to the end of another."""
    return Span(first.start, last.end)


_INSTEAD = {"where": "choose another name; a choice is `if condition then a else b`"}


def value_name(token: Token, what: str = "a value's name") -> str:
    """The name of a value, a function or a file: starts with a small letter, has no primes."""
    name, span = str(token), span_of(token)
    check_letters(name, span)
    if name in RESERVED:
        fix = _INSTEAD.get(name, "choose another name")
        raise Mistake("E0117", f"`{name}` is a word of the language", span, "can't be a name", fix)
    if name[0].isupper():
        small = name[0].lower() + name[1:]
        fix = f"write `{small}`"
        raise Mistake("E0108", f"{what} starts with a small letter", span, "capitals are for axes", fix)
    if "'" in name:
        raise Mistake("E0109", f"{what} has no prime", span, "a prime moves a value on, it doesn't name one")
    return name


def axis_name(token: Token) -> ast.AxisRef:
    """The name of an axis: starts with a capital, may end in primes."""
    name, span = str(token), span_of(token)
    check_letters(name, span)
    if not name[0].isupper():
        capital = name[0].upper() + name[1:]
        fix = f"write `{capital}`" if capital != name else "start it with a capital letter"
        raise Mistake("E0108", "an axis starts with a capital letter", span, "axes are capitals: N, C, K'", fix)
    return ast.AxisRef(name, span=span)


def check_letters(name: str, span: Span) -> None:
    """Refuses what could not stand in generated code: odd letters, a leading `_`, endless names."""
    if len(name) > LONGEST:
        message = f"a name has at most {LONGEST} letters"
        raise Mistake("E0110", message, span, f"this one has {len(name)}", "shorten it")
    if name.startswith("_"):
        raise Mistake("E0110", "a name starts with a letter", span, "starts with `_`", "leave out the `_`")
    for i, letter in enumerate(name):
        if not (letter.isascii() or letter.isalpha()):
            raise Mistake.of(odd_character(letter, span.start + i, name[max(i - 1, 0)]))
