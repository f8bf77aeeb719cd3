"""Replacing a node leaves the bodies of reductions alone: what they bind is another index."""

from __future__ import annotations

from lossdsl.check.types import Type
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Leaf
from lossdsl.registry import Registry


def test_a_condition_is_not_replaced_in_a_sum_over_its_axis(registry: Registry) -> None:
    """Σ_N select(C == y[N], z, 0) at a place where C == y[n] holds is still a sum over all rows."""
    b = Builder(registry, "t", ("N", "C"), ("N",))
    z = b.leaf(Leaf("z", ("N", "C"), Type(frozenset({"N", "C"})), "input", True))
    y = b.leaf(Leaf("y", ("N",), Type(frozenset({"N"}), "index C"), "input", False))
    hit = b.node("eq", [b.index("C"), y])
    column = b.reduce("sum", ("N",), b.node("select", [hit, z, b.const(0)]))
    e = b.node("select", [hit, b.node("exp", [column]), column])
    assert b.rebuild(e, {hit: b.const(True)}) == b.node("exp", [column])
