"""A loss on a backend against the exact numbers: the worst error of each kind, and the bars that it must keep to.

In units of the last place (2^-23 of a number): the value within 4 of the sum of what its equation adds up; each entry
of a gradient within 8 and one more for each unit of |z - max z|, relative to the exact entry; entries below the
smallest normal number to within that number; the gradient of logits whose common offset changes nothing sums to 0
within 2 of its largest entry; nothing infinite or NaN where the exact number is finite, nor the other way round, for
which there is no excuse.

A finite entry beyond its bar is looked at again, since single precision can't do everything. It may be

    inputs     what the equation gives for inputs half a last place away: their own rounding moves it as far
    backward   what it gives for inputs two last places away: a backward error of no more than that
    zero       within the bar of the sum of what is added up in it, and 0 or less than 2^-48 of that sum: by ties, by
               symmetry, in a limit. Single precision, twice over, doesn't show what it is
    terms      within the bar of the sum of what is added up in it: a difference that nearly cancels
    near       what the equation gives for inputs that differ by a few last places, of the largest beside them or of 1:
               it is that steep, or it jumps there (a kink, an order)
    steps      what the equation gives if each of its steps is rounded, as they are in single precision
    range      out of a number of the equation, between inputs and result, that float32 can't hold

Anything else is a miss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lossdsl.accuracy.exact import (
    LARGEST,
    SMALLEST,
    ULP,
    Exact,
    Moved,
    Written,
    along,
    few,
    halfway,
    nearby,
    step_errors,
)
from lossdsl.accuracy.rows import Case
from lossdsl.check.types import base_axis

if TYPE_CHECKING:
    from torch import Tensor

Array = Any
Results = Mapping[str, Array]  # "rows" and "grad.X" as float64 arrays
VALUE, GRADIENT, SUM = 4.0, 8.0, 2.0
NOTHING = 2.0**-48  # of the terms: what two numbers of float32, one for the other's error, don't tell from 0


@dataclass(frozen=True, slots=True)
class Precision:
    """What a dtype holds: the rounding of a number to it, relative; its last place in those of float32; below which
    size a number counts as 0, and from which it is infinite."""

    half: float
    place: float
    smallest: float
    largest: float


PRECISIONS = {  # of inputs, and so of gradients: arithmetic is in float32, and so is a loss's value
    "float32": Precision(0.0, 1.0, SMALLEST, LARGEST),
    "bfloat16": Precision(2.0**-8, 2.0**16, SMALLEST, LARGEST),
    "float16": Precision(2.0**-11, 2.0**13, 2.0**-24, 65504.0),
}
WORDS = {  # of the reasons, as `lossdsl check --accuracy` says them
    "inputs": "half a last place of the inputs moves the exact number as far",
    "backward": "two last places of the inputs move the exact number as far",
    "zero": "0, or less than 2^-48 of its terms, and within the bar of their sum",
    "terms": "within the bar of the sum of its terms, which nearly cancel",
    "near": "a kink, or so steep that 8 last places of the inputs move it as far",
    "steps": "each step of the equation rounded moves it as far",
    "range": "a number of the equation is beyond what float32 holds",
    "entries": "of a row of which an entry is beyond its own bar",
    "miss": "nothing excuses it",
}


@dataclass(slots=True)
class Worst:
    """The largest error of one kind, as a part of what its bar allows; with where it was found."""

    part: float = 0.0
    error: float = 0.0  # in ulp
    where: str = ""
    found: float = 0.0
    exact: float = 0.0
    count: int = 0
    reasons: Counter[str] = field(default_factory=Counter)  # of entries beyond the bar

    def note(self, part: float, error: float, where: str, found: float, exact: float) -> None:
        self.count += 1
        if part > self.part or part != part:
            self.part, self.error, self.where, self.found, self.exact = part, error, where, found, exact


@dataclass(slots=True)
class Report:
    """What was found of one loss on one backend and dtype. `misses` name entries that nothing excuses."""

    loss: str
    backend: str
    dtype: str
    value: Worst = field(default_factory=Worst)
    gradient: Worst = field(default_factory=Worst)
    total: Worst = field(default_factory=Worst)
    infinite: Worst = field(default_factory=Worst)  # entries that are infinite or NaN on one side alone
    misses: list[str] = field(default_factory=list)
    precise: bool = False  # whether it computes in float64: no bar is wider for the size of z - m
    excusing: bool = True  # whether entries beyond their bars are looked at again
    limits: int = 0  # outputs whose written equation has no value somewhere, where the rewritten one has

    @property
    def beyond(self) -> Counter[str]:
        """How many numbers are beyond their bars, by reason."""
        kinds = (self.value, self.gradient, self.total, self.infinite)
        found = sum((worst.reasons for worst in kinds), Counter[str]())
        known = sum(n for reason, n in found.items() if reason == "miss")
        return found + Counter(miss=len(self.misses) - known)  # what a backend refused has no number

    @property
    def strict(self) -> bool:
        """Whether every entry keeps to its bar, with nothing excused."""
        return not self.infinite.part and max(self.value.part, self.gradient.part, self.total.part) <= 1

    @property
    def ok(self) -> bool:
        return not self.misses


@dataclass(slots=True)
class _Judge:
    report: Report
    loss: Written
    case: Case
    should: Exact
    held: Precision
    memo: dict[Callable[[Written, Case], Any], Any] = field(
        default_factory=dict
    )  # of the case: where inputs nearby lead, what steps move

    def doubtful(self, name: str, got: Array, spread: Array) -> list[tuple[int, ...]]:
        """The places to look at one by one: those not well within their bars, and the worst of the others.

        Float64 tells them apart: its own error is a billionth of a bar. The others are only counted.
        """
        exact = self.should.values[name].astype(np.float64)
        is_value = name == "rows"
        measure = np.maximum(self.should.sizes[name] if is_value else np.abs(exact), self.held.smallest)
        bar = (VALUE + 0 * spread if is_value else GRADIENT + spread) * ULP + self.held.half
        with np.errstate(all="ignore"):
            part = np.abs(got - exact) / np.maximum(bar * measure, self.held.smallest)
        clear = np.isfinite(got) & (np.abs(exact) < 0.99 * self.held.largest) & (part < 0.99)
        places = [tuple(map(int, place)) for place in np.argwhere(~clear)]
        if clear.any():
            worst = np.unravel_index(np.argmax(np.where(clear, part, -1.0)), part.shape)
            places.append(tuple(map(int, worst)))
            (self.report.value if is_value else self.report.gradient).count += int(clear.sum()) - 1
        return places

    def entry(self, name: str, place: tuple[int, ...], a: float, strict: float, loose: float) -> None:
        b = self.should.values[name][place]
        size = float(self.should.sizes[name][place])
        is_value, smallest, largest = name == "rows", self.held.smallest, self.held.largest
        where = f"{self.case.what}: {'the value' if is_value else name.removeprefix('grad.')}{list(place)}"
        worst = self.report.value if is_value else self.report.gradient
        exact = float(b)
        if b != b or (abs(b) > 0.99 * largest and abs(a) > 0.99 * largest and a == a):
            return  # there is no value, or both are infinite
        if not np.isfinite(a) or abs(b) > 1.01 * largest:
            self.report.infinite.note(1.0, 0.0, where, a, exact)
            self.unexcused(self.report.infinite, where, a, exact)
            return
        error = self.should.error(name, place, a)
        measure = max(size if is_value else abs(exact), smallest)
        allowed = max(((VALUE if is_value else GRADIENT + strict) * ULP + self.held.half) * measure, smallest)
        worst.note(error / allowed, error / measure / ULP, where, a, exact)
        if error > allowed:
            loosely = ((VALUE if is_value else GRADIENT) + loose) * ULP + self.held.half
            self.excuse(worst, name, place, a, loosely * max(size, smallest), where)

    def unexcused(self, worst: Worst, where: str, a: float, exact: float) -> None:
        """Files a miss. An infinity or NaN in a finite number's place always is one, and so is the opposite: training
        ends there, whatever else moves the number as far."""
        worst.reasons["miss" if self.report.excusing else "beyond"] += 1
        if self.report.excusing:
            self.report.misses.append(f"{where} is {a:.9g}, not {exact:.9g}")

    def excuse(self, worst: Worst, name: str, place: tuple[int, ...], a: float, terms: float, where: str) -> None:
        """Files an entry beyond its bar under the reason for it."""
        if not self.report.excusing:
            worst.reasons["beyond"] += 1
            return
        b = self.should.values[name][place]
        room = terms * abs(float(b)) / max(float(self.should.sizes[name][place]), self.held.smallest)
        if self.between(halfway, name, place, a, room):
            reason = "inputs"
        elif self.between(few, name, place, a, room):
            reason = "backward"
        elif terms and self.should.error(name, place, a) <= terms:
            reason = "zero" if abs(float(b)) <= NOTHING * float(self.should.sizes[name][place]) else "terms"
        elif self.between(nearby, name, place, a, terms):
            reason = "near"
        elif self.should.beyond:
            reason = "range"
        elif self.should.error(name, place, a) <= float(self.found(step_errors)[name][place]) + terms:
            reason = "steps"
        else:
            self.unexcused(worst, where, a, float(b))
            return
        worst.reasons[reason] += 1

    def between(
        self, what: Callable[[Written, Case], Moved], name: str, place: tuple[int, ...], a: float, room: float
    ) -> bool:
        """Whether what was found lies among what the equation gives for inputs beside the case's."""
        exact = float(self.should.values[name][place])
        around = [*self.found(what).around(name, place, exact), exact]
        return bool(min(around) - room <= a <= max(around) + room)

    def found(self, what: Callable[[Written, Case], Any]) -> Any:
        """What is found of the case once, for all of its entries."""
        if what not in self.memo:
            self.memo[what] = what(self.loss, self.case)
        return self.memo[what]


