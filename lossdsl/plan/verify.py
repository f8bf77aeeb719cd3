"""Whether a KernelProgram is legal: what printers may rely on without looking.

Values are defined once, visible where `plan/kernel.py` says, and have the axes and dtypes that their statement gives
them. Every out buffer is stored by exactly one statement, over all of its axes. Islands, picks and scatters work along
axes that no enclosing loop binds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lossdsl.check.types import base_axis
from lossdsl.ir.graph import is_whole
from lossdsl.plan.islands import ISLANDS, consumed, island_axes
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

INTERNAL_REDUCTIONS = {"logsumexp": 2, "ties": 2}


@dataclass(slots=True)
class _Scope:
    """One open loop (or the outside): its axis, what it has defined, what becomes visible when it ends."""

    axis: str | None
    values: dict[str, Value] = field(default_factory=dict)
    later: list[Value] = field(default_factory=list)
    stores: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _State:
    program: KernelProgram
    registry: Registry
    buffers: dict[str, Buffer]
    scopes: list[_Scope]
    names: set[str] = field(default_factory=set)
    stored: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)  # index, open loops

    @property
    def bound(self) -> list[str]:
        return [s.axis for s in self.scopes if s.axis is not None]

    def fail(self, what: str) -> InternalError:
        return InternalError(f"kernel program {self.program.name}: {what}")


def verify(program: KernelProgram, registry: Registry) -> None:
    """Returns for a legal program; InternalError with what is wrong otherwise."""
    buffers = {b.name: b for b in program.buffers}
    state = _State(program, registry, buffers, [_Scope(None)])
    if len(buffers) != len(program.buffers):
        raise state.fail("two buffers have one name")
    for b in program.buffers:
        _known_axes(state, b.axes, b.name)
    _block(state, program.body)
    missing = [b.name for b in program.buffers if b.role == "out" and b.name not in state.stored]
    if missing:
        raise state.fail(f"nothing is stored to {', '.join(missing)}")


def _known_axes(state: _State, axes: Sequence[str], name: str) -> None:
    unknown = [a for a in axes if a not in state.program.axes]
    if unknown or len(set(axes)) != len(axes):
        raise state.fail(f"{name} has the axes {', '.join(axes)}")


def _block(state: _State, body: Sequence[Stmt]) -> None:
    for s in body:
        match s:
            case Loop():
                _loop(state, s)
            case Store():
                _store(state, s)
            case Island():
                _island(state, s)
            case Let():
                _let(state, s)
            case Load():
                _load(state, s)
            case Reduce():
                _reduce(state, s)
            case Scatter():
                _scatter(state, s)
            case Pick():
                _pick(state, s)


def _loop(state: _State, s: Loop) -> None:
    if s.axis in state.bound:
        raise state.fail(f"the loop over {s.axis} stands in another over {s.axis}")
    _known_axes(state, (s.axis,), "a loop")
    if s.head and s.guard is None:
        raise state.fail(f"the loop over {s.axis} has a head but no guard")
    scope = _Scope(s.axis)
    state.scopes.append(scope)
    _block(state, s.head)
    if any(isinstance(h, Store | Loop) for h in s.head):
        raise state.fail(f"the head of the loop over {s.axis} stores or loops")
    if s.guard is not None and _operand(state, s.guard).dtype != "bool":
        raise state.fail(f"the guard {s.guard} is not a bool")
    _block(state, s.body)
    state.scopes.pop()
    for v in scope.later:
        _publish(state, v, [])


def _operand(state: _State, x: Operand) -> Value:
    """The value of an operand that is visible here; a constant has no axes."""
    if not isinstance(x, str):
        dtype = "bool" if isinstance(x, bool) else "int" if is_whole(x) else "real"
        return Value("", (), dtype)  # type: ignore[arg-type]
    for scope in reversed(state.scopes):
        if x in scope.values:
            return scope.values[x]
    known = "is not visible here" if x in state.names else "is not defined"
    raise state.fail(f"{x} {known}")


def _axes(state: _State, *values: Value, less: Sequence[str] = (), plus: Sequence[str] = ()) -> tuple[str, ...]:
    have = {a for v in values for a in v.axes} - set(less) | set(plus)
    return tuple(a for a in state.program.axes if a in have)


def _define(state: _State, v: Value, axes: tuple[str, ...], over: Sequence[str] = ()) -> None:
    """Adds a value; one reduced over axes of open loops appears after the outermost of these has ended."""
    if not v.name.isidentifier():
        raise state.fail(f"{v.name} is not an identifier")
    if v.name in state.names:
        raise state.fail(f"{v.name} is defined twice")
    state.names.add(v.name)
    if v.axes != axes:
        raise state.fail(f"{v.name} is declared with [{', '.join(v.axes)}] but varies along [{', '.join(axes)}]")
    _publish(state, v, over)


def _publish(state: _State, v: Value, over: Sequence[str]) -> None:
    for scope in state.scopes:
        if scope.axis is not None and scope.axis in over:
            scope.later.append(v)
            return
    state.scopes[-1].values[v.name] = v


def _let(state: _State, s: Let) -> None:
    args = [_operand(state, a) for a in s.args]
    if s.op in ("index", "size"):
        axis = s.attrs[0] if len(s.attrs) == 1 else None
        if not isinstance(axis, str) or axis not in state.program.axes or args:
            raise state.fail(f"{s.value.name} = {s.op} wants one axis")
        _dtype(state, s.value, "int")
        _define(state, s.value, (axis,) if s.op == "index" else ())
        return
    record = state.registry.primitives.get(s.op)
    if record is None or s.attrs:
        raise state.fail(f"{s.value.name}: no primitive is called {s.op}")
    if record.arity != len(args):
        raise state.fail(f"{s.value.name}: {s.op} takes {record.arity} arguments")
    if record.kind in ("real", "bool", "int"):
        _dtype(state, s.value, record.kind)
    _define(state, s.value, _axes(state, *args))


def _dtype(state: _State, v: Value, dtype: str) -> None:
    if v.dtype != dtype:
        raise state.fail(f"{v.name} is declared {v.dtype} but is {dtype}")


def _load(state: _State, s: Load) -> None:
    buffer = state.buffers.get(s.buffer)
    if buffer is None:
        raise state.fail(f"no buffer is called {s.buffer}")
    if len(s.index) != len(buffer.axes):
        raise state.fail(f"{s.buffer} has {len(buffer.axes)} axes, the load gives {len(s.index)}")
    axes = set()
    for axis, index in zip(buffer.axes, s.index, strict=True):
        if index in state.program.axes:
            if base_axis(index) != base_axis(axis):
                raise state.fail(f"{s.buffer} is loaded at {index} where it has {axis}")
            axes.add(index)
        else:
            value = _operand(state, index)
            _dtype(state, value, "int")
            axes |= set(value.axes)
    if buffer.role in ("out", "scratch"):
        _stored_before(state, buffer, s)
    _dtype(state, s.value, buffer.dtype)
    _define(state, s.value, tuple(a for a in state.program.axes if a in axes))


def _stored_before(state: _State, buffer: Buffer, s: Load) -> None:
    """What is loaded must have been stored: in a loop that has ended, or in this turn of the open ones."""
    if buffer.name not in state.stored:
        raise state.fail(f"{buffer.name} is loaded before it is stored")
    stored, loops = state.stored[buffer.name]
    shared = [a for a, b in zip(loops, state.bound, strict=False) if a == b]
    still_open = [a for a in shared if any(scope.axis == a and buffer.name in scope.stores for scope in state.scopes)]
    for a in still_open:
        if s.index[stored.index(a)] != a:
            raise state.fail(f"{buffer.name} is loaded at another {a} than this turn of the loop has stored")


def _reduce(state: _State, s: Reduce) -> None:
    if s.reduction not in state.registry.reductions and s.reduction not in INTERNAL_REDUCTIONS:
        raise state.fail(f"no reduction is called {s.reduction}")
    if len(s.values) != INTERNAL_REDUCTIONS.get(s.reduction, 1) or len(s.args) != 1 or not s.axes:
        raise state.fail(f"{s.values[0].name}: {s.reduction} has another number of results, arguments or axes")
    args = [_operand(state, a) for a in (*s.args, *(() if s.where is None else (s.where,)))]
    _known_axes(state, s.axes, "a reduction")
    if s.where is not None:
        _dtype(state, args[-1], "bool")
    for v in s.values:
        _define(state, v, _axes(state, *args, less=s.axes), s.axes)


def _scatter(state: _State, s: Scatter) -> None:
    args = [_operand(state, s.arg), _operand(state, s.index)]
    _dtype(state, args[1], "int")
    _known_axes(state, (s.axis, *(a for a in s.axes if a != s.axis)), "a scatter")
    _free(state, (s.axis,), s.value.name)
    _define(state, s.value, _axes(state, *args, less=s.axes, plus=(s.axis,)), s.axes)


def _free(state: _State, axes: Sequence[str], name: str) -> None:
    clash = [a for a in axes if a in state.bound]
    if clash:
        raise state.fail(f"{name} works along {', '.join(clash)}, which a loop binds")


def _pick(state: _State, s: Pick) -> None:
    source = _operand(state, s.source)
    axes = set(source.axes) - set(s.axes)
    if not set(s.axes) <= set(source.axes):
        raise state.fail(f"{s.value.name} picks along an axis that {s.source} lacks")
    for index in s.index:
        if index in state.program.axes:
            axes.add(index)
        else:
            value = _operand(state, index)
            _dtype(state, value, "int")
            axes |= set(value.axes)
    _free(state, s.axes, s.value.name)
    _dtype(state, s.value, source.dtype)
    _define(state, s.value, tuple(a for a in state.program.axes if a in axes))


def _store(state: _State, s: Store) -> None:
    buffer = state.buffers.get(s.buffer)
    if buffer is None or buffer.role not in ("out", "scratch"):
        raise state.fail(f"{s.buffer} is not an out or scratch buffer")
    if s.buffer in state.stored:
        raise state.fail(f"{s.buffer} is stored twice")
    if [base_axis(a) for a in s.index] != [base_axis(a) for a in buffer.axes] or len(set(s.index)) != len(s.index):
        raise state.fail(f"{s.buffer} is stored at [{', '.join(s.index)}]")
    values = [_operand(state, s.value)] + ([] if s.where is None else [_operand(state, s.where)])
    outside = {a for v in values for a in v.axes} - set(s.index) | set(state.bound) - set(s.index)
    if outside:
        raise state.fail(f"{s.buffer} would be stored anew for every {', '.join(sorted(outside))}")
    state.stored[s.buffer] = (s.index, tuple(state.bound))
    for scope in state.scopes[1:]:  # so that a load can tell which of the store's loops are still open
        scope.stores.add(s.buffer)


def _island(state: _State, s: Island) -> None:
    if s.op not in ISLANDS:
        raise state.fail(f"no island is called {s.op}")
    args = [_operand(state, a) for a in (s.args[:2] if s.op == "root" else s.args)]
    if s.op == "root":
        args.append(_root_body(state, s))
    for v in s.values:
        axes = island_axes(s, [set(a.axes) for a in args])
        _define(state, v, tuple(a for a in state.program.axes if a in axes))
    _free(state, consumed(s), s.values[0].name)


def _root_body(state: _State, s: Island) -> Value:
    """Checks the statements of f, in a scope of their own; the value that the third argument names."""
    if len(s.args) != 3 or len(s.bound) != 1:
        raise state.fail(f"{s.values[0].name}: a root has lo, hi, f and one unknown")
    state.scopes.append(_Scope(None))
    state.scopes[-1].values[s.bound[0].name] = s.bound[0]
    state.names.add(s.bound[0].name)
    _block(state, s.body)
    f = _operand(state, s.args[2])
    state.scopes.pop()
    return f
