"""What became of a claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lossdsl.source.diagnostic import Diagnostic, Label
from lossdsl.source.text import Span

Status = Literal["proved", "held", "refuted", "undecided"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One claim's outcome.

    proved      for all inputs: the rewrite rules, the intervals or the curvature of its parts show it (`detail`)
    held        at `points` random points, to `digits` digits
    refuted     `detail` is a counterexample
    undecided   it could not be tried; `detail` says why
    """

    claim: str
    status: Status
    detail: str
    span: Span
    points: int = 0
    digits: int = 0

    @property
    def problem(self) -> Diagnostic | None:
        """What is to be said of a claim that is false."""
        if self.status != "refuted":
            return None
        label = Label(self.span, f"false at {self.detail}")
        return Diagnostic("E0903", "the claim is false", (label,), "correct the equation, or say where the claim holds")
