"""Exponentials over a sum of exponentials, as shares of a softmax: written by hand, e^z / Σ e^z is inf / inf at 89.

So it is with what is made of such exponentials: Σ e^z·x / Σ e^z is the softmax's mean of x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lossdsl.ir.graph import Attr
from lossdsl.ir.rewrite import Rule
from lossdsl.ir.rules.match import as_log, inside, is_const, nonnegative

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder

_DEEP = 8  # operations between a quotient and the exponentials above it


@dataclass(frozen=True, slots=True)
class _Sum:
    """Σ e^u times `factor` or over `divisor`, if there is one; `log` is that of the sum alone."""

    node: int
    log: int
    factor: int | None = None
    divisor: int | None = None


def log_of_sum(b: Builder, n: int) -> int | None:
    """log Σ e^u as a log-sum-exp, if n is such a sum."""
    node = b[n]
    if node.op != "reduce" or node.attrs[0] != "sum":
        return None
    log = as_log(b, node.args[0])
    return None if log is None else b.node("reduce", (log, *node.args[1:]), ("logsumexp", node.attrs[1]))


def _sum(b: Builder, n: int) -> _Sum | None:
    node = b[n]
    if node.op == "mul":
        for x, y in (node.args, node.args[::-1]):
            log = log_of_sum(b, x)
            if log is not None:
                return _Sum(x, log, factor=y)
    if node.op == "div":
        log = log_of_sum(b, node.args[0])
        return None if log is None else _Sum(node.args[0], log, divisor=node.args[1])
    log = log_of_sum(b, n)
    return None if log is None else _Sum(n, log)


def _share(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    x, y = args
    below = _sum(b, y)
    if below is None:
        return None
    share = _over(b, x, below, _DEEP)
    if share is None:
        return None
    if below.factor is not None:
        return b.node("div", [share, below.factor])
    return share if below.divisor is None else b.node("mul", [share, below.divisor])


def _over(b: Builder, x: int, below: _Sum, deep: int) -> int | None:
    """x / Σ e^u, pushed down to the exponentials that x is made of; None where a part of it is made of none."""
    node = b[x]
    if deep == 0 or is_const(b, x, 0):
        return x if deep else None
    if x == below.node:
        return None  # over nothing it is no 1
    u = inside(b, x, "exp")
    if u is not None:
        return b.node("exp", [b.node("sub", [u, below.log])])
    match node.op:
        case "neg":
            parts = node.args
        case "add" | "sub":
            parts = node.args
        case "select":
            parts = node.args[1:]
        case "mul":
            for one, other in (node.args, node.args[::-1]):
                share = _over(b, one, below, deep - 1)
                if share is not None:
                    return b.node("mul", [share, other])
            return None
        case "div":
            share = _over(b, node.args[0], below, deep - 1)
            return None if share is None else b.node("div", [share, node.args[1]])
        case "reduce" if node.attrs[0] == "sum" and not b.type(below.node).axes & set(node.attrs[1]):  # type: ignore[arg-type]
            share = _over(b, node.args[0], below, deep - 1)
            return None if share is None else b.node("reduce", [share, *node.args[1:]], node.attrs)
        case _:
            return None
    shares = [_over(b, a, below, deep - 1) for a in parts]
    known = [s for s in shares if s is not None]
    if len(known) < len(shares):
        return None
    return b.node(node.op, [*node.args[:1], *known] if node.op == "select" else known)


def _log(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> int | None:
    """log(Σ e^u / c) = lse u - log c, and that of c·Σ e^u."""
    below = _sum(b, args[0])
    if below is None or b.type(b[below.log].args[0]).interval.high <= 0:
        return None  # of probabilities: their sum is no more than their number
    if below.factor is not None and nonnegative(b, below.factor):
        return b.node("add", [below.log, b.node("log", [below.factor])])
    if below.divisor is not None and nonnegative(b, below.divisor):
        return b.node("sub", [below.log, b.node("log", [below.divisor])])
    return None


RULES = (
    Rule("share of a sum", ("div",), "e^v / Σ e^u = e^(v - lse u), where both are infinite", _share),
    Rule("log of a mean", ("log",), "log(Σ e^u / n) = lse u - log n: no sum that is infinite", _log),
)
