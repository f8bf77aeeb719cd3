"""The accuracy of one loss on every backend that is here, beside that of the same equation typed in torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lossdsl.accuracy.exact import Exact, Written, exact, written
from lossdsl.accuracy.measure import (
    GRADIENT,
    PRECISIONS,
    SUM,
    VALUE,
    WORDS,
    Report,
    Worst,
    judge,
    rounded,
    run_torch,
)
from lossdsl.accuracy.rows import Case, cases, wide
from lossdsl.check.typed import CheckedLoss
from lossdsl.registry import Registry

DTYPES = ("float32", "bfloat16")
BY_HAND = "by hand"


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The reports of a loss; `by_hand` are those of the equation typed in torch, where it can be. `left_out` names
    cases that can't be measured, and backends that can't say the loss, and why."""

    loss: str
    reports: tuple[Report, ...]
    by_hand: tuple[Report, ...]
    cases: int
    left_out: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return all(report.ok for report in self.reports)


def accuracy(
    checked: CheckedLoss,
    registry: Registry,
    backends: Sequence[str] | None = None,
    dtypes: Sequence[str] = DTYPES,
    by_hand: bool = True,
    widely: bool = False,
    precise: bool = False,
    told: Callable[[int, int], None] = lambda done, of: None,
    exactly: Callable[[Written, Case], Exact] | None = None,
) -> Accuracy:
    """Measure a loss. `backends` are all that can be used here, unless said; `widely` adds a row of 50 000 classes.
    `told` hears after each case how many are done, and of how many; `exactly` is `exact_numbers`, or one that has kept
    what that gave.

    NotDifferentiableError for a loss without a gradient, BackendError for a backend that can't be used here.
    """
    from torch.linalg import LinAlgError  # type: ignore[attr-defined]

    loss = written(checked, registry)
    here = tuple(on_cpu(registry, name) for name in backends) if backends else usable(registry)
    modules = {name: _built(checked, name, precise) for name in here}
    built = {name: module for name, module in modules.items() if module is not None}
    reports = {(name, d): Report(checked.name, name, d, precise=precise) for name in built for d in dtypes}
    hand = {d: Report(checked.name, BY_HAND, d, excusing=False) for d in dtypes} if by_hand else {}
    left_out = [f"{name}: it has no words for this loss" for name, module in modules.items() if module is None]
    every = list(_all(loss, widely))
    for count, case in enumerate(every):
        told(count, len(every))
        for dtype in dtypes:
            given = case if dtype == "float32" else rounded(case, loss, dtype)
            if given is None:
                left_out.append(f"{case.what}: {dtype} can't hold it")
                continue
            try:
                should = (exactly or exact_numbers)(loss, given)
            except ZeroDivisionError:
                left_out.append(f"{case.what}: a matrix is singular")
                continue
            memo: dict[Any, Any] = {}
            for name, module in built.items():
                try:
                    found = run_torch(loss, module, given, dtype)
                except LinAlgError as error:  # singular in single precision, and the backend says so
                    reports[name, dtype].misses.append(f"{case.what}: {str(error).splitlines()[0]}")
                    continue
                judge(reports[name, dtype], loss, given, should, found, memo)
            if dtype in hand and not _by_hand(loss, given, should, hand[dtype]):
                del hand[dtype]
    told(len(every), len(every))
    return Accuracy(checked.name, tuple(reports.values()), tuple(hand.values()), len(every), tuple(left_out))


def usable(registry: Registry) -> tuple[str, ...]:
    """The backends that can be used on this machine's CPU."""
    from lossdsl.backends.manager import BackendError

    found = []
    for name in registry.backends:
        try:
            found.append(on_cpu(registry, name))
        except BackendError:
            continue
    return tuple(sorted(found, reverse=True))


def on_cpu(registry: Registry, name: str) -> str:
    """The name of a backend that can be used on this machine's CPU; BackendError says why one can't."""
    from lossdsl.backends.manager import BackendError, choose

    devices = choose(registry.backends, name, "cpu", registry.failures).spec.devices
    if not {"cpu", "*"} & set(devices):
        hint = "; with TRITON_INTERPRET=1 its kernels are interpreted" if name == "triton" else ""
        raise BackendError(f"backend {name!r} is for {' and '.join(devices)}, and this measures on the CPU{hint}")
    return name


def _all(loss: Written, widely: bool) -> Iterable[Case]:
    yield from cases(loss.plain, loss.checked)
    if widely and loss.rowwise:
        one = wide(loss.plain, loss.checked, rewritten=loss.rewritten)
        if one is not None:
            yield one


def exact_numbers(loss: Written, case: Case) -> Exact:
    """At 110 digits; a row of very many classes in float64, whose 1e-16 is nothing to an error of 1e-7."""
    return exact(loss, case, "float64" if max(case.sizes.values()) > 1000 else "mpmath")


def _built(checked: CheckedLoss, backend: str, precise: bool) -> Any:
    """The module, in which one asks for rows; None where the backend has no words for the loss."""
    from lossdsl.api import Spec
    from lossdsl.api import loss as build
    from lossdsl.backends.manager import BackendError

    options: dict[str, Any] = {} if checked.reduction is None else {"reduction": "none"}
    options |= single_params(checked)
    try:
        return build(Spec(checked), backend=backend, precise=precise, **options)
    except BackendError:
        return None


