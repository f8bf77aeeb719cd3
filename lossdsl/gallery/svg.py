"""A curve as an inline SVG that takes its colours from the page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, isfinite, log10

from lossdsl.curves import Curve

WIDTH, HEIGHT = 420, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 40


def panels(curve: Curve, name: str) -> str:
    """The loss and its derivative, side by side where there is room."""
    along = escape(curve.along)
    pair = (
        (curve.value, f"{name} along {curve.along}", "loss"),
        (curve.slope, f"its derivative by {curve.along}", "derivative"),
    )
    figures = [
        f"<figure>{_panel(curve.at, y, title, curve.here, along)}<figcaption>{escape(word)}</figcaption></figure>"
        for y, title, word in pair
    ]
    return f'<div class="curves">{"".join(figures)}</div>'


def _panel(x: Sequence[float], y: Sequence[float], title: str, here: float, along: str) -> str:
    seen = [v for v in y if isfinite(v)]
    low, high = (min(seen), max(seen)) if seen else (0.0, 1.0)
    if high - low < 1e-9 * max(1.0, abs(high)):
        low, high = low - 0.5, high + 0.5
    ticks = _ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])

    def across(v: float) -> float:
        return LEFT + (v - x[0]) / (x[-1] - x[0]) * (WIDTH - LEFT - RIGHT)

    def down(v: float) -> float:
        return TOP + (high - v) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">']
    for v in ticks:
        kind = "zero" if v == 0 else "grid"
        parts.append(f'<path class="{kind}" d="M{LEFT} {down(v):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="left" x="{LEFT - 7}" y="{down(v) + 4:.1f}">{_number(v)}</text>')
    for v in _ticks(x[0], x[-1], inside=True):
        parts.append(f'<path class="grid" d="M{across(v):.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text class="below" x="{across(v):.1f}" y="{HEIGHT - BOTTOM + 16}">{_number(v)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="below name" x="{middle:.0f}" y="{HEIGHT - 5}">{along}</text>')
    if x[0] <= here <= x[-1]:
        parts.append(f'<path class="here" d="M{across(here):.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
    path, drawing = "", False
    for a, b in zip(x, y, strict=True):
        if isfinite(b):
            path += f"{'L' if drawing else 'M'}{across(a):.1f} {down(b):.1f}"
        drawing = isfinite(b)
    parts.append(f'<path class="curve" d="{path}"/></svg>')
    return "".join(parts)


def _ticks(low: float, high: float, inside: bool = False) -> list[float]:
    """Four to eight round numbers that cover the range, or lie inside it."""
    raw = (high - low) / 5
    unit = 10.0 ** floor(log10(raw))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= raw * 0.999)
    first, last = (ceil(low / step), floor(high / step)) if inside else (floor(low / step), ceil(high / step))
    return [i * step for i in range(first, last + 1)]


def _number(v: float) -> str:
    return f"{v:.6g}".replace("-", "−")
