"""The order of a file's statements: what is doubled, missing or out of place.

Blamed are the fewest statements: those outside a longest run that is in order, so that one `return` too early doesn't
make every line after it wrong.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from lossdsl.source.diagnostic import Diagnostic, Label
from lossdsl.source.text import Span
from lossdsl.syntax.lines import Line
from lossdsl.syntax.words import AFTER, BODY, DECLARATION, OUTPUT, PARTS, RETURN

_HEAD = {"loss_head": 0, "map_head": 0, "alias": 1, "docstring": 2, "cite": 3, "tags": 4}
_ONCE = {"loss_head": "head", "alias": "`alias` line", "docstring": "docstring", "tags": "`tags` line"}
_ONCE["return_"] = "`return`"
# After one of these, a missing `return` may be a consequence.
_MAY_BE_RETURN = {"E0101", "E0102", "E0105", "E0112", "E0116", "E0132"}


@dataclass(frozen=True, slots=True)
class _Placed:
    rule: str
    rank: int
    first: Span  # of its first word


def check_order(statements: Sequence[tuple[str, Line]], problems: list[Diagnostic]) -> None:
    """Adds to `problems` what is wrong with the statements' order."""
    seen: dict[str, _Placed] = {}
    placed: list[_Placed] = []
    for rule, line in statements:
        once = "loss_head" if rule == "map_head" else rule
        here = _Placed(once, _rank(rule), Span(line.span.start, line.span.start + max(len(line.word), 1)))
        if not seen and once != "loss_head" and not any(d.labels[0].span.start < here.first.start for d in problems):
            problems.append(missing_head(here.first, "the first statement is another one"))
        if once in _ONCE and once in seen:
            labels = (Label(here.first, "a second one"), Label(seen[once].first, "the first"))
            fix = "keep one of them" if once in {"loss_head", "return_"} else "merge them"
            problems.append(Diagnostic("E0114", f"a file has one {_ONCE[once]}", labels, fix))
            continue
        seen.setdefault(once, here)
        if once != "loss_head":
            placed.append(here)
    problems += _misplaced(placed)
    if "return_" not in seen and statements and not any(d.code in _MAY_BE_RETURN for d in problems):
        end = statements[-1][1].span.end
        label = Label(Span(max(end - 1, 0), end), "the file ends here")
        problems.append(
            Diagnostic("E0113", "nothing is returned", (label,), "end it with `return` and the loss of one row")
        )


def missing_head(span: Span, text: str) -> Diagnostic:
    """The file doesn't start with `loss name`."""
    message = "a file starts with `loss name` or `map name`"
    return Diagnostic("E0115", message, (Label(span, text),), "write `loss my_loss` as its first line")


def _rank(rule: str) -> int:
    """Where a statement belongs: the lines under the head in their own order, then the parts of the file."""
    if rule in _HEAD:
        return _HEAD[rule]
    return 10 * (BODY if rule == "assign" else PARTS[rule.rstrip("_")])


def _misplaced(placed: Sequence[_Placed]) -> list[Diagnostic]:
    kept = _longest_in_order([p.rank for p in placed])
    standing = set(kept)
    found: list[Diagnostic] = []
    at = 0  # of the kept ones, how many stand before
    for i, here in enumerate(placed):
        if i in standing:
            at += 1
            continue
        before = placed[kept[at - 1]] if at else None
        if before is not None and before.rank > here.rank:
            labels = (Label(here.first, "too late"), Label(before.first, "already here"))
            found.append(Diagnostic("E0114", _too_late(here, before), labels, "move this line up"))
            continue
        # It is kept out by what follows: the first statement there that belongs before it.
        after = next(placed[k] for k in kept[at:] if placed[k].rank < here.rank)
        labels = (Label(here.first, "too early"), Label(after.first, "still to come"))
        found.append(Diagnostic("E0114", f"{_this(here)} comes after {_those(after)}", labels, "move this line down"))
    return found


def _longest_in_order(ranks: Sequence[int]) -> list[int]:
    """The indices of a longest run that never falls; of several, one that keeps what stands earlier in the file."""
    tails: list[int] = []
    ends: list[int] = []
    following = [-1] * len(ranks)
    for i in reversed(range(len(ranks))):
        j = bisect_right(tails, -ranks[i])
        following[i] = ends[j - 1] if j else -1
        if j == len(tails):
            tails.append(0)
            ends.append(0)
        tails[j], ends[j] = -ranks[i], i
    run: list[int] = []
    i = ends[-1] if ends else -1
    while i >= 0:
        run.append(i)
        i = following[i]
    return run


def _part(placed: _Placed) -> int:
    return placed.rank // 10


def _this(placed: _Placed) -> str:
    if placed.rule in ("docstring", "def_", "assign"):
        return {"docstring": "the docstring", "def_": "a def", "assign": "an assignment"}[placed.rule]
    return f"`{placed.rule.rstrip('_')}`"


def _those(placed: _Placed) -> str:
    """What the part of the file is called that a statement belongs to."""
    if _part(placed) == DECLARATION:
        return "inputs, params and axes"
    names = {BODY: "the assignments", OUTPUT: "`output`", RETURN: "`return`", AFTER: "claims and examples"}
    return names.get(_part(placed), _this(placed))


def _too_late(here: _Placed, before: _Placed) -> str:
    if _part(here) == 0:
        return "the lines under the head come in the order alias, docstring, cite, tags, before any input"
    if _part(here) == DECLARATION and _part(before) == BODY:
        return "inputs, params and axes are declared before the first assignment"
    if _part(before) >= RETURN and _part(here) < RETURN:
        return "only claims and examples come after `return`"
    return f"{_this(here)} comes before {_those(before)}"
