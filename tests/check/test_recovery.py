"""All errors of a file at once: a statement that can't be read hides no mistake elsewhere and causes none.

Each case is a right file in which one statement is broken in its spelling and, in most, one wrong statement is planted.
Told must be what the parser says of the broken statement, the mistake that was planted, and nothing else.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from lossdsl import api
from lossdsl.pipeline import front
from lossdsl.source.diagnostic import Diagnostic, DiagnosticError
from lossdsl.source.text import Source
from lossdsl.syntax.lines import scan
from lossdsl.syntax.parse import parse
from lossdsl.syntax.words import PARTS
from tests.check.test_fuzz import texts
from tests.losses import FULL

BREAKS: dict[str, Callable[[str], str]] = {
    "an odd character": lambda s: s.replace(" ", " $ ", 1),
    "a bracket too many": lambda s: s + ")",
    "a bracket left open": lambda s: s + " * (1",
    "an end too early": lambda s: s + " /",
    "a power of Python": lambda s: s + " ** 2",
    "a first word misspelled": lambda s: s[0] + s[2:3] + s[1:2] + s[3:],
    "two statements on a line": lambda s: s + "; y = 1",
    "a method": lambda s: s + ".mean()",
    "a missing first word": lambda s: s.partition(" ")[2] or s + " =",
    "a doubled sign": lambda s: s.replace("=", "= =", 1) if "=" in s else s + " = =",
    "an axis in the wrong case": lambda s: s.replace("[N", "[n", 1) if "[N" in s else s + " $",
    "a quote": lambda s: s + ' "',
}
PLANTS = {
    "planted = nothing_of_this_name * 2": "E0201",
    "planted = nothing_of_this_name(2)": "E0202",
    "planted = size(Nowhere)": "E0203",
    "planted = 1\nplanted = 2": "E0204",
    "planted = not 0.5": "E0401",
    "planted = log(1, 2)": "E0404",
}


def told(text: str) -> list[Diagnostic]:
    source = Source("t.loss", text)
    try:
        front(source, api.registry())
    except DiagnosticError as error:
        return list(error.diagnostics)
    return []


def spelling(text: str) -> list[Diagnostic]:
    try:
        parse(Source("t.loss", text))
    except DiagnosticError as error:
        return list(error.diagnostics)
    return []


def cases(text: str) -> list[tuple[str, str, str]]:
    """The text with each of its statements broken in each way: where, how, and the text."""
    lines = [line for line in scan(Source("t.loss", text)).lines if not text.startswith('"', line.span.start)]
    found = []
    for line in lines:
        statement = text[line.span.start : line.span.end]
        for name, broken in BREAKS.items():
            if line.word == "return" and name == "a missing first word":
                continue  # it may go on from the line before
            if line.word not in PARTS and name == "a first word misspelled":
                continue  # a name of its own
            made = text[: line.span.start] + broken(statement) + text[line.span.end :]
            found.append((line.word, name, made))
    return found


def with_plant(text: str, plant: str) -> str:
    """The text with a statement before what is handed out and returned; the text itself if there is no such place."""
    source = Source("t.loss", text)
    for line in scan(source).lines:
        if line.word in ("output", "return"):
            return f"{text[: line.span.start]}{plant}\n{text[line.span.start :]}"
    return text


def check_case(text: str, plant: str) -> str:
    """What is told beyond the spelling and the plant, or what isn't; nothing if all is as it should be."""
    planted = with_plant(text, plant)
    wanted = sorted(d.code for d in spelling(planted))
    if not wanted:
        return ""  # still rightly spelled
    got = told(planted)
    nameless = re.search(r"\n\s*= ", text)  # a name that nothing declares may be the one that is missing
    if planted != text and not (PLANTS[plant] == "E0201" and nameless):
        wanted = sorted([*wanted, PLANTS[plant]])
    if sorted(d.code for d in got) == wanted:
        return ""
    return f"wanted {wanted}, told {[(d.code, d.message) for d in got]}"


def drawn() -> list[tuple[str, str, str, str]]:
    pick = random.Random(11)
    every = [(*case, pick.choice(list(PLANTS))) for text in texts() for case in cases(text)]
    return pick.sample(every, 6000 if FULL else 150)


def test_a_broken_statement_hides_nothing_and_causes_nothing() -> None:
    wrong = []
    tried = 0
    for word, name, text, plant in drawn():
        found = check_case(text, plant)
        tried += 1
        if found:
            wrong.append(f"{name} in `{word}`: {found}\n{text}")
    assert tried >= 150
    assert not wrong, f"{len(wrong)} of {tried}\n\n" + "\n\n".join(wrong[:5])
