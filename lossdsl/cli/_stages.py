"""The stages as commands run them, one by one. Heavy imports stand inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lossdsl.registry import Registry
from lossdsl.source.text import Source

if TYPE_CHECKING:
    from lossdsl.check.typed import CheckedLoss
    from lossdsl.ir.graph import Graph, JointGraph
    from lossdsl.plan.kernel import Plan

STAGES = ("ast", "typed", "graph", "joint", "plan", "kernel", "code")


def checked_loss(source: Source, registry: Registry, modes: Mapping[str, str] | None = None) -> CheckedLoss:
    """Text to CheckedLoss; DiagnosticError with every mistake."""
    from lossdsl.check.check import check
    from lossdsl.syntax.parse import parse

    return check(parse(source), source, registry, modes)


def graph_of(checked: CheckedLoss, registry: Registry) -> Graph:
    from lossdsl.ir.lower import lower

    return lower(checked, registry)


def joint_of(checked: CheckedLoss, registry: Registry) -> JointGraph:
    from lossdsl.derive.derive import derive

    return derive(graph_of(checked, registry), registry)


def plan_of(checked: CheckedLoss, registry: Registry) -> Plan:
    from lossdsl.plan.plan import plan

    return plan(joint_of(checked, registry), registry)
