"""What was measured: plain data, and ratios of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

BASELINES = ("clone", "copy", "exp", "eager", "compile", "plain", "matmuls")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one candidate over all rounds: median and quartiles, and the peak of memory in bytes beyond what was
    held before (None where it can't be asked for)."""

    median: float
    low: float
    high: float
    peak: int | None


@dataclass(frozen=True, slots=True)
class Report:
    """One loss at one shape. `ratios` are of medians, against each baseline that ran; `exps` are the transcendentals an
    element in the plan of value and gradient, `copies` the bytes that it moves for each that the copy does; `cache` is
    "cold" or "hot" on a GPU."""

    loss: str
    sizes: tuple[tuple[str, int], ...]
    dtype: str
    threads: int
    rounds: int
    timings: Mapping[str, Timing]
    failures: Mapping[str, str] = field(default_factory=dict)
    exps: float = 0.0
    copies: float = 0.0
    cache: str = ""

    def of_copy(self, name: str) -> float | None:
        """The share of the copy's bandwidth that one had by the plan's bytes: 1 where it moved these as quickly."""
        if "copy" not in self.timings or not self.copies:
            return None
        return self.copies / self.ratio(name, "copy")

    def ratio(self, name: str, baseline: str) -> float:
        return self.timings[name].median / self.timings[baseline].median

    def as_json(self) -> dict[str, Any]:
        """Plain data: the timings and every ratio to a baseline."""
        baselines = [b for b in BASELINES if b in self.timings]
        plain = asdict(self)
        plain["sizes"] = dict(self.sizes)
        plain["ratios"] = {n: {b: self.ratio(n, b) for b in baselines if b != n} for n in self.timings}
        plain["of_copy"] = {n: self.of_copy(n) for n in self.timings}
        return plain
