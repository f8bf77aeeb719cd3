"""Deciding the claims of a file, one by one: proofs by rules and intervals, points, and what sympy can close."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from lossdsl.check.typed import CheckedLoss
from lossdsl.check.types import base_axis
from lossdsl.derive.claims import by_algebra, properties
from lossdsl.derive.claims.at_points import DIGITS, SEED
from lossdsl.derive.claims.cases import CLASSES
from lossdsl.derive.claims.caveats import caveats
from lossdsl.derive.claims.comparisons import compared, settings
from lossdsl.derive.claims.setting import Subject, file_sizes, per_row, place, subject
from lossdsl.derive.claims.verdict import Found, Verdict
from lossdsl.derive.prove import TIMEOUT, settle
from lossdsl.ir.builder import bound_axes
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import DiagnosticError
from lossdsl.syntax import ast

MOST = 10**5  # entries of a row
ABOUT_ONE: Mapping[str, Callable[[Subject, str], Found]] = {
    "shift_invariant": properties.shift_invariant,
    "symmetric": properties.symmetric,
    "convex": properties.convex,
}


def decide(
    lossdef: ast.LossDef, checked: CheckedLoss, registry: Registry, timeout: float = TIMEOUT
) -> tuple[Verdict, ...]:
    """Every claim's verdict, in the order of the file; one that is wrong itself hides none of the others.

    By rules and intervals, then at points; what holds there is put to sympy in a child process, with `timeout`
    seconds a claim (0: never).
    """
    if not lossdef.claims:
        return ()
    about = subject(lossdef, checked, registry)
    found: list[Found] = []
    for claim in lossdef.claims:
        try:
            found.append(_decided(_chosen(about, claim.when), claim))
        except DiagnosticError as error:
            found.append(Found("wrong", error.diagnostics[0].message, wrong=error.diagnostics))
    if timeout > 0:
        found = _proved(found, timeout)
    return tuple(_verdict(about, claim, f) for claim, f in zip(lossdef.claims, found, strict=True))


def _proved(found: Sequence[Found], timeout: float) -> list[Found]:
    """With those proved that sympy can close."""
    questions: list[Mapping[str, Any]] = [f.question for f in found if f.question is not None]
    answers = iter(settle(questions, timeout))
    return [_beyond(f, by_algebra.said(f.question)) if f.question is not None and next(answers) else f for f in found]


def _beyond(found: Found, proof: str) -> Found:
    """What sympy has proved, tried at sizes for which it was not asked."""
    return Found("proved", proof) if found.again is None else found.again(proof=proof)


def _verdict(about: Subject, claim: ast.Claim, found: Found) -> Verdict:
    text = about.source.text[claim.span.start : claim.span.end].removeprefix("claim").strip()
    if found.status == "proved":
        right = claim.value.right if isinstance(claim.value, ast.Binary) else None
        found = replace(found, detail=found.detail + caveats(_chosen(about, claim.when), claim.when, right))
    if found.status == "held":
        return Verdict(text, "held", found.detail, claim.span, found.points, DIGITS, SEED)
    return Verdict(text, found.status, found.detail, claim.span, wrong=found.wrong)


def _decided(about: Subject, claim: ast.Claim) -> Found:
    value, when = claim.value, claim.when
    if entries(about) > MOST:
        return Found("undecided", "a row has too many entries along the axes that the file sizes")
    sizing = [c.name for c in when for p in about.checked.params if p.name == c.name and p.integer]
    if sizing and any(axis.size is not None for axis in about.checked.axes):
        return Found("undecided", f"`{sizing[0]}` is the size of an axis, which stays as it is in a claim")
    if isinstance(value, ast.Binary):
        about = about.beside(value.right)
    match value:
        case ast.Binary(op="==" | ">=" | "<=" as op, left=ast.Name("loss"), right=right):
            return compared(about, op, right, when)
    if any(c.limit for c in when):
        return Found("undecided", "a limit is of an equation")
    replaced = settings(about, when)
    told = value.left if isinstance(value, ast.Binary) else value
    if isinstance(told, ast.Call) and told.args and _name(told.args[0].value) in {c.name for c in when}:
        return Found("undecided", f"it is about every `{_name(told.args[0].value)}`, which the condition sets")
    about = _at(about, when)
    match value:
        case ast.Name("proper"):
            return properties.proper(about)
        case ast.Call(function=kind, args=[argument]) if kind in ABOUT_ONE:
            if not any(leaf.name == _name(argument.value) for leaf in about.graph.leaves):
                return Found("proved", f"nothing reads {_name(argument.value)}")
            return ABOUT_ONE[kind](about, _name(argument.value))
        case ast.Binary(op="==", left=ast.Call(function="grad", args=[argument]), right=right):
            about, own = per_row(about, _name(argument.value))
            return properties.gradient(about, _name(argument.value), right, replaced | own)
        case ast.Binary(op="<=", left=ast.Call(function="lipschitz", args=[argument]), right=right):
            about, own = per_row(about, _name(argument.value))
            return properties.lipschitz(about, _name(argument.value), right, replaced | own)
    return Found("undecided", "claims of this form are not decided yet")


def entries(about: Subject) -> int:
    """How many entries there are along the axes of one node that the file sizes, at most."""
    sized = file_sizes(about, dict.fromkeys(about.graph.axes, CLASSES[0]))
    found = (prod(sized.get(base_axis(a), 1) for a in {*n.type.axes, *bound_axes(n)}) for n in about.graph.nodes)
    return max(found, default=1)


def _chosen(about: Subject, when: Sequence[ast.Condition]) -> Subject:
    """The loss with the modes that the conditions choose."""
    modes = {p.name for p in about.checked.params if p.modes}
    chosen = {c.name: c.value.name for c in when if c.name in modes and isinstance(c.value, ast.Name)}
    return about.with_modes(chosen) if chosen else about


def _at(about: Subject, when: Sequence[ast.Condition]) -> Subject:
    """The loss under the conditions of a claim."""
    if not when:
        return about
    b = about.builder()
    return replace(about, graph=b.graph(place(b, about.graph, settings(about, when))))


def _name(expr: ast.Expr) -> str:
    return expr.name if isinstance(expr, ast.Name) else ""
