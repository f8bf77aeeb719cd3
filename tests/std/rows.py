"""Rows of logits on which fused losses are known to lose digits: gaps, offsets, ties, absent classes, one class."""

from __future__ import annotations

import numpy as np

GAPS = (0.0, 1e-3, 0.5, 5.0, 10.0, 17.0, 25.0, 40.0, 60.0, 88.0)
OFFSETS = (1e2, -1e2, 1e4, -1e4, 1e6, -1e6)
CLASSES = 5
INF = np.inf


def logit_rows() -> list[tuple[str, list[float], int]]:
    """(what it tries, logits as float32 values, target)."""
    rng = np.random.default_rng(0)
    base = rng.normal(0, 1, CLASSES)
    rows: list[tuple[str, list[float], int]] = []
    for gap in GAPS:
        for sign, word in ((1, "ahead"), (-1, "behind")):
            z = base.copy()
            z[2] = np.delete(base, 2).max() + sign * gap
            rows.append((f"target {word} by {gap:g}", list(z), 2))
    rows.append(("two classes, 17 apart", [17.0, 0.0], 0))
    rows.append(("two classes, 17 behind", [17.0, 0.0], 1))
    rows.append(("all tied", [0.25] * CLASSES, 1))
    rows.append(("tied at the top", [3.0, 3.0, -1.0, 0.0, 2.0], 0))
    rows.extend((f"offset {c:g}", [1 + c, 2 + c, 3 + c], 0) for c in OFFSETS)
    rows.append(("an absent class", [-INF, 0.5, 0.0, 1.0, -2.0], 1))
    rows.append(("only the target is there", [-INF, 0.5, -INF, -INF, -INF], 1))
    rows.append(("one class", [0.7], 0))
    rows.extend((f"random {i}", list(rng.normal(0, 4, CLASSES)), int(rng.integers(CLASSES))) for i in range(6))
    return [(what, [float(np.float32(x)) for x in z], y) for what, z, y in rows]


def pair_rows() -> list[tuple[str, list[float], list[float]]]:
    """(what it tries, student, teacher): equal up to noise or an offset, far apart, confident, with an absent class."""
    rng = np.random.default_rng(1)
    base = rng.normal(0, 2, CLASSES)
    noise = rng.normal(0, 1, CLASSES)
    rows = [
        ("equal", base, base),
        ("equal up to an offset", base + 64, base),
        *((f"apart by {e:g}", base + e * noise, base) for e in (1e-6, 1e-4, 1e-2, 0.3, 3.0)),
        ("teacher confident", base, base + np.array([30.0, 0, 0, 0, 0])),
        ("student confident", base + np.array([30.0, 0, 0, 0, 0]), base),
        ("confident of different classes", np.array([60.0, 0, 0, 0, 0]), np.array([0, 60.0, 0, 0, 0])),
        ("offset", base + 1e4, base - 1e4),
        ("absent in both", np.array([-INF, 0.5, 0.0, 1.0, -2.0]), np.array([-INF, 0.25, 0.5, 1.0, -1.0])),
        ("absent in the teacher", np.array([0.5, 0.5, 0.0]), np.array([-INF, 0.25, 0.5])),
        ("one class", np.array([0.5]), np.array([0.25])),
    ]
    single = [(what, [float(np.float32(x)) for x in s], [float(np.float32(x)) for x in t]) for what, s, t in rows]
    return single