def judge(
    report: Report,
    loss: Written,
    case: Case,
    should: Exact,
    found: Results,
    memo: dict[Callable[[Written, Case], Any], Any] | None = None,
) -> None:
    """Notes all errors of one case. Backends that are judged by one case share its `memo`."""
    report.limits += len(should.from_rules)
    memo = {} if memo is None else memo
    nowhere = any(x != x for x in should.values["rows"].flat)  # inf - inf: there, a derivative means nothing
    for name, values in should.values.items():
        if name not in found or (nowhere and name != "rows"):
            continue
        got = np.asarray(found[name], dtype=np.float64)
        held = PRECISIONS["float32" if name == "rows" else report.dtype]
        judging = _Judge(report, loss, case, should, held, memo)
        spread, loose = (along(loss, name, x, values.shape) for x in (should.spread, should.loose))
        if report.precise:
            spread = np.zeros(np.shape(spread))
        for place in judging.doubtful(name, got, spread):
            judging.entry(name, place, float(got[place]), float(spread[place]), float(loose[place]))
        if name != "rows" and not held.half:
            _totals(report, loss, case, name, should, got)


def _totals(report: Report, loss: Written, case: Case, name: str, should: Exact, got: Array) -> None:
    """Rows of a gradient whose exact sum is 0: a common offset changes nothing."""
    values = should.values[name]
    leaf = next(leaf for leaf in loss.plain.leaves if leaf.name == name.removeprefix("grad."))
    own = [d for d, a in enumerate(leaf.axes) if a not in {base_axis(x) for x in loss.plain.batch}]
    if leaf.name not in loss.logits or len(own) != 1 or values.shape[own[0]] < 2:
        return
    exact_rows, rows, sizes = (
        np.moveaxis(x, own[0], -1).reshape(-1, values.shape[own[0]]) for x in (values, got, should.sizes[name])
    )
    for k, (row, exact, size) in enumerate(zip(rows, exact_rows, sizes, strict=True)):
        largest = max(abs(x) for x in exact)
        if any(x != x for x in exact) or not SMALLEST / ULP < largest < LARGEST or not np.isfinite(row).all():
            continue
        if abs(exact.sum()) > largest * 1e-40:
            continue
        total = abs(float(row.astype(np.longdouble).sum()))
        where = f"{case.what}: the sum of row {k} of {leaf.name}"
        part = total / (SUM * ULP * float(largest))
        report.total.note(part, total / (ULP * float(largest)), where, total, 0.0)
        if part > 1 and report.excusing:
            entries = max(float(abs(b - a)) for a, b in zip(row, exact, strict=True))
            if total <= SUM * ULP * float(np.sum(size)):
                reason = "terms"
            elif entries > GRADIENT * ULP * float(largest):
                reason = "entries"  # which are beyond their own bars: it has been said why
            else:
                reason = "range" if should.beyond else "miss"
            report.total.reasons[reason] += 1
            if reason == "miss":
                report.misses.append(f"{where} is {total:.3g}, its largest entry {float(largest):.3g}")


