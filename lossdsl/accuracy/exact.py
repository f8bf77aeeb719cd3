"""The exact numbers: the equation as it is written, at 110 digits, and its gradient by a pass without rewriting.

No rule of `ir/rules` has touched these graphs, so that a wrong one shows as a wrong result. The gradient in turn is
compared with differences of the written value by `differences`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lossdsl.accuracy.rows import Case, logit_leaves
from lossdsl.accuracy.terms import spread, terms
from lossdsl.check.typed import CheckedLoss
from lossdsl.check.types import base_axis
from lossdsl.derive.centring import centred
from lossdsl.derive.derive import derive
from lossdsl.derive.others import by_the_others
from lossdsl.ir.builder import bound_axes
from lossdsl.ir.graph import Graph, reachable
from lossdsl.ir.interpret import Trace, evaluate, trace
from lossdsl.ir.lower import lower
from lossdsl.registry import Registry

Array = Any
STEP = "1e-40"
SMALLEST = 1.1754944e-38
LARGEST = 3.4028235e38
ULP = 2.0**-23
_HALVES, _NEARBY, _INPUT_ULPS, _ROUNDED = 8, 12, 8 * ULP, 12
_FLOAT64 = 1e-10  # relative: float64 has not lost what single precision can't show
_MANY = 1000  # classes, of which 110 digits each take too long


@dataclass(frozen=True, slots=True)
class Written:
    """A loss with its gradient as it is written, and as the rules made it."""

    checked: CheckedLoss
    registry: Registry
    plain: Graph
    rewritten: Graph
    inputs: tuple[str, ...]  # the real inputs that have a gradient, in their order
    logits: frozenset[str]
    rowwise: bool  # whether a row hangs on its own sample alone


@dataclass(frozen=True, slots=True)
class Exact:
    """The numbers of one case; `spread` and the loose one have the axes of `rows`, the others those of their output.

    `values` hold "rows" and "grad.X" at 110 digits; `sizes` their Σ|terms| as floats. `from_rules` names outputs that
    the written equation gives as NaN (a limit), so that the rewritten one's are taken; so are gradients of rows whose
    value is infinite: a limit, too; and finite numbers of which 110 digits make infinities as they are written.
    `beyond`: some number between inputs and results is too large or too small for float32.
    """

    values: dict[str, Array]
    sizes: dict[str, Array]
    spread: Array
    loose: Array
    from_rules: frozenset[str]
    beyond: bool

    def error(self, name: str, place: tuple[int, ...], found: float) -> float:
        """How far a number that was found is from the exact one."""
        return float(abs(self.values[name][place] - found))


def written(checked: CheckedLoss, registry: Registry) -> Written:
    """NotDifferentiableError where the loss has no gradient."""
    plain = derive(lower(checked, registry, rewriting=False), registry, rewriting=False).graph
    graph = by_the_others(centred(lower(checked, registry), checked, registry), registry)
    rewritten = derive(graph, registry).graph
    inputs = tuple(leaf.name for leaf in plain.leaves if leaf.differentiable and leaf.role == "input")
    batch = {axis.name for axis in checked.axes if axis.batch}
    nodes = (plain.nodes[n] for n in reachable(plain.nodes, [plain.output("rows")]))
    bound = frozenset[str]().union(*(bound_axes(node) for node in nodes))
    rowwise = bool(plain.batch) and not batch & {base_axis(a) for a in bound}
    return Written(checked, registry, plain, rewritten, inputs, logit_leaves(plain), rowwise)


def exact(loss: Written, case: Case, number: str = "mpmath") -> Exact:
    """Value and gradient of one case, for an upstream of 1 at every row."""
    names = _names(loss)
    first, again = (_numbers(loss, graph, names, case, number) for graph in (loss.plain, loss.rewritten))
    values, sizes, from_rules = dict(first.values), dict(first.sizes), set()
    infinite = np.asarray(abs(values["rows"]) == np.inf, dtype=float)
    for name, value in again.values.items():
        missing = np.asarray(values[name] != values[name], dtype=bool)
        if again.beyond:  # 1 - p is 0 at 110 digits where p's rest is e^-1000, and its logarithm no infinity
            missing |= np.asarray((abs(values[name]) == np.inf) & (abs(value) < np.inf), dtype=bool)
        if name != "rows":
            missing |= along(loss, name, infinite, missing.shape) > 0
        unsaid = np.asarray(values[name] != values[name], dtype=bool)
        if unsaid.any() and not np.asarray(value[unsaid] != value[unsaid], dtype=bool).all():
            from_rules.add(name)
        values[name] = np.where(missing, value, values[name])
        unknown = missing | ~np.isfinite(sizes[name])
        sizes[name] = np.where(unknown, again.sizes[name], np.fmin(sizes[name], again.sizes[name]))
    near, loose = np.fmin(first.spread, again.spread), np.fmin(first.loose, again.loose)
    return Exact(values, sizes, near, loose, frozenset(from_rules), again.beyond)


def _numbers(loss: Written, graph: Graph, names: Sequence[str], case: Case, number: str) -> Exact:
    found = trace(graph, loss.registry, leaves_of(graph, case), names, number, extents_of(graph, case))
    size = terms(graph, found.values, found.sizes)
    over = [graph.axes.index(a) for a in graph.batch]
    inner = set(reachable(graph.nodes, [graph.output("rows")]))
    of_value = {n: x for n, x in found.values.items() if n in inner}
    near, loose = (
        _by_row(spread(graph, of_value, size, rounded), over, found.sizes, loss.rowwise) for rounded in (False, True)
    )
    values = {name: found.output(name) for name in names}
    sizes = {name: found.laid(name, size[graph.output(name)]).astype(np.float64) for name in names}
    return Exact(values, sizes, near, loose, frozenset(), _beyond(graph, found))


def _beyond(graph: Graph, found: Trace) -> bool:
    """Whether some computed number is finite, but not in float32, or is not 0, but in float32 not normal."""
    for n, x in found.values.items():
        if graph.nodes[n].type.kind != "real" or graph.nodes[n].op in ("const", "leaf"):
            continue
        sizes = [abs(v) for v in x.flat]
        if any(LARGEST < v < np.inf or 0 < v < SMALLEST for v in sizes):
            return True
    return False


def along(loss: Written, name: str, x: Array, shape: tuple[int, ...]) -> Array:
    """A number a row, laid along the entries of a gradient that belong to the row; all rows' largest for the others."""
    if name == "rows":
        return np.broadcast_to(x, shape)
    leaf = next(leaf for leaf in loss.plain.leaves if leaf.name == name.removeprefix("grad."))
    batch = loss.plain.batch
    if not loss.rowwise or not set(batch) <= set(leaf.axes):
        return np.full(shape, x.max(initial=0.0))
    moved = np.transpose(x, [batch.index(a) for a in leaf.axes if a in batch])
    full = [n if a in batch else 1 for a, n in zip(leaf.axes, shape, strict=True)]
    return np.broadcast_to(moved.reshape(full), shape)


