"""What the printers share: the lines so far, what is bound and named, and where things lie in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from lossdsl.backends.api import Buffer, KernelProgram, Loop, NotSupportedError, Operand, Pick, Stmt
from lossdsl_cpu.cxx import TYPES, Names, Term, identifier, operand


@dataclass(frozen=True, slots=True)
class Array:
    """A value kept in memory over axes that no loop binds."""

    text: str
    axes: tuple[str, ...]
    dtype: str


@dataclass(slots=True)
class Nest:
    """The state of printing one program: lines so far, what is bound and named."""

    program: KernelProgram
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    names: dict[str, Term] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    bound: list[str] = field(default_factory=list)
    states: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)  # first result -> state, free axes
    rows: Callable[[Nest, Loop], bool] = lambda nest, loop: False  # prints an outermost loop in a quicker layout

    def say(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    def open(self, line: str) -> None:
        self.say(line + " {")
        self.depth += 1

    def begin(self) -> None:
        self.say("{")
        self.depth += 1

    def close(self) -> None:
        self.depth -= 1
        self.say("}")

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.program.buffers if b.name == name)

    def term(self, x: Operand, dtype: str = "number") -> Term:
        """An operand here; an array's entry by the indices of the loops around."""
        if isinstance(x, str) and x in self.arrays:
            a = self.arrays[x]
            return Term(f"{a.text}[{flat(a.axes)}]", a.dtype)
        return operand(x, self.names, dtype)

    def terms(self, args: Sequence[Operand]) -> dict[str, Term]:
        return {a: self.term(a) for a in args if isinstance(a, str)}


def extent(axis: str) -> str:
    """The field of `Call` with an axis' size."""
    return f"n_{identifier(axis)}"


def padded(axis: str) -> str:
    """The least multiple of a strip that holds an axis."""
    return f"padded(k.{extent(axis)})"


def at(axis: str) -> str:
    """The variable of an axis' loop."""
    return f"i_{identifier(axis)}"


def flat(axes: Sequence[str], index: dict[str, str] | None = None) -> str:
    """The place in a contiguous array over axes."""
    text = ""
    for axis in axes:
        here = (index or {}).get(axis, at(axis))
        text = (
            f"({text}) * k.{extent(axis)} + {here}"
            if "+" in text
            else f"{text} * k.{extent(axis)} + {here}"
            if text
            else here
        )
    return text or "0"


def count(axes: Sequence[str]) -> str:
    return " * ".join(f"k.{extent(a)}" for a in axes) or "1"


def room(axes: Sequence[str], *more: str) -> str:
    """How many elements memory over axes has, for an arena to find."""
    return f"room({', '.join([*more, *(f'k.{extent(a)}' for a in axes)]) or '1'})"


def element(nest: Nest, b: Buffer, index: Sequence[str]) -> str:
    """A pointer to an element of a buffer."""
    name = identifier(b.name)
    text = f"k.{name}"
    for axis, i in zip(b.axes, index, strict=True):
        here = at(i) if i in nest.program.axes else nest.term(i).text
        text += f" + {here} * k.{name}_{identifier(axis)}"
    return text


def loaded(b: Buffer, pointer: str) -> str:
    """The value at a pointer into an in, param or scratch buffer, in the arithmetic's type."""
    if b.dtype == "real":
        return f"(R)as_float(*({pointer}))"
    return f"({TYPES[b.dtype]})*({pointer})"


def picked(nest: Nest, s: Pick, here: Names = MappingProxyType({})) -> str:
    """An entry of an array that an earlier loop computed. `here`: where rows are, if not at their loops' indices."""
    a = nest.arrays.get(s.source)
    if a is None or any(x not in a.axes for x in s.axes):
        raise NotSupportedError(f"a pick from {s.source!r} within the loop that computes it")
    rows = {x: t.text for x, t in here.items()}
    places = [rows.get(str(i), at(str(i))) if i in nest.program.axes else nest.term(i).text for i in s.index]
    index = rows | dict(zip(s.axes, places, strict=True))
    return f"{a.text}[{flat(a.axes, index)}]"


def subtree(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """Every statement in a body, those of loops included."""
    for s in body:
        yield s
        if isinstance(s, Loop):
            yield from subtree(s.head)
            yield from subtree(s.body)


def with_loops(nest: Nest, axes: Sequence[str], body: object) -> None:
    """Loops over axes around what `body` prints."""
    assert callable(body)
    for axis in axes:
        nest.open(f"for (long {at(axis)} = 0; {at(axis)} < k.{extent(axis)}; ++{at(axis)})")
        nest.bound.append(axis)
    body()
    for _ in axes:
        nest.close()
        nest.bound.pop()
