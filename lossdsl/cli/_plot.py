"""Curves in the terminal, of Braille dots, and as a picture by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lossdsl.curves import Curve

WIDTH, HEIGHT = 64, 8  # in letters; one is two dots wide and four high
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def terminal(curve: Curve, name: str) -> str:
    """Loss and gradient, one above the other."""
    parts = [f"{name} along {curve.along}, the rest as in the example", *_panel(curve.at, curve.value)]
    parts += [f"its derivative by {curve.along}", *_panel(curve.at, curve.slope)]
    return "\n".join(parts)


def _panel(x: Sequence[float], y: Sequence[float]) -> list[str]:
    seen = [v for v in y if isfinite(v)]
    if not seen:
        return ["  no finite value"]
    low, high = min(seen), max(seen)
    if high - low < 1e-12 * max(1, abs(high)):
        low, high = low - 0.5, high + 0.5
    wide, tall = 2 * WIDTH, 4 * HEIGHT
    cells = [[0] * WIDTH for _ in range(HEIGHT)]
    last: int | None = None
    for column in range(wide):
        place = x[0] + (x[-1] - x[0]) * column / (wide - 1)
        v = _between(x, y, place)
        if v is None:
            last = None
            continue
        row = min(max(round((high - v) / (high - low) * (tall - 1)), 0), tall - 1)
        start = row if last is None else last + (row > last) - (row < last)
        for r in range(min(start, row), max(start, row) + 1):  # a steep piece stays a line
            cells[r // 4][column // 2] |= _DOTS[column % 2][r % 4]
        last = row
    labels = [f"{high:.4g}", *[""] * (HEIGHT - 2), f"{low:.4g}"]
    room = max(map(len, labels))
    lines = [f"  {t:>{room}} ┤{''.join(chr(0x2800 + c) for c in r)}" for t, r in zip(labels, cells, strict=True)]
    ends = f"{x[0]:.4g}", f"{x[-1]:.4g}"
    lines.append(f"  {'':>{room}} └{'─' * WIDTH}")
    lines.append(f"  {'':>{room}}  {ends[0]}{ends[1]:>{WIDTH - len(ends[0])}}")
    return lines


def _between(x: Sequence[float], y: Sequence[float], place: float) -> float | None:
    """The value at a place, on the line between its neighbours."""
    step = (x[-1] - x[0]) / (len(x) - 1)
    i = min(int((place - x[0]) / step), len(x) - 2)
    part = (place - x[i]) / step
    value = y[i] * (1 - part) + y[i + 1] * part
    return value if isfinite(value) else None


def picture(curve: Curve, name: str, path: str) -> None:
    """Both curves into a file; its ending says which kind (png, svg, pdf). ImportError without matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    titles = name, f"derivative by {curve.along}"
    for axes, y, title in zip(figure.subplots(1, 2), (curve.value, curve.slope), titles, strict=True):
        axes.axhline(0, color="0.8", linewidth=0.8)
        axes.plot(curve.at, y, color="#2962a8")
        axes.set_xlabel(curve.along)
        axes.set_title(title)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
