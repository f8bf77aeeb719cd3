"""How many registers a kernel wants, by its statements: the estimate that shapes are chosen by."""

from __future__ import annotations

from collections.abc import Sequence

from lossdsl.backends.api import Island, Let, Load, Reduce, Store
from lossdsl.backends.triton.blocks import STATES
from lossdsl.backends.triton.shapes import Demand
from lossdsl.backends.triton.sharing import shared, tiles
from lossdsl.backends.triton.stages import Guard, Item, Plain, Stage, Sweep, flattened, operands

# Registers that a function takes beside its argument and result, from what compilers for sm_90 made of some hundred
# kernels: those by way of float64 the most. A quotient has a branch for numbers out of the ordinary.
COSTS = {
    "div": 4,
    "exp": 5,
    "expsub": 5,
    "log": 5,
    "mulz": 1,
    "sigmoid": 8,
    "sqrt": 4,
    "within_unit": 4,
    **dict.fromkeys(("expm1", "expm1mx", "log1mexp", "log1p", "log1pmx"), 10),
    **dict.fromkeys(("softplus", "logaddexp"), 14),
    **dict.fromkeys(("mod", "tanh"), 20),
    **dict.fromkeys(("acos", "asin", "atan", "cos", "divergence", "erf", "pow", "sin", "tan"), 28),
    **dict.fromkeys(("digamma", "lgamma", "tetragamma", "trigamma"), 40),
}
MIXED = 4  # calls of entries that the compiler mixes, so as not to wait for one
LARGE = 20  # from here on, a function that is called of a value of a row is felt beside entries


def demand(stage: Stage, on_chip: bool) -> Demand:
    """That of the kernel that has its rows on chip, or of that which goes over them in blocks."""
    items = shared(stage, on_chip)
    loops = [item for item in items if isinstance(item, Sweep | Island)]
    within = flattened(loops)
    known = set(map(id, within))
    outside = [s for s in (*stage.scalars, *flattened(items)) if id(s) not in known]
    rows = rows_alive((*stage.scalars, *items))
    large = LARGE // 5 if max(map(_cost, outside), default=0) >= LARGE else 0
    if not loops:
        return Demand(max(rows, 1), 0, _together(outside))
    moved = {s.buffer for s in within if isinstance(s, Load | Store)}
    values = tiles(items) + max(0, len(moved) - 2) / 2 + 1.5 * len(_strided(loops))
    values += any(name.endswith("@sum") for name in moved)  # in float64
    values += any(isinstance(s, Reduce) and s.reduction == "argmax" for s in within) / 2  # places beside entries
    if not on_chip:
        values += max(_states(item) for item in loops)
    return Demand(values, rows, _together(within) + large)


def _strided(loops: Sequence[Item]) -> set[str]:
    """Tensors in which entries don't lie side by side: each entry has an address of its own."""
    return {
        s.buffer
        for loop in loops
        if isinstance(loop, Sweep)
        for s in loop.body
        if isinstance(s, Load | Store) and loop.axis in s.index[:-1]
    }


def _cost(s: Plain) -> int:
    return COSTS.get(s.op, 0) if isinstance(s, Let) else 0


def _together(statements: Sequence[Plain]) -> int:
    """What functions take: not all of it at once, as one's is free when another is called."""
    costs = [_cost(s) for s in statements]
    return min(sum(costs), MIXED * max(costs, default=0))


def _states(item: Item) -> int:
    """The values of an entry that a sweep's reductions keep from block to block."""
    return sum(STATES.get(r.reduction, 1) for r in item.reductions) if isinstance(item, Sweep) else 1


def rows_alive(items: Sequence[Item]) -> int:
    """How many values of a row are alive at once, at most, with those that a sweep reads in one go."""
    steps = [item for item in items if not isinstance(item, Guard)]
    last: dict[str, int] = {}
    for at, item in enumerate(steps):
        last.update(dict.fromkeys(_reads(item), at))
    alive: set[str] = set()
    most = 0
    for at, item in enumerate(steps):
        alive |= {name for name in _makes(item) if last.get(name, -1) > at}
        most = max(most, len(alive))
        alive = {name for name in alive if last[name] > at}
    return most


def _reads(item: Item) -> set[str]:
    body = item.body if isinstance(item, Sweep) else () if isinstance(item, Guard) else (item,)
    return {x for s in body for x in operands(s) if isinstance(x, str)}


def _makes(item: Item) -> set[str]:
    """The names of values of a row that a step makes: of a sweep its reductions."""
    if isinstance(item, Sweep):
        return {v.name for s in item.body if isinstance(s, Reduce) for v in s.values}
    if isinstance(item, Guard | Store):
        return set()
    return {v.name for v in (item.values if isinstance(item, Reduce | Island) else (item.value,))}
