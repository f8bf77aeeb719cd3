"""Characters that no statement holds, with the ones to type instead where they are known."""

from __future__ import annotations

import unicodedata

from lossdsl.source.diagnostic import Diagnostic, Label
from lossdsl.source.text import Span

_INSTEAD = {
    "×": "*", "·": "*", "⋅": "*", "∗": "*", "÷": "/", "−": "-", "–": "-", "—": "-", "≤": "<=", "≥": ">=", "≠": "!=",
    "∧": "and", "∨": "or", "¬": "not", "→": "->", "∞": "inf", "²": "^2", "³": "^3", "“": '"', "”": '"', "„": '"',
    "‘": "'", "’": "'", "′": "'", "∑": "sum", "∏": "prod", "√": "sqrt", "‖": "norm[D](x)", "∈": "in", "∇": "grad",
}  # fmt: skip
_OTHER = {
    "\\": "a line goes on by itself inside brackets, after an operator and before one",
    "?": "write `if … then … else …`",
    "$": "take it out",
}
_PLAIN = frozenset("_'\"#()[]{}+-*/^<>=!|,:.~ \t\r\n\ufeff%&@;")  # those with a message of their own included


def is_odd(letter: str) -> bool:
    """Whether a character has no place outside strings and comments."""
    return letter not in _PLAIN and not (letter.isascii() and letter.isalnum()) and not letter.isalpha()


def odd_character(letter: str, offset: int, before: str = "") -> Diagnostic:
    """What to type instead of a character that isn't of the language; `before` is the one in front of it."""
    whole = unicodedata.normalize("NFC", before + letter) if unicodedata.combining(letter) else ""
    if len(whole) == 1:
        message = f"`{whole}` is written as two characters, a letter and an accent"
        place = Label(Span(offset - 1, offset + 1), "these two")
        return Diagnostic("E0103", message, (place,), f"write `{whole}` as one: type it anew, or save the file as NFC")
    shown = letter if letter.isprintable() and not letter.isspace() else f"U+{ord(letter):04X}"
    instead = _INSTEAD.get(letter)
    if instead is not None:
        fix = f"write `{instead}`"
    elif letter in _OTHER:
        fix = _OTHER[letter]
    elif letter.isspace():
        fix = "write a plain space"
    elif letter.isnumeric():
        fix = "write an index with plain digits, as in `x1`, and a power as in `x^2`"
    else:
        fix = "take it out"
    message = f"`{shown}` is not a character of the language"
    return Diagnostic("E0103", message, (Label(Span(offset, offset + 1), "here"),), fix)