# --- running ----------------------------------------------------------------------------------------------------------


def run_torch(loss: Written, module: Callable[..., Tensor], case: Case, dtype: str) -> dict[str, Array]:
    """Value of every row and gradient of their sum, from a built loss."""
    import torch

    kind = getattr(torch, dtype)
    tensors: dict[str, Tensor] = {}
    kinds = {leaf.name: leaf.type.kind for leaf in loss.plain.leaves}
    for item in loss.checked.inputs:
        x = torch.tensor(np.array(case.leaves[item.name]))
        real = kinds[item.name] == "real"
        tensors[item.name] = x.to(kind).requires_grad_(item.name in loss.inputs) if real else x
    value = module(*tensors.values())
    found = {"rows": value.detach().double().numpy()}
    wanted = [tensors[name] for name in loss.inputs]
    grads = (
        torch.autograd.grad(value.sum(), wanted, allow_unused=True)
        if wanted and value.requires_grad
        else [None] * len(wanted)
    )
    for name, t, g in zip(loss.inputs, wanted, grads, strict=True):
        found[f"grad.{name}"] = (torch.zeros_like(t) if g is None else g).detach().double().numpy()
    return found


def rounded(case: Case, loss: Written, dtype: str) -> Case | None:
    """The case with its real inputs rounded to a smaller dtype; None where that can't hold them, or what it makes of
    them is none of the loss's inputs: 0 for a spread of 10^-40."""
    import torch

    leaves = dict(case.leaves)
    for leaf in loss.plain.leaves:
        if leaf.role == "input" and leaf.type.kind == "real":
            x = case.leaves[leaf.name]
            leaves[leaf.name] = y = torch.tensor(x).to(getattr(torch, dtype)).double().numpy()
            if np.any(np.isinf(y) & ~np.isinf(x)) or not all(v in leaf.type.interval for v in y.flat):
                return None
    return Case(case.what, leaves, case.sizes)
