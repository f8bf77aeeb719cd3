"""Malformed statements, explained by what people write and what they mean.

A statement that the grammar refuses is looked at three times: for spellings that are never right, for brackets that
don't match, and for what stands around the place where the parser stopped.
"""

from __future__ import annotations

import re
from itertools import islice

from lossdsl.source.diagnostic import Diagnostic, Label, in_order
from lossdsl.source.text import Source, Span
from lossdsl.syntax.dims import OVER_AXES, arguments, dims, file_axes, over_axes, said_axes
from lossdsl.syntax.foreign import FUNCTIONS
from lossdsl.syntax.habits import AT, ENDS, NEVER, Never
from lossdsl.syntax.lines import Line, starts_statement
from lossdsl.syntax.odd import is_odd, odd_character

_TEXTS = re.compile(r'"""[\s\S]*?(?:"""|\Z)|"[^"\n]*"?|#[^\n]*')
_QUOTED = re.compile(r"""(?<![\w'])'[^'\n]*'|"[^"\n]*\"?""")
_QUOTING = ("loss_head", "map_head", "alias", "docstring", "cite", "tags")
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_SHOWN = 20  # findings in one statement
_BEFORE = 500  # characters before the place that are looked at


def explain_line(source: Source, line: Line, rule: str, at: int) -> list[Diagnostic]:
    """Why a statement could not be read: the parser stopped at offset `at`, or at the statement's end."""
    start = line.span.start
    code = source.text[start : line.span.end]
    masked = _masked(code)
    found = _never(masked, rule, start, file_axes(source.text))
    if found and found[0].labels[0].span.start <= at:
        return found
    bracket = _swallowed(source, line, at) or _brackets(source, line)
    if bracket is not None:
        return found or [bracket]
    reason = _at(code, masked, rule, min(max(at - start, 0), len(code)), start)
    return [reason, *_other_texts(code, masked, rule, start, reason), *found]


def beside(source: Source, line: Line, rule: str, mistake: Diagnostic) -> list[Diagnostic]:
    """A mistake with what else is never right in its statement, which explains it where both are of one place."""
    start = line.span.start
    code = source.text[start : line.span.end]
    found = _never(_masked(code), rule, start, file_axes(source.text))
    place = mistake.labels[0].span
    within = any(d.labels[0].span.start < place.end and place.start < d.labels[0].span.end for d in found)
    return found if within else in_order([mistake, *found])


def _masked(code: str) -> str:
    """A statement with its texts and comments blotted out."""
    return _TEXTS.sub(lambda m: re.sub(r"[^\n]", '"', m.group()), code)


def _other_texts(code: str, masked: str, rule: str, start: int, first: Diagnostic) -> list[Diagnostic]:
    """The quoted texts behind the first one that has no place in a statement."""
    if first.code != "E0135" or rule in _QUOTING:
        return []
    places = (m.start() for m in _QUOTED.finditer(code, first.labels[0].span.end - start))
    return [_at(code, masked, rule, place, start) for place in islice(places, _SHOWN)]


def _never(masked: str, rule: str, start: int, axes: tuple[str, ...]) -> list[Diagnostic]:
    found = dims(masked, start, axes)
    taken = [d.labels[0].span for d in found]
    for habit in NEVER:
        if habit.rules and rule not in habit.rules:
            continue
        for match in islice(habit.pattern.finditer(masked), _SHOWN):
            place = "mark" if "mark" in habit.pattern.groupindex else 0
            span = Span(start + match.start(place), start + match.end(place))
            if any(span.start < t.end and t.start < span.end for t in taken):
                continue
            taken.append(span)
            words = _words(match) | {"axis": axes[-1]}
            label = Label(span, habit.label)
            fix = habit.fix.format(**words)
            if words.get("f"):
                fix = _instead(habit, words, masked, rule, match.end(), axes) or fix
            found.append(Diagnostic(habit.code, habit.message.format(**words), (label,), fix))
    said = {i for span in taken for i in range(span.start, span.end)}
    odd = (start + i for i, c in enumerate(masked) if is_odd(c))
    found += islice((odd_character(masked[i - start], i, masked[i - start - 1]) for i in odd if i not in said), _SHOWN)
    return sorted(found, key=lambda d: d.labels[0].span.start)[:_SHOWN]


def _instead(habit: Never, words: dict[str, str], masked: str, rule: str, behind: int, axes: tuple[str, ...]) -> str:
    """What the language has instead of a function of torch or a method, with its argument where that is short."""
    function = words["f"]
    if function in FUNCTIONS:
        return FUNCTIONS[function]
    if habit.code != "E0129" or not masked.startswith("(", behind):
        return ""
    if rule == "return_" and function in ("mean", "sum") and re.fullmatch(r"\(\s*\)\s*", masked[behind:]):
        return "take it out: the caller reduces over the batch, as `reduction=` says"
    over = said_axes(masked, behind, axes)
    if "lib" in words:
        return f"write `{over_axes(function, arguments(masked, behind, 1 if function in OVER_AXES else 9), over)}`"
    return f"write `{over_axes(function, words.get('x', '…'), over)}`"


