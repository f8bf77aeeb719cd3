"""Running a KernelProgram: the meaning that every printer has to reproduce, in float64 or at 50 digits.

Since loops only say what shares a sweep, each statement is evaluated once, over all indices of the axes of its value. A
loop's guard joins the masks of the reductions over its axis and of the stores below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lossdsl.ir import arrays
from lossdsl.ir.arithmetic import Arithmetic, Array, arithmetic_of, call, is_real, scalar_array
from lossdsl.ir.root import bisect
from lossdsl.plan.kernel import (
    Buffer,
    Island,
    KernelProgram,
    Let,
    Load,
    Loop,
    Operand,
    Pick,
    Reduce,
    Scatter,
    Stmt,
    Store,
    Value,
)
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import InternalError


@dataclass(slots=True)
class _Run:
    program: KernelProgram
    registry: Registry
    arithmetic: Arithmetic
    sizes: dict[str, int]
    buffers: dict[str, Array]  # full rank, dimensions in the program's order of axes; as declared, for loads by index
    values: dict[str, Array] = field(default_factory=dict)
    axes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    guards: list[tuple[str, str]] = field(default_factory=list)  # (axis, value) of the open loops

    def dim(self, axis: str) -> int:
        return self.program.axes.index(axis)

    def dims(self, axes: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.dim(a) for a in axes)

    def extents(self) -> list[int]:
        return [self.sizes.get(a, 1) for a in self.program.axes]

    def operand(self, x: Operand) -> Array:
        if isinstance(x, str):
            return self.values[x]
        return scalar_array(self.arithmetic, x).reshape((1,) * len(self.program.axes))

    def define(self, v: Value, x: Array) -> None:
        shape = [self.sizes[a] if a in v.axes else 1 for a in self.program.axes]
        if v.dtype == "real" and not is_real(x):
            x = self.arithmetic.real(x)
        self.values[v.name] = np.broadcast_to(x, shape)
        self.axes[v.name] = v.axes

    def mask(self, where: Operand | None, axes: Sequence[str] | None) -> Array | None:
        """`where` and the guards of the open loops over `axes` (None: of all)."""
        masks = [] if where is None else [self.operand(where).astype(bool)]
        masks += [self.values[g].astype(bool) for a, g in self.guards if axes is None or a in axes]
        result = None
        for m in masks:
            result = m if result is None else result & m
        return result


def run(
    program: KernelProgram,
    registry: Registry,
    tensors: Mapping[str, Any],
    params: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    number: str = "float64",
) -> dict[str, Array]:
    """The out buffers by name, each with the dimensions its `Buffer.axes` says.

    `tensors` are arrays for the "in" buffers, `params` numbers for the "param" ones, `sizes` the extents of axes that
    no buffer has; a copy has the size of its base. With number="mpmath" reals are mpmath numbers of 110 digits in
    object arrays.
    InternalError for a shape that contradicts another.
    """
    given = {**tensors, **(params or {})}
    state = _Run(program, registry, arithmetic_of(number), dict(sizes or {}), {})
    for b in program.buffers:
        if b.role in ("in", "param"):
            state.buffers[b.name] = _tensor(state, b, given)
    for axis in program.axes:
        state.sizes.setdefault(axis, state.sizes.get(axis.rstrip("'"), 0))
    with np.errstate(all="ignore"):
        _block(state, program.body)
    return {b.name: state.buffers[b.name] for b in program.buffers if b.role == "out"}


def _tensor(state: _Run, b: Buffer, given: Mapping[str, Any]) -> Array:
    if b.name not in given:
        raise InternalError(f"{state.program.name} is run without {b.name}")
    x = np.asarray(given[b.name])
    if x.ndim != len(b.axes):
        raise InternalError(f"{b.name} has {x.ndim} dimensions, not [{', '.join(b.axes)}]")
    for axis, n in zip(b.axes, x.shape, strict=True):
        if state.sizes.setdefault(axis, n) != n:
            raise InternalError(f"{axis} is {state.sizes[axis]}, but {n} in {b.name}")
    if b.dtype == "real":
        return state.arithmetic.real(x)
    return x.astype(np.int64 if b.dtype == "int" else bool)


def _block(state: _Run, body: Sequence[Stmt]) -> None:
    for s in body:
        match s:
            case Loop():
                _block(state, s.head)
                if s.guard is not None:
                    state.guards.append((s.axis, s.guard))
                _block(state, s.body)
                if s.guard is not None:
                    state.guards.pop()
            case Let():
                state.define(s.value, _let(state, s))
            case Load():
                state.define(s.value, _load(state, s))
            case Reduce():
                _reduce(state, s)
            case Scatter():
                arg = state.operand(s.arg)
                mask = state.mask(None, s.axes)
                arg = arg if mask is None else np.where(mask, arg, 0)
                index = np.where(mask, state.values[s.index], 0) if mask is not None else state.values[s.index]
                result = arrays.scatter(arg, index, state.dim(s.axis), state.dims(s.axes), state.extents())
                state.define(s.value, result)
            case Pick():
                indices = {state.dim(a): _index(state, i) for a, i in zip(s.axes, s.index, strict=True)}
                mask = state.mask(None, None)
                if mask is not None:  # under a guard, nothing is read where that is false
                    sizes = state.values[s.source].shape
                    wild = {d: (i < 0) | (i >= sizes[d]) for d, i in indices.items()}
                    indices = {d: np.where(wild[d] & ~mask, 0, i) if wild[d].any() else i for d, i in indices.items()}
                state.define(s.value, arrays.pick(state.values[s.source], indices))
            case Island():
                _island(state, s)
            case Store():
                _store(state, s)


def _index(state: _Run, index: str) -> Array:
    """An entry of a load's or pick's index: a loop's axis or an int value."""
    if index in state.program.axes:
        shape = [-1 if a == index else 1 for a in state.program.axes]
        return np.arange(state.sizes[index]).reshape(shape)
    return state.values[index]


