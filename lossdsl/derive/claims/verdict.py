"""What became of a claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lossdsl.source.diagnostic import Diagnostic, Label
from lossdsl.source.text import Span

Status = Literal["proved", "held", "refuted", "undecided", "wrong"]


@dataclass(frozen=True, slots=True)
class Found:
    """A verdict in the making; `points` were tried; sympy may be asked the `question` that would prove it."""

    status: Status
    detail: str = ""
    points: int = 0
    question: Mapping[str, Any] | None = None
    again: Callable[..., Found] | None = None  # tries it at sizes for which nothing was written out
    wrong: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """One claim's outcome.

    proved      for all inputs: `detail` says by what (rewriting, signs, curvature, intervals, algebra) and for which
                sizes, where it was written out
    held        at `points` points drawn from `seed`, to `digits` digits
    refuted     `detail` is a counterexample, as small as it could be made
    undecided   it could not be tried; `detail` says why
    wrong       what it compares with is no expression of the loss; `wrong` says why
    """

    claim: str
    status: Status
    detail: str
    span: Span
    points: int = 0
    digits: int = 0
    seed: int = 0
    wrong: tuple[Diagnostic, ...] = ()

    def __str__(self) -> str:
        if self.status == "held":
            where = f", {self.detail}" if self.detail else ""
            return f"held at {self.points} points to {self.digits} digits, seed {self.seed}{where}"
        return f"{self.status}{' at' if self.status == 'refuted' else ':'} {self.detail}"

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """All that is to be said of a claim that is wrong, false, or that can't be decided."""
        found = self.problem
        return self.wrong or (() if found is None else (found,))

    @property
    def problem(self) -> Diagnostic | None:
        """The first of them."""
        if self.wrong:
            return self.wrong[0]
        if self.status == "undecided":
            label = Label(self.span, self.detail)
            return Diagnostic("E0904", "the claim can't be decided", (label,), "state it in one of the forms of claims")
        if self.status != "refuted":
            return None
        label = Label(self.span, f"false at {self.detail}")
        return Diagnostic("E0903", "the claim is false", (label,), "correct the equation, or say where the claim holds")
