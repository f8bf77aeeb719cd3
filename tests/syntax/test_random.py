"""Random files: parse(print(x)) is x, the printed text is a fixed point, comments survive, and damage is survived."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st

from lossdsl.source.diagnostic import Diagnostic, DiagnosticError
from lossdsl.source.render import render_terminal
from lossdsl.source.text import Source
from lossdsl.syntax.ast import LossDef
from lossdsl.syntax.format import format_loss
from lossdsl.syntax.parse import parse
from lossdsl.syntax.printing import print_loss
from lossdsl.testing.programs import loss_defs

FULL = os.environ.get("LOSSDSL_FULL_TESTS") == "1"
QUICKLY = settings(
    max_examples=10_000 if FULL else 60,
    deadline=None,
    phases=[Phase.reuse, Phase.generate],  # a failure shows its text as it is: shrinking a file takes minutes
    verbosity=Verbosity.quiet,  # hypothesis takes minutes to spell a tree: the messages below show its text
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
QUOTED = re.compile(r'"{3}[\s\S]*?"{3}|"[^"\n]*"')
CORPUS = [path.read_text(encoding="utf-8") for path in sorted((Path(__file__).parent / "corpus").glob("*.loss"))]


@QUICKLY
@given(loss_defs())
def test_printing_and_parsing_are_inverse(loss: LossDef) -> None:
    text = print_loss(loss)
    again = parse(Source("random.loss", text))
    assert again == loss, text
    assert print_loss(again) == text, text


@QUICKLY
@given(loss_defs(), st.randoms(use_true_random=False))
def test_comments_and_blanks_survive_formatting(loss: LossDef, random: object) -> None:
    text = scribble(print_loss(loss), random)
    out = format_loss(Source("random.loss", text))  # verifies meaning, comments and the fixed point itself
    assert parse(Source("", out)) == loss, text
    assert out.count("# note") == text.count("# note"), text
    assert "\n\n\n" not in out.replace(loss.doc.value if loss.doc else "", "")


def scribble(text: str, random: object) -> str:
    """The text with comments, blank lines and line breaks wherever the language lets them stand."""
    choose = getattr(random, "random")  # noqa: B009
    out: list[str] = []
    depth = 0
    quoted = {i for match in QUOTED.finditer(text) for i in range(*match.span())}
    for i, letter in enumerate(text):
        if i in quoted:
            out.append(letter)
            continue
        depth += (letter in "([{") - (letter in ")]}")
        if letter == " " and depth > 0 and choose() < 0.1:
            out.append(" # note\n  " if choose() < 0.5 else "\n\n ")
        elif letter == "\n" and choose() < 0.3:
            behind = "# note" if text[i - 1 : i] != '"' or choose() < 0.5 else ""
            out.append(f"  {behind}\n\n\n# note above\n" if choose() < 0.5 else f"{behind}\n\n")
        else:
            out.append(letter)
    return "".join(out)


@QUICKLY
@given(st.sampled_from(CORPUS), st.randoms(use_true_random=False), st.integers(1, 4))
def test_damaged_files_give_trees_or_diagnostics(text: str, random: object, times: int) -> None:
    draw = getattr(random, "randrange")  # noqa: B009
    pieces = [
        "(",
        ")",
        "[",
        "]",
        "'",
        '"',
        '"""',
        "\n",
        " ",
        "=",
        "==",
        "->",
        "|>",
        "if ",
        "where ",
        "N",
        "x",
        "#",
        "9",
        ".",
    ]
    pieces += ["return ", "input ", ",", ":", "in ", "-", "\\", "\0", "²", "{", "}"]
    for _ in range(times):
        start = draw(len(text) + 1)
        end = min(len(text), start + draw(12))
        text = text[:start] + (pieces[draw(len(pieces))] if draw(3) else "") + text[end:]
    source = Source("damaged.loss", text)
    diagnostics = found(source)
    assert all(d.labels and 0 <= d.labels[0].span.start <= d.labels[0].span.end <= len(text) for d in diagnostics), text
    assert not diagnostics or render_terminal(source, diagnostics)


def found(source: Source) -> tuple[Diagnostic, ...]:
    try:
        format_loss(source)
    except DiagnosticError as error:
        return error.diagnostics
    return ()
