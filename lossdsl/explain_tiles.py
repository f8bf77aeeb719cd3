"""What a loss without its matrix does at sizes that are given: which tiles, and the flops and bytes of each way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lossdsl.runtime.reduction import memory_bytes
from lossdsl.runtime.tilesizes import FLOPS_A_BYTE, Price, price
from lossdsl.runtime.tiling import Tiling

FLOAT = 4  # bytes


def tiles_at(tiling: Tiling, sizes: Mapping[str, int], memory: int | str) -> list[str]:
    """The ways to take tiles of float32 numbers, the chosen one first; ValueError for an axis without a size, and for a
    cap too small for one row."""
    cap = memory_bytes(memory)
    extents = _extents(tiling, sizes)
    best = tiling.cheapest_at(extents, cap, FLOAT)
    ways = [best, *(w for w in (tiling, tiling.across) if w is not None and w is not best)]
    lines = [f"at {', '.join(f'{a} = {n}' for a, n in sizes.items())} and memory = {cap} bytes, float32:"]
    for way in ways:
        if way is not best and way.sizes.least(extents, FLOAT) > cap:
            continue
        rows = min(way.sizes.rows(extents, cap, FLOAT), extents[way.spec.axis])
        found = price(way.spec, extents, rows, FLOAT)
        lines.append(f"  {'chosen' if way is best else 'or'}: {_way(way, extents, rows, found)}")
    lines += _products(best, extents)
    if len(ways) > 1:
        lines.append(f"  (that which takes less of flops + {FLOPS_A_BYTE}·bytes)")
    return lines


def _way(way: Tiling, extents: Mapping[str, int], rows: int, found: Price) -> str:
    tile = rows * way.sizes.per_row(extents) * FLOAT * way.sizes.arrays
    held = way.sizes.held(extents, FLOAT)
    whole = f", {held / 2**20:.1f} MiB of factors that are computed and whole" if held else ""
    manner = "computed again once the statistics are known" if found.sweeps > 1 else "kept till it is used"
    return (
        f"tiles of {rows} along {way.spec.axis}, {-(-extents[way.spec.axis] // rows)} of them, each {manner}: "
        f"{found.flops:.3g} flops, {found.bytes:.3g} bytes of factors read and written; "
        f"{tile / 2**20:.1f} MiB a tile{whole}"
    )


def _products(way: Tiling, extents: Mapping[str, int]) -> list[str]:
    """Which sweeps are done by kernels that multiply the matrices themselves, and what decides."""
    lines = []
    for variant in way.spec.variants:
        for step in variant.steps:
            found = way.sizes.recomputed(step, extents, FLOAT)
            if variant.name not in ("value", "matrix") or not step.product:
                continue
            head = f"  {variant.name}, {step.kernel}: "
            if found is None:
                lines.append(f"{head}tiles in memory, since so many features don't fit on chip")
                continue
            chosen = way.sizes.multiplies(step, extents, FLOAT)
            often = "once" if found.times == 1 else f"{found.times} times"
            lines.append(
                f"{head}{'on chip, no tile in memory' if chosen else 'tiles in memory'}: to multiply {often} in the "
                f"kernel is {found.flops:.3g} flops more, to keep tiles {found.bytes:.3g} bytes of traffic"
            )
    return lines


def _extents(tiling: Tiling, sizes: Mapping[str, int]) -> dict[str, int]:
    wanted = [a for m in tiling.spec.matrices for a in (*m.rows, *m.columns, *m.over)]
    missing: Sequence[str] = [a for a in dict.fromkeys(x.rstrip("'") for x in wanted) if a not in sizes]
    if missing:
        raise ValueError(f"--size says nothing of {', '.join(missing)}")
    return {**sizes, **{a: sizes[a.rstrip("'")] for a in wanted}}
