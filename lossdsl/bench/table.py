"""A report as `lossdsl bench` prints it."""

from __future__ import annotations

from lossdsl.bench.report import Report

CALL = 50e-6  # seconds: a copy that is quicker is mostly the call itself


def table(report: Report) -> str:
    """A report as lines: milliseconds, quartiles, ratios to the baselines, peak memory."""
    shape = ", ".join(f"{a} = {n}" for a, n in report.sizes)
    against = [b for b in ("clone", "copy", "eager", "compile", "plain", "matmuls") if b in report.timings]
    small = [b for b in ("clone", "copy") if b in against and report.timings[b].median < CALL]
    against = [b for b in against if b not in small]
    lines = [
        f"{report.loss}  {shape}  {report.dtype}, {report.threads} threads, {report.rounds} rounds, "
        f"{report.exps:.2f} transcendentals an element{report.cache and f', {report.cache} cache'}"
    ]
    lines.append(
        f"  {'':12}{'median ms':>11}{'quartiles':>19}"
        + "".join(f"{'/ ' + b:>11}" for b in against)
        + f"{'peak MiB':>10}"
    )
    for name, t in report.timings.items():
        quartiles = f"{t.low * 1e3:.3f} - {t.high * 1e3:.3f}"
        ratios = "".join(f"{report.ratio(name, b):>11.2f}" for b in against)
        peak = "" if t.peak is None else f"{t.peak / 2**20:.1f}"
        share = report.of_copy(name) if report.cache and name not in (*against, *small) else None
        moved = "" if share is None else f"  {share:.0%} of the copy's bandwidth"
        lines.append(f"  {name:12}{t.median * 1e3:>11.3f}{quartiles:>19}{ratios}{peak:>10}{moved}")
    if small:
        lines.append(f"  no ratio to {' and '.join(small)}: at this size that is the time of a call, not of the memory")
    for name, reason in report.failures.items():
        lines.append(f"  {name}: {reason}" if name in report.timings else f"  {name}: not timed, {reason}")
    return "\n".join(lines)
