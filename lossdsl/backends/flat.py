"""KernelProgram → the list of distinct whole-array operations, loops forgotten.

A program may compute a value again in every sweep; torch computes whole arrays, so equal statements become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from lossdsl.backends.api import (
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
from lossdsl.ir.graph import Attr, Scalar
from lossdsl.source.diagnostic import InternalError
from lossdsl.source.text import Span


@dataclass(frozen=True, slots=True)
class Ref:
    """Result `result` of operation `op`."""

    op: int
    result: int = 0


Argument = Ref | Scalar


@dataclass(frozen=True, slots=True)
class Op:
    """One whole-array operation.

    `what` is "let", "load", "reduce", "scatter", "pick", "island", "root" or "var"; `name` the primitive, reduction,
    buffer or island. Loads and picks have their places in `attrs`: for each dimension of the buffer (each picked
    axis) an axis, or "" for the next of `args` (after the source of a pick). The last of a reduction's `args` is its
    mask if `masked`.
    """

    what: str
    name: str
    args: tuple[Argument, ...]
    attrs: tuple[Attr, ...]
    values: tuple[Value, ...]
    origin: Span | None
    masked: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    buffer: Buffer
    index: tuple[str, ...]
    value: Argument
    where: Argument | None
    otherwise: Scalar
    origin: Span | None


@dataclass(frozen=True, slots=True)
class Flat:
    """A program without loops; refs count `ops` from 0."""

    program: KernelProgram
    ops: tuple[Op, ...]
    stores: tuple[Stored, ...]


def flatten(program: KernelProgram) -> Flat:
    """The distinct operations of a program in the order of first use."""
    walk = _Walk(program)
    walk.block(program.body)
    return Flat(program, tuple(walk.ops), tuple(walk.stores))


class _Walk:
    def __init__(self, program: KernelProgram) -> None:
        self.program = program
        self.buffers = {b.name: b for b in program.buffers}
        self.ops: list[Op] = []
        self.stores: list[Stored] = []
        self.refs: dict[str, Ref] = {}
        self.known: dict[tuple[object, ...], int] = {}
        self.guards: list[tuple[str, Ref]] = []  # of the open loops: their axis and guard

    def block(self, body: Sequence[Stmt]) -> None:
        for s in body:
            match s:
                case Loop():
                    self.block(s.head)
                    if s.guard is not None:
                        self.guards.append((s.axis, self.refs[s.guard]))
                    self.block(s.body)
                    if s.guard is not None:
                        self.guards.pop()
                case Let():
                    args = [self.argument(a) for a in s.args]
                    self.add("let", s.op, args, s.attrs, (s.value,), s.origin)
                case Load():
                    self._load(s)
                case Reduce():
                    self._reduce(s)
                case Scatter():
                    args = [self.argument(s.arg), self._safe(self.refs[s.index])]
                    guard = self.conditions(s.axes, None)
                    if isinstance(guard, Ref):
                        held = Value("put", (), "real")
                        args[0] = self.made("select", [guard, args[0], Fraction(0)], held, s.origin)
                    self.add("scatter", "scatter", args, (s.axis, s.axes), (s.value,), s.origin)
                case Pick():
                    places, args = self._places(s.index)
                    attrs = (s.axes, tuple(places))
                    self.add("pick", "pick", [self.refs[s.source], *args], attrs, (s.value,), s.origin)
                case Island():
                    self._island(s)
                case Store():
                    where = self.conditions(None, s.where)
                    self.stores.append(
                        Stored(self.buffers[s.buffer], s.index, self.argument(s.value), where, s.otherwise, s.origin)
                    )

    def argument(self, x: Operand) -> Argument:
        return self.refs[x] if isinstance(x, str) else x

    def add(
        self,
        what: str,
        name: str,
        args: Sequence[Argument],
        attrs: tuple[Attr | tuple[str, ...], ...],
        values: tuple[Value, ...],
        origin: Span | None,
        masked: bool = False,
    ) -> None:
        kinds = tuple(type(a) for a in (*args, *attrs))  # True and 1 are one dictionary key
        key = (what, name, tuple(args), attrs, kinds, masked, tuple(v.axes for v in values))
        found = self.known.get(key)
        if found is None:
            self.known[key] = found = len(self.ops)
            self.ops.append(Op(what, name, tuple(args), attrs, values, origin, masked))
        for i, v in enumerate(values):
            self.refs[v.name] = Ref(found, i)

    def made(self, op: str, args: Sequence[Argument], value: Value, origin: Span | None) -> Ref:
        """A pointwise operation that the program has not, of the axes of its operands."""
        axes = {a for r in args if isinstance(r, Ref) for a in self.ops[r.op].values[r.result].axes}
        value = replace(value, axes=tuple(a for a in self.program.axes if a in axes))
        held = dict(self.refs)
        self.add("let", op, args, (), (value,), origin)
        ref = self.refs[value.name]
        self.refs = held
        return ref

    def _places(self, index: Sequence[str]) -> tuple[list[str], list[Argument]]:
        places: list[str] = []
        args: list[Argument] = []
        for i in index:
            if i in self.program.axes:
                places.append(i)
            else:
                places.append("")
                args.append(self._safe(self.refs[i]))
        return places, args

    def _safe(self, index: Ref) -> Ref:
        """An index under guards: where these are false it may be wild, and whole arrays are read there too."""
        axes = set(self.ops[index.op].values[index.result].axes)
        kept = self.guards
        self.guards = [(a, g) for a, g in kept if set(self.ops[g.op].values[g.result].axes) <= axes]
        guard = self.conditions(None, None)
        self.guards = kept
        if not isinstance(guard, Ref):
            return index
        value = self.ops[index.op].values[index.result]
        return self.made("select", [guard, index, Fraction(0)], value, self.ops[index.op].origin)

    def _load(self, s: Load) -> None:
        buffer = self.buffers[s.buffer]
        places, args = self._places(s.index)
        if buffer.role in ("out", "scratch"):
            stored = next((w for w in self.stores if w.buffer is buffer), None)
            if stored is None:
                raise InternalError(f"{s.buffer} is loaded before it is stored")
            self._reload(s, stored, places, args)
            return
        self.add("load", s.buffer, args, (tuple(places),), (s.value,), s.origin)

    def _reload(self, s: Load, stored: Stored, places: Sequence[str], args: Sequence[Argument]) -> None:
        """What was stored, read again: the value itself, at other places if need be."""
        value = stored.value
        if stored.where is not None or not isinstance(value, Ref):
            where = True if stored.where is None else stored.where
            held = Value(s.value.name, (), stored.buffer.dtype)
            value = self.made("select", [where, value, stored.otherwise], held, s.origin)
        if stored.index == tuple(places):
            self.refs[s.value.name] = value
        else:
            attrs: tuple[Attr, ...] = (stored.index, tuple(places))
            self.add("pick", "pick", [value, *args], attrs, (s.value,), s.origin)

    def conditions(self, axes: Sequence[str] | None, where: Operand | None) -> Argument | None:
        """A mask together with the guards of the loops over `axes` (all of them for None)."""
        found = None if where is None else self.argument(where)
        for axis, guard in self.guards:
            if axes is None or axis in axes:
                found = guard if found is None else self._both(guard, found)
        return found

    def _both(self, x: Ref, y: Argument) -> Argument:
        if not isinstance(y, Ref):
            return x if y else y
        return self.made("and", [x, y], Value("both", (), "bool"), None)

    def _reduce(self, s: Reduce) -> None:
        args = [self.argument(a) for a in s.args]
        where = self.conditions(s.axes, s.where)
        masked = where is not None and where is not True
        if where is not None and masked:
            args.append(where)
        self.add("reduce", s.reduction, args, (s.axes,), s.values, s.origin, masked)

    def _island(self, s: Island) -> None:
        if not s.body:
            self.add("island", s.op, [self.argument(a) for a in s.args], s.attrs, s.values, s.origin)
            return
        args = [self.argument(a) for a in s.args[:2]]
        start, known = len(self.ops), dict(self.known)
        for v in s.bound:
            self.refs[v.name] = Ref(len(self.ops))
            self.ops.append(Op("var", "var", (), (), (v,), None))
        self.block(s.body)
        args.append(self.argument(s.args[2]))
        self.known = known  # what stands in a root's function is not seen outside
        self.add("root", "root", args, (start, len(self.ops)), s.values, s.origin)