def single_params(checked: CheckedLoss) -> dict[str, Any]:
    """The params of the cases: what defaults are in float32, so that what is measured is the loss alone."""
    reals = [p for p in checked.params if not p.modes and not p.integer]
    single = {p.name: np.asarray(p.default, dtype=np.float32).astype(np.float64) for p in reals}
    return {name: tuple(x.tolist()) if x.ndim else float(x) for name, x in single.items()}


def _by_hand(loss: Written, case: Case, should: Exact, report: Report) -> bool:
    """Whether the equation can be typed in torch; if so, it is judged, too."""
    from lossdsl.accuracy.naive import NotWrittenError, run_naive

    try:
        judge(report, loss, case, should, run_naive(loss, case, report.dtype))
    except (NotWrittenError, RuntimeError):
        return False
    return True


# --- in words ---------------------------------------------------------------------------------------------------------


def record(found: Accuracy) -> dict[str, Any]:
    """As plain data."""
    return {
        "loss": found.loss,
        "cases": found.cases,
        "left_out": list(found.left_out),
        "ok": found.ok,
        "reports": [_record(report) for report in (*found.reports, *found.by_hand)],
    }


def _record(report: Report) -> dict[str, Any]:
    kinds = {"value": report.value, "gradient": report.gradient, "row_sum": report.total}
    units = dict.fromkeys(kinds, 1.0) | {"gradient": PRECISIONS[report.dtype].place}
    return {
        "backend": report.backend,
        "dtype": report.dtype,
        "strict": report.strict,
        "ok": report.ok,
        "units": {"value": "float32", "gradient": report.dtype, "row_sum": "float32"},
        "beyond": dict(report.beyond),
        "misses": report.misses,
        "not_finite": dict(report.infinite.reasons),
        **{name: _worst(worst, units[name]) for name, worst in kinds.items()},
    }


def _worst(worst: Worst, unit: float) -> dict[str, Any]:
    return {
        "of_the_bar": worst.part,
        "ulp": worst.error / unit,
        "at": worst.where,
        "found": worst.found,
        "exact": worst.exact,
        "numbers": worst.count,
        "beyond": dict(worst.reasons),
    }


def in_words(found: Accuracy) -> str:
    """A table of the largest errors, each in last places of the dtype that the number comes in, beside its bar; then
    how many numbers are beyond their bars, and what excuses them."""
    head = ("", "value", "gradient", "sum of a row", "not finite")
    rows: list[tuple[str, ...]] = [head]
    for dtype in dict.fromkeys(r.dtype for r in found.reports):
        rows.append((f"bar, {dtype}", f"{VALUE:g}", *_bars(dtype), "none"))
        for report in (*found.reports, *found.by_hand):
            if report.dtype == dtype:
                rows.append((f"{report.backend}, {dtype}", *_cells(report), _reasons(report.infinite) or "0"))
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ["  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    title = f"{found.loss}: {found.cases} cases against 110 digits, errors in last places"
    halves = [d for d in dict.fromkeys(r.dtype for r in found.reports) if PRECISIONS[d].half]
    own = ", ".join(f"gradients of {d} in {d}'s" for d in halves)
    title += f" ({own}, all else in float32's)" if own else ""
    said = [line for report in found.reports for line in _verdict(report)]
    said += [f"left out: {what}" for what in found.left_out]
    return "\n".join([title, *lines, *(f"  {line}" for line in said)])


def _bars(dtype: str) -> tuple[str, str]:
    if dtype == "float32":
        return f"{GRADIENT:g} + |z - m|", f"{SUM:g}"
    return f"1/2 + ({GRADIENT:g} + |z - m|) / {PRECISIONS[dtype].place:g}", "-"


def _cells(report: Report) -> tuple[str, ...]:
    units = ((report.value, 1.0), (report.gradient, PRECISIONS[report.dtype].place), (report.total, 1.0))
    return tuple(_cell(worst, unit) for worst, unit in units)


def _verdict(report: Report) -> list[str]:
    """What is beyond its bar, and what excuses it."""
    who, beyond = f"{report.backend}, {report.dtype}", report.beyond
    if not beyond:
        return [f"{who}: every number keeps to its bar"]
    count = sum(worst.count for worst in (report.value, report.gradient, report.total, report.infinite))
    lines = [f"{who}: {beyond.total()} of {count} numbers are beyond their bars"]
    lines += [f"  {n} {reason}: {WORDS[reason]}" for reason, n in beyond.most_common()]
    return lines + [f"    {miss}" for miss in report.misses[:5]]


def _cell(worst: Worst, unit: float) -> str:
    if not worst.count:
        return "-"
    reasons = _reasons(worst)
    return f"{worst.error / unit:.3g}" + (f" ({reasons})" if reasons else "")


def _reasons(worst: Worst) -> str:
    return ", ".join(f"{n} {reason}" for reason, n in worst.reasons.items())
