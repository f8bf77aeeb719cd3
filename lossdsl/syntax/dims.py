"""Torch's way to say an axis, `dim=1` and `keepdim=True`, as the axes that it means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from lossdsl.source.diagnostic import Diagnostic, Label
from lossdsl.source.text import Span

_SAID = re.compile(
    r"(?<=[(,])(?P<gap>\s{0,40})(?P<word>dims?|axis|axes|keepdims?)\s{0,9}="
    r"\s{0,9}(?P<value>-?\d{1,3}\b|\w{1,20}|[(\[][-\d,\s]{0,40}[)\]])"
)
_NUMBER = re.compile(r"-?\d{1,3}")
_FUNCTION = re.compile(r"(?P<f>[^\W\d]\w{0,63})(?P<axes>\[[^\[\]]{0,60}\])?\Z")
_ARGUMENTS = re.compile(r"\((?P<all>[^()]*)\)")
_ODD = re.compile(r"[\n\[\]\"]|\.[^\W\d]")
_FIRST_AXES = re.compile(r"^input\s+\w+\s*\[(?P<axes>[^\]\n]*)\]", re.MULTILINE)
_BACK = 300  # characters looked through for the call that an argument stands in
_SHOWN = 40  # of an argument in a message
OVER_AXES = frozenset(
    [
        "sum",
        "mean",
        "max",
        "min",
        "prod",
        "softmax",
        "log_softmax",
        "logsumexp",
        "norm",
        "var",
        "argmax",
        "any",
        "all",
        "cumsum",
    ]
)


def file_axes(text: str) -> tuple[str, ...]:
    """The axes of the first input that has any, which torch's numbers most likely count."""
    found = _FIRST_AXES.search(text)
    names = [name.strip() for name in found["axes"].split(",")] if found else []
    return tuple(name for name in names if name.rstrip("'").isidentifier() and name[0].isupper()) or ("N", "C")


def axes_at(value: str, axes: tuple[str, ...]) -> str:
    """The axes that torch's numbers mean, `C` or `N, C`; the last where they mean none."""
    named = [name for name in re.findall(r"[^\W\d]\w*", value) if name in axes]
    numbers = [int(n) for n in _NUMBER.findall(value)]
    meant = named or [axes[n] for n in numbers if -len(axes) <= n < len(axes)]
    return ", ".join(dict.fromkeys(meant)) or axes[-1]


def dims(code: str, start: int, axes: tuple[str, ...]) -> list[Diagnostic]:
    """What is to be said of each `dim=`, `axis=` and `keepdim=` in a statement, whose text starts at `start`."""
    found: list[Diagnostic] = []
    for match in islice(_SAID.finditer(code), 20):
        opening = _opening(code, match.start())
        function = _FUNCTION.search(code, max(opening - 120, 0), opening) if opening >= 0 else None
        if function is None or code[: function.start()].endswith("."):  # what is said of `F.softmax` says the axis
            continue
        span = Span(start + match.start("word"), start + match.end())
        word = match["word"]
        if word.startswith("keep"):
            label = Label(span, "not needed")
            fix = "take it out: values are joined by the names of their axes, whatever was reduced"
            found.append(Diagnostic("E0111", "there is no axis of size 1 to keep", (label,), fix))
            continue
        label = Label(span, "axes have names, not numbers")
        written = over_axes(function["f"], arguments(code, opening, 1), axes_at(match["value"], axes))
        fix = "take it out: the bracket says the axis" if function["axes"] else f"write `{written}`"
        found.append(Diagnostic("E0111", f"`{word}=` isn't how an axis is said", (label,), fix))
    return found


def over_axes(function: str, given: str, axes: str) -> str:
    """The call of a function as the language writes it, over `axes` where it runs over any."""
    return f"{function}[{axes}]({given})" if function in OVER_AXES else f"{function}({given})"


def arguments(code: str, opening: int, most: int = 9) -> str:
    """The first `most` arguments without a name of the call whose bracket opens there; `…` if they are hard to read."""
    found = _ARGUMENTS.match(code, opening)
    parts = [part.strip() for part in found["all"].split(",")] if found else []
    text = ", ".join([part for part in parts if "=" not in part][:most])
    return text if 0 < len(text) <= _SHOWN and not _ODD.search(text) else "…"


def said_axes(code: str, opening: int, axes: tuple[str, ...]) -> str:
    """The axes that the call whose bracket opens there says by number; the last axis if it says none."""
    for match in _SAID.finditer(code, opening, opening + _BACK):
        if _opening(code, match.start()) == opening and match["word"][:3] in ("dim", "axi", "axe"):
            return axes_at(match["value"], axes)
    second = re.compile(r"\([^(),]*,\s*(?P<value>-?\d+)\s*[,)]|\(\s*(?P<only>-?\d+)\s*[,)]").match(code, opening)
    return axes_at(second["value"] or second["only"], axes) if second else axes[-1]


def _opening(code: str, at: int) -> int:
    """Where the bracket opens that is open at `at`; -1 if it is far off."""
    depth = 0
    for i, letter in _backwards(code, at):
        depth += (letter in ")]}") - (letter in "([{")
        if depth < 0:
            return i
    return -1


def _backwards(code: str, at: int) -> Iterator[tuple[int, str]]:
    return ((i, code[i]) for i in range(at - 1, max(at - _BACK, 0) - 1, -1))
