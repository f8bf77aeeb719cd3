"""A sweep's program with its matrices multiplied within it: factors in, cotangents of factors out.

A tile's matrix is a scratch buffer then, and so is its cotangent:

    x[Tile, F] = load z0_left[Tile, F]
    w[C, F] = load z0_right[C, F]
    z[Tile, C] = island contract[(F)](x, w)
    store z0[Tile, C] = z
    …                                            the sweep as it was
    g[Tile, C] = load grad_z0[Tile, C]
    dx[Tile, F] = island contract[(C)](g, w)
    store grad_z0_left[Tile, F] = dx

A printer that keeps of a scratch buffer what a turn of its loops needs never has the matrix in memory: it multiplies a
tile of it where that is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lossdsl.plan.kernel import Buffer, Island, KernelProgram, Let, Load, Loop, Reduce, Stmt, Store, Value
from lossdsl.plan.names import distinct


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix of a program by the names of its buffers: left · right (+ bias), and their cotangents ("" for none).

    `rows` and `columns` are axes of the matrix, `over` is the one that is summed.
    """

    matrix: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    over: str
    left: str
    right: str
    bias: str
    cotangent: str
    d_left: str
    d_right: str
    d_bias: str


@dataclass(frozen=True, slots=True)
class Multiplied:
    """A program with its products, and the sweep within it, whose matrices are arguments."""

    program: KernelProgram
    sweep: KernelProgram
    products: tuple[Product, ...]


def multiplied(sweep: KernelProgram, matrices: Sequence[tuple[str, int, bool]], name: str) -> Multiplied:
    """The program of a sweep, called `name`, that is given factors instead of these matrices.

    `matrices` are buffers of the sweep, each with how many of its axes are rows, and whether a vector along its columns
    is added.
    """
    buffers = {b.name: b for b in sweep.buffers}
    taken = {*buffers, *sweep.axes, *_names(sweep.body)}

    def fresh(word: str) -> str:
        taken.add(found := distinct(word, taken))
        return found

    products = []
    for matrix, count, biased in matrices:
        axes, gradient = buffers[matrix].axes, buffers.get(f"grad_{matrix}")
        d = "" if gradient is None else gradient.name
        products.append(
            Product(
                matrix,
                axes[:count],
                axes[count:],
                fresh("Feature"),
                fresh(f"{matrix}_left"),
                fresh(f"{matrix}_right"),
                fresh(f"{matrix}_bias") if biased else "",
                d,
                fresh(f"{d}_left") if d else "",
                fresh(f"{d}_right") if d else "",
                fresh(f"{d}_bias") if d and biased else "",
            )
        )
    made = [_Statements(p, fresh) for p in products]
    body = (*(s for m in made for s in m.before), *sweep.body, *(s for m in made for s in m.after))
    order = (*sweep.axes, *(p.over for p in products))
    body = tuple(_ordered(s, order) for s in body)
    program = KernelProgram(name, order, tuple(_buffers(sweep, products)), body)
    return Multiplied(program, sweep, tuple(products))


class _Statements:
    """What stands before and after the sweep for one product."""

    def __init__(self, p: Product, fresh: object) -> None:
        name = fresh if callable(fresh) else str
        x, w, z = name("factor"), name("factor"), name("product")
        whole = (*p.rows, *p.columns)
        self.before: list[Stmt] = [
            Load(Value(x, (*p.rows, p.over)), p.left, (*p.rows, p.over)),
            Load(Value(w, (*p.columns, p.over)), p.right, (*p.columns, p.over)),
            Island((Value(z, whole),), "contract", (x, w), ((p.over,),)),
        ]
        if p.bias:
            b, total = name("bias"), name("total")
            self.before += [Load(Value(b, p.columns), p.bias, p.columns), Let(Value(total, whole), "add", (z, b))]
            z = total
        self.before.append(Store(p.matrix, whole, z))
        self.after: list[Stmt] = []
        if not p.cotangent:
            return
        g, left, right = name("cotangent"), name("d_left"), name("d_right")
        self.after = [
            Load(Value(g, whole), p.cotangent, whole),
            Island((Value(left, (*p.rows, p.over)),), "contract", (g, w), (p.columns,)),
            Store(p.d_left, (*p.rows, p.over), left),
            Island((Value(right, (*p.columns, p.over)),), "contract", (g, x), (p.rows,)),
            Store(p.d_right, (*p.columns, p.over), right),
        ]
        if p.bias:
            total = name("d_bias")
            self.after += [
                Reduce((Value(total, p.columns),), "sum", p.rows, (g,)),
                Store(p.d_bias, p.columns, total),
            ]


def _buffers(sweep: KernelProgram, products: Sequence[Product]) -> Iterator[Buffer]:
    """The sweep's, with factors instead of each matrix and their cotangents instead of its own."""
    by_matrix = {p.matrix: p for p in products}
    by_cotangent = {p.cotangent: p for p in products if p.cotangent}
    for b in sweep.buffers:
        if p := by_matrix.get(b.name):
            yield Buffer(p.left, (*p.rows, p.over), "real", "in")
            yield Buffer(p.right, (*p.columns, p.over), "real", "in")
            if p.bias:
                yield Buffer(p.bias, p.columns, "real", "in")
        elif p := by_cotangent.get(b.name):
            yield Buffer(p.d_left, (*p.rows, p.over), "real", "out")
            yield Buffer(p.d_right, (*p.columns, p.over), "real", "out")
            if p.bias:
                yield Buffer(p.d_bias, p.columns, "real", "out")
        else:
            yield b
    for p in products:
        yield replace(next(b for b in sweep.buffers if b.name == p.matrix), role="scratch")
        if p.cotangent:
            yield replace(next(b for b in sweep.buffers if b.name == p.cotangent), role="scratch")


def _ordered(s: Stmt, order: Sequence[str]) -> Stmt:
    """A statement whose values have their axes in the program's order."""

    def turned(v: Value) -> Value:
        return replace(v, axes=tuple(a for a in order if a in v.axes))

    match s:
        case Let() | Load():
            return replace(s, value=turned(s.value))
        case Reduce() | Island():
            return replace(s, values=tuple(map(turned, s.values)))
    return s


def _names(body: Sequence[Stmt]) -> Iterator[str]:
    for s in body:
        if isinstance(s, Loop):
            yield from _names((*s.head, *s.body))
        elif isinstance(s, Reduce | Island):
            yield from (v.name for v in s.values)
        elif not isinstance(s, Store):
            yield s.value.name
