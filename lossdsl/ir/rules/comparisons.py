"""Comparisons of two numbers that are the same increasing function of two others, or probabilities of one row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossdsl.ir.graph import Attr
from lossdsl.ir.rewrite import Rule
from lossdsl.ir.rules.match import nonnegative
from lossdsl.ir.rules.softmax import two_logits

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder

EVERYWHERE = frozenset({"exp", "expm1", "sigmoid", "softplus", "tanh", "erf", "atan"})
WHERE_NONNEGATIVE = frozenset({"log", "sqrt"})  # elsewhere they have no value, which no comparison holds for


def _inside(b: Builder, args: tuple[int, ...], attrs: tuple[Attr, ...], op: str) -> int | None:
    logits = two_logits(b, *args)
    if logits is not None:
        return b.node(op, list(logits))
    x, y = (b[a] for a in args)
    if x.op != y.op or x.attrs != y.attrs:
        return None
    if x.op == "neg" and op != "eq":
        return b.node(op, [*y.args, *x.args])
    increasing = x.op in EVERYWHERE or (x.op in WHERE_NONNEGATIVE and all(nonnegative(b, n.args[0]) for n in (x, y)))
    return b.node(op, [*x.args, *y.args]) if increasing or x.op == "neg" else None


def _rule(op: str) -> Rule:
    reason = "f(x) < f(y) is x < y, p_j < p_k is z_j < z_k: a number is itself, however its exponential was computed"
    return Rule(f"order ({op})", (op,), reason, lambda b, args, attrs: _inside(b, args, attrs, op))


RULES = tuple(_rule(op) for op in ("lt", "le", "eq"))
