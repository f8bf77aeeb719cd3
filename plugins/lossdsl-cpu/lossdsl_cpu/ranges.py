"""Elementary functions in the form that the range of their argument allows: fewer choices, fewer operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from lossdsl.backends.api import KernelProgram, Let, Loop, Operand, Stmt
from lossdsl_cpu.below import below_maxima

Range = tuple[float, float]
ALL: Range = (-inf, inf)


def narrowed(program: KernelProgram) -> KernelProgram:
    """The same program with `exp_neg`, `expm1_low`, `expm1mx_near` and `expsub_below` where their ranges are known to
    hold (a NaN stays a NaN)."""
    program = below_maxima(program)
    return replace(program, body=_body(program.body, {}))


def _body(body: Sequence[Stmt], known: dict[str, Range]) -> tuple[Stmt, ...]:
    found: list[Stmt] = []
    for s in body:
        match s:
            case Loop():
                head = _body(s.head, known)
                found.append(replace(s, head=head, body=_body(s.body, known)))
            case Let():
                ranges = [_range(a, known) for a in s.args]
                found.append(replace(s, op=_form(s.op, ranges)))
                known[s.value.name] = _result(s.op, ranges)
            case _:
                found.append(s)
    return tuple(found)


def _range(x: Operand, known: dict[str, Range]) -> Range:
    if isinstance(x, str):
        return known.get(x, ALL)
    return (float(x), float(x))


def _form(op: str, ranges: Sequence[Range]) -> str:
    match op:
        case "exp" if ranges[0][1] <= 0:
            return "exp_neg"
        case "expm1" if ranges[0][1] <= 64:
            return "expm1_low"
        case "expm1mx" if ranges[0][0] >= -0.5 and ranges[0][1] <= 0.5:
            return "expm1mx_near"
    return op


def _result(op: str, ranges: Sequence[Range]) -> Range:
    """Where the result of an operation lies, as far as the forms above ask."""
    match op, ranges:
        case "neg", [(low, high)]:
            return (-high, -low)
        case "abs", [(low, high)]:
            return (0.0, max(-low, high))
        case "minimum", [(a, b), (c, d)]:
            return (min(a, c), min(b, d))
        case "maximum", [(a, b), (c, d)]:
            return (max(a, c), max(b, d))
        case "clip", [(a, b), (low, _), (_, high)]:
            return (min(max(a, low), high), min(max(b, low), high))
        case "select", [_, (a, b), (c, d)]:
            return (min(a, c), max(b, d))
    return ALL
