"""The type of a value: which axes it varies along, its kind, and what is known of its range."""

from __future__ import annotations

from dataclasses import dataclass

from lossdsl.primitives.interval import REALS, Interval


def base_axis(axis: str) -> str:
    """The axis of which this one is a copy: N for N''."""
    return axis.rstrip("'")


def index_kind(axis: str) -> str:
    """The kind of an index into `axis`; copies share it."""
    return f"index {base_axis(axis)}"


@dataclass(frozen=True, slots=True)
class Type:
    """`axes` is a set of names; `kind` is "real", "int", "bool", "label" or "index C" (bool ⊂ int ⊂ real, index ⊂
    int)."""

    axes: frozenset[str] = frozenset()
    kind: str = "real"
    interval: Interval = REALS

    @property
    def differentiable(self) -> bool:
        return self.kind == "real"

    def __str__(self) -> str:
        axes = f"[{', '.join(sorted(self.axes))}]" if self.axes else ""
        return f"{self.kind}{axes}"