def _let(state: _Run, s: Let) -> Array:
    rank = len(state.program.axes)
    if s.op == "index":
        return _index(state, str(s.attrs[0]))
    if s.op == "size":
        return np.full((1,) * rank, state.sizes[str(s.attrs[0])], dtype=np.int64)
    return call(state.arithmetic, state.registry, s.op, [state.operand(a) for a in s.args])


def _load(state: _Run, s: Load) -> Array:
    """A load under a guard reads nothing where that is false, so an index may be wild there."""
    buffer = state.buffers[s.buffer]
    if not s.index:
        return buffer.reshape((1,) * len(state.program.axes))
    mask = state.mask(None, None)
    indices = []
    for d, i in enumerate(s.index):
        index = _index(state, i).astype(np.int64)
        outside = (index < 0) | (index >= buffer.shape[d])
        if mask is not None and outside.any():
            others = tuple(a for a, n in enumerate(index.shape) if n == 1)
            wanted = mask.any(others, keepdims=True)  # for some index of the axes that this one doesn't hang on
            index = np.where(outside & ~wanted, 0, index)
            outside = outside & wanted
        if outside.any():
            raise InternalError(f"{s.value.name} is loaded from {s.buffer} at an index outside it")
        indices.append(index)
    return np.asarray(buffer[tuple(indices)])


def _reduce(state: _Run, s: Reduce) -> None:
    dims, sizes = state.dims(s.axes), state.extents()
    mask = state.mask(s.where, s.axes)
    x = state.operand(s.args[0])
    results: tuple[Array, ...]
    if s.reduction == "logsumexp" and len(s.values) == 2:
        keep = np.ones((1,) * x.ndim, dtype=bool) if mask is None else mask
        shape = np.broadcast_shapes(x.shape, keep.shape)
        keep = arrays.extended(np.broadcast_to(keep, shape), dims, sizes)
        whole = arrays.extended(np.broadcast_to(x, shape), dims, sizes)
        results = arrays.logsumexp_parts(state.arithmetic, whole, dims, keep)
    else:
        results = arrays.reduce(state.arithmetic, state.registry, s.reduction, x, dims, mask, sizes)
    for v, r in zip(s.values, results, strict=True):
        state.define(v, r)


def _island(state: _Run, s: Island) -> None:
    args = [] if s.op == "root" else [state.operand(a) for a in s.args]
    sizes = state.extents()
    attrs = s.attrs
    match s.op:
        case "contract":
            axes = attrs[0] if isinstance(attrs[0], tuple) else ()
            results = (arrays.contract(state.arithmetic, args, state.dims(axes), sizes),)
        case "root":
            results = (_root(state, s),)
        case _:
            results = (arrays.island(state.arithmetic, s.op, attrs, args, state.program.axes, sizes),)
    for v, r in zip(s.values, results, strict=True):
        state.define(v, r)


def _root(state: _Run, s: Island) -> Array:
    low, high = (state.arithmetic.real(state.operand(a)) for a in s.args[:2])
    unknown = s.bound[0]

    def f(t: Array) -> Array:
        state.define(unknown, t)
        _block(state, s.body)
        return state.operand(s.args[2])

    shape = [state.sizes[a] if a in s.values[0].axes else 1 for a in state.program.axes]
    return bisect(state.arithmetic, f, np.broadcast_to(low, shape), np.broadcast_to(high, shape))


def _store(state: _Run, s: Store) -> None:
    value = state.operand(s.value)
    mask = state.mask(s.where, None)
    if mask is not None:
        otherwise = state.operand(s.otherwise)
        real = is_real(value) or is_real(otherwise)
        value, otherwise = (state.arithmetic.real(v) if real else v for v in (value, otherwise))
        value = np.where(mask, value, otherwise)
    buffer = next(b for b in state.program.buffers if b.name == s.buffer)
    shape = [state.sizes[a] if a in s.index else 1 for a in state.program.axes]
    full = np.broadcast_to(value, shape)
    ordered = sorted(s.index, key=state.dim)
    squeezed = full.reshape([state.sizes[a] for a in ordered])
    result = np.transpose(squeezed, [ordered.index(a) for a in s.index])
    if buffer.dtype == "real":
        result = state.arithmetic.real(result)
    state.buffers[s.buffer] = np.array(result)