@dataclass(slots=True)
class Moved:
    """What the equation gives for other inputs than the case's, a dict an attempt: the written one at 110 digits, and
    the rewritten one in float64, which is quicker by far."""

    loss: Written
    case: Case
    leaves: list[dict[str, Array]]
    digits: list[dict[str, Array]] = field(default_factory=list)
    floats: list[dict[str, Array]] = field(default_factory=list)  # of the case itself, then of the leaves

    def around(self, name: str, place: tuple[int, ...], exact: float) -> list[float]:
        """What one entry becomes. Float64 says so wherever its number of the case itself is the exact one."""
        if max(self.case.sizes.values()) <= _MANY:
            if not self.floats:
                own = leaves_of(self.loss.rewritten, self.case)
                self.floats = [self._at(self.loss.rewritten, leaves, "float64") for leaves in (own, *self.leaves)]
            here, *there = (float(x[name][place]) if x else np.nan for x in self.floats)
            if abs(here - exact) <= _FLOAT64 * abs(exact):
                return [y for y in there if y == y]
        if not self.digits:
            number = "float64" if max(self.case.sizes.values()) > _MANY else "mpmath"
            self.digits = [self._at(self.loss.plain, leaves, number) for leaves in self.leaves]
        return [y for y in (float(x[name][place]) for x in self.digits if x) if y == y]

    def _at(self, graph: Graph, leaves: Mapping[str, Array], number: str) -> dict[str, Array]:
        with suppress(ZeroDivisionError, np.linalg.LinAlgError), np.errstate(all="ignore"):  # a singular matrix
            sizes = extents_of(graph, self.case)
            return evaluate(graph, self.loss.registry, leaves, _names(self.loss), number, sizes)
        return {}


def halfway(loss: Written, case: Case) -> Moved:
    """Half a last place of each input away: where its float32 numbers may have come from. No arithmetic in float32 can
    tell these apart."""
    rng = np.random.default_rng(1)
    half = lambda x: np.spacing(np.abs(x).astype(np.float32)) / 2  # noqa: E731
    return Moved(loss, case, [_beside(loss, case, half, rng) for _ in range(_HALVES)])


def few(loss: Written, case: Case) -> Moved:
    """Two last places of each input away: what arithmetic gives whose error is as if the inputs had been that little
    different, a small backward error."""
    rng = np.random.default_rng(2)
    two = lambda x: 2 * np.spacing(np.abs(x).astype(np.float32))  # noqa: E731
    return Moved(loss, case, [_beside(loss, case, two, rng) for _ in range(_HALVES)])