def _words(match: re.Match[str]) -> dict[str, str]:
    """What a pattern found, by name, short enough for a message."""
    found = {"all": match.group().strip(), **{k: v or "" for k, v in match.groupdict().items()}}
    return {k: v if len(v) <= 40 else v[:39] + "…" for k, v in found.items()}


def _swallowed(source: Source, line: Line, at: int) -> Diagnostic | None:
    """A bracket that is left open and closed by chance in a later statement: the parser stops where that begins."""
    row = source.position(min(at, line.span.end))[0]
    if row == source.position(line.span.start)[0] or not starts_statement(source.text, source.line_starts[row - 1]):
        return None
    opened: list[tuple[int, str]] = []
    for offset, bracket in line.brackets:
        if offset >= source.line_starts[row - 1]:
            break
        if bracket in _CLOSES:
            opened.append((offset, bracket))
        elif opened:
            opened.pop()
    return _never_closed(*opened[-1]) if opened else None


def _never_closed(place: int, opener: str) -> Diagnostic:
    label = Label(Span(place, place + 1), "opened here")
    return Diagnostic("E0104", f"`{opener}` is never closed", (label,), f"close it with `{_CLOSES[opener]}`")


def _brackets(source: Source, line: Line) -> Diagnostic | None:
    """The first bracket that is never closed, never opened, or closed by another shape."""
    opened: list[tuple[int, str]] = []
    for offset, bracket in line.brackets:
        here = Span(offset, offset + 1)
        if bracket in _CLOSES:
            opened.append((offset, bracket))
            continue
        if not opened:
            message = f"there is no bracket for this `{bracket}` to close"
            return Diagnostic("E0104", message, (Label(here, "closes nothing"),), "take it out, or open one before it")
        place, opener = opened.pop()
        interval = re.search(r"\bin\s*\Z", source.text[max(place - 8, 0) : place])
        if _CLOSES[opener] != bracket and not (interval and bracket in ")]" and opener in "(["):
            labels = (Label(here, "closed here"), Label(Span(place, place + 1), "opened here"))
            message = f"`{opener}` is closed by `{bracket}`"
            return Diagnostic("E0104", message, labels, f"write `{_CLOSES[opener]}`")
    if opened:
        return _never_closed(*opened[-1])
    return None


def _at(code: str, masked: str, rule: str, at: int, start: int) -> Diagnostic:
    before = masked[max(at - _BEFORE, 0) : at].replace("\n", " ")
    after = code[at:].replace("\n", " ")
    for habit in AT:
        if habit.rules and rule not in habit.rules:
            continue
        ahead = habit.after.match(after)
        behind = habit.before.match(before) if ahead else None
        if ahead is None or behind is None:
            continue
        words = _words(behind) | _words(ahead)
        label = Label(_mark(at, ahead.group(), code, start), habit.label)
        return Diagnostic(habit.code, habit.message.format(**words), (label,), habit.fix.format(**words))
    if at >= len(code):
        label = Label(_mark(at, "", code, start), "ends here")
        if rule == "param" and "=" not in masked:
            return Diagnostic("E0139", "a param has a default", (label,), "write `param name = 1`")
        open_end = re.search(r"(?:[-+*/^<>=,]+|\|>|\b(?:and|or|not))\s*\Z", masked)
        fix = f"a value must follow `{open_end.group().strip()}`" if open_end else ENDS.get(rule, "")
        return Diagnostic("E0126", "the statement ends too early", (label,), fix)
    found = re.match(r"\w{1,40}'*|\S", code[at:])
    what = found.group() if found else code[at]
    label = Label(Span(start + at, start + at + len(what)), "not expected here")
    if at == 0:
        fix = "start it with a word such as `input` or `return`, or with a name and `=`"
        if not re.search(r"\w", code):
            fix = "take it out"
        return Diagnostic("E0116", f"no statement starts with `{what}`", (label,), fix)
    fix = "take it out" if re.fullmatch(r"[.,:;?!]\s*", code[at:]) else ENDS.get(rule, "")
    return Diagnostic("E0127", f"`{what}` can't stand here", (label,), fix)


def _mark(at: int, ahead: str, code: str, start: int) -> Span:
    """The place to point at: what was found there, or the last character where nothing is left."""
    ahead = ahead.rstrip()
    if ahead:
        return Span(start + at, start + at + len(ahead))
    end = start + len(code.rstrip())
    return Span(max(end - 1, start), end)
