"""The KernelProgram: loops over named axes around loads, pointwise statements, reductions and stores.

It is what backends print. A statement defines values; a value has axes (all of them, those that enclosing loops bind
included) and is computed for every index of them. The axes that no loop binds make the statement a whole-array one: a
backend prints its own loop or library call for it. So the same statement list without loops means the same: loops say
what shares a sweep.

Scope: every value is defined once. One defined in a loop is visible to later statements of that loop (and of loops
within it), not after the loop has ended: a second sweep loads and computes anew, or a scratch buffer keeps it. A
reduction (or scatter) over the axis of an enclosing loop has its value when that loop has ended, in the loop outside;
its axes are those of its operand less the reduced ones. If inner loops' axes are left, it is an array over them (an
accumulator that is made before the loop over the reduced axis): `for N: for C: s[C] = reduce sum over N (p)`.

Scratch buffers have all axes of what they hold; a printer keeps only as much as their loops' turns need.

Value names are identifiers; buffer names may have dots and @. The text form (`plan/text.py`) is one statement a line:

    kernel focal.value
    axes N, C
    in logits[N, C]: real
    in target[N]: int
    param gamma: real
    out rows[N]: real
    for N:
      y[N]: int = load target[N]
      for C:
        z[N, C] = load logits[N, C]
        m[N], r[N] = reduce logsumexp over C (z)
      zy[N] = load logits[N, y]
      a[N] = sub(zy, m)
      store rows[N] = a
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from lossdsl.ir.graph import Attr, Scalar
from lossdsl.source.text import Span

Dtype = Literal["real", "int", "bool"]

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
# Operations whose value jumps: the last place of what they are of decides it, so that a printer may take no shortcuts
# there that round otherwise than the same statement does elsewhere.
STEPS = COMPARISONS | {"floor", "round", "mod", "sign"}


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor of the kernel's call (or, as scratch, its own). `axes` in the order of its dimensions."""

    name: str
    axes: tuple[str, ...]
    dtype: Dtype
    role: Literal["in", "param", "out", "scratch"]


@dataclass(frozen=True, slots=True)
class Value:
    """A name, the axes it varies along (canonical order) and its dtype."""

    name: str
    axes: tuple[str, ...]
    dtype: Dtype = "real"


Operand = str | Scalar  # the name of a value, or a constant


@dataclass(frozen=True, slots=True)
class Let:
    """value = op(args): a primitive, or `index [A]`, `size [A]` through attrs."""

    value: Value
    op: str
    args: tuple[Operand, ...]
    attrs: tuple[Attr, ...] = ()
    origin: Span | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """value = buffer[index]; an entry of index is an axis (that loop's index) or the name of an int value."""

    value: Value
    buffer: str
    index: tuple[str, ...]
    origin: Span | None = None


@dataclass(frozen=True, slots=True)
class Reduce:
    """values = reduction over axes of args, where the mask holds.

    logsumexp has two results (m, r): m the maximum (0 where that is -inf, over an empty range too, so that z - m
    is never NaN) and r = Σ exp(z - m) less the one term of a maximum: lse = m + log1p(r). Over nothing or only -inf, r
    = -1. ties has two results: the maximum and how many entries attain it.
    """

    values: tuple[Value, ...]
    reduction: str
    axes: tuple[str, ...]
    args: tuple[Operand, ...]
    where: Operand | None = None
    origin: Span | None = None


@dataclass(frozen=True, slots=True)
class Scatter:
    """value[…, a, …] = Σ over `axes` of arg where index == a, in index order (deterministic); a runs along `axis`."""

    value: Value
    axis: str
    axes: tuple[str, ...]
    arg: Operand
    index: str
    origin: Span | None = None


@dataclass(frozen=True, slots=True)
class Island:
    """values = a library call on whole arrays: order, cumsum, contract (a matmul), logdet, root, …; attrs as in
    ir/graph.py."""

    values: tuple[Value, ...]
    op: str
    args: tuple[Operand, ...]
    attrs: tuple[Attr, ...] = ()
    body: tuple[Stmt, ...] = ()  # root: the statements of f, whose unknown is the first of `bound`
    bound: tuple[Value, ...] = ()
    origin: Span | None = None


@dataclass(frozen=True, slots=True)
class Pick:
    """value = source with each of axes' index replaced: a gather from a computed value rather than from a buffer."""

    value: Value
    source: str
    axes: tuple[str, ...]
    index: tuple[str, ...]  # the names of int values, or axes (a renaming)
    origin: Span | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """buffer[index] = value; where `where` is false, `otherwise` is stored, so that every element is written."""

    buffer: str
    index: tuple[str, ...]
    value: Operand
    where: Operand | None = None
    otherwise: Scalar = Fraction(0)
    origin: Span | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """Over one axis. `guard` (a bool that varies along this axis, or this and enclosing ones; `head` computes it): the
    body runs where it holds; elsewhere the stores below write their `otherwise`, and reductions and scatters over this
    axis skip the entry."""

    axis: str
    body: tuple[Stmt, ...]
    head: tuple[Stmt, ...] = ()
    guard: str | None = None


Stmt = Let | Load | Reduce | Scatter | Island | Pick | Store | Loop


@dataclass(frozen=True, slots=True)
class KernelProgram:
    """`name` is LOSS.value, LOSS.gradient, LOSS.second or LOSS.both."""

    name: str
    axes: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """Per element of the largest input: counted by the interpreter, not claimed by the planner."""

    sweeps: int
    reads: float
    writes: float
    exps: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The programs of one loss, and why they are as they are: `notes` are shown by `explain`."""

    programs: tuple[KernelProgram, ...]
    notes: tuple[str, ...] = ()