def _beside(loss: Written, case: Case, step: Callable[[Array], Array], rng: np.random.Generator) -> dict[str, Array]:
    """The leaves where each real input is moved by a step of its size, up or down by chance. So is the upstream of a
    map, a tensor of its own; that of a loss is one number for all."""
    leaves = leaves_of(loss.plain, case)
    for leaf in loss.plain.leaves:
        of_a_map = leaf.name == "@rows" and loss.checked.reduction is None
        if of_a_map or (leaf.role == "input" and leaf.type.kind == "real"):
            x = np.asarray(leaves[leaf.name])
            known = np.where(np.isfinite(x), x, 0)
            moved = known + step(known).astype(np.float64) * rng.choice([-1.0, 1.0], np.shape(x))
            interval = leaf.type.interval
            leaves[leaf.name] = np.where(np.isfinite(x), np.clip(moved, interval.low, interval.high), x)
    return leaves


def nearby(loss: Written, case: Case) -> Moved:
    """Inputs that differ from the case's by some last places: of their own, of the largest along their last axis (a
    vector's entries matter by its length), or of 1."""
    rng = np.random.default_rng(0)

    def largest(x: Array) -> Array:
        size = np.abs(x)
        return np.broadcast_to(size.max(axis=-1, keepdims=True, initial=0) if size.ndim else size, size.shape)

    def one(x: Array) -> Array:
        return np.maximum(np.abs(x), 1.0)

    steps = [lambda x: _INPUT_ULPS * np.abs(x), lambda x: _INPUT_ULPS * largest(x), lambda x: _INPUT_ULPS * one(x)]
    return Moved(loss, case, [_beside(loss, case, steps[k % 3], rng) for k in range(_NEARBY)])


def step_errors(loss: Written, case: Case) -> dict[str, Array]:
    """How far the outputs move where every step of the rewritten equation is rounded at random by up to two last places
    (Parker's Monte Carlo arithmetic, 1997)."""
    graph, names = loss.rewritten, _names(loss)
    leaves, sizes = leaves_of(graph, case), extents_of(graph, case)
    base: dict[str, Array] = {}
    moved = {name: np.zeros(()) for name in names}
    for k in range(_ROUNDED + 1):
        rng = np.random.default_rng(k)
        rounding = lambda x, rng=rng: x * (1 + rng.uniform(-1, 1, np.shape(x)) * 2 * ULP)  # noqa: E731
        with suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):  # a matrix that is singular in float64
            found = evaluate(graph, loss.registry, leaves, names, "float64", sizes, rounding if k else None)
            base = base or found
            moved = {name: np.fmax(moved[name], np.abs(found[name] - base[name])) for name in names}
    return {name: np.broadcast_to(x, np.shape(base.get(name, x))) for name, x in moved.items()}


def _names(loss: Written) -> list[str]:
    return ["rows", *(f"grad.{name}" for name in loss.inputs)]


def leaves_of(graph: Graph, case: Case) -> dict[str, Array]:
    """The case's leaves with the seeds: 1 for every row, none for weights."""
    leaves = dict(case.leaves)
    for leaf in graph.leaves:
        if leaf.role == "seed":
            shape = tuple(case.sizes[base_axis(a)] for a in leaf.axes)
            leaves[leaf.name] = np.full(shape, 1.0 if leaf.name == "@rows" else 0.0)
    return leaves


def extents_of(graph: Graph, case: Case) -> dict[str, int]:
    """The extent of every axis of the graph that the case knows."""
    return {a: case.sizes[base_axis(a)] for a in graph.axes if base_axis(a) in case.sizes}


def _by_row(reach: Mapping[int, Array], over: Sequence[int], sizes: Sequence[int], rowwise: bool) -> Array:
    """The largest reach of any exponential in each row; of all rows together where they hang on each other."""
    total = np.zeros([sizes[d] if d in over else 1 for d in range(len(sizes))])
    for x in reach.values():
        dims = tuple(d for d in range(x.ndim) if d not in over)
        total = np.fmax(total, x.max(axis=dims, keepdims=True) if rowwise else x.max(initial=0))
    return total.reshape([sizes[d] for d in over])


def differences(loss: Written, case: Case, name: str, direction: Array) -> Any:
    """The derivative of the sum of all rows along a direction of one input, by differences of the written value."""
    import mpmath

    with mpmath.workdps(110):
        step = mpmath.mpf(STEP)
        graph, ends = loss.plain, []
        places = list(zip(np.ravel(case.leaves[name]), np.ravel(direction), strict=True))
        for sign in (1, -1):
            moved = [mpmath.mpf(float(x)) + sign * step * mpmath.mpf(float(v)) for x, v in places]
            leaves = leaves_of(graph, case)
            leaves[name] = np.array(moved, dtype=object).reshape(np.shape(case.leaves[name]))
            rows = evaluate(graph, loss.registry, leaves, ["rows"], "mpmath", extents_of(graph, case))["rows"]
            ends.append(rows.sum())
        return (ends[0] - ends[1]) / (2 * step)
