"""Matrix products apart from the sweep that goes over their matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lossdsl.backends.api import Island, KernelProgram, Let, Load, Loop, NotSupportedError, Reduce, Scatter, Stmt, Store
from lossdsl.backends.triton.stages import operands


@dataclass(frozen=True, slots=True)
class Side:
    """A factor: its buffer, the axes of the matrix that it has, and the buffer of its cotangent ("" for none)."""

    buffer: str
    axes: tuple[str, ...]
    cotangent: str = ""


@dataclass(frozen=True, slots=True)
class Product:
    """matrix = left · right (+ bias along the axes of the right one), summed over the axis `over`; `cotangent` is the
    scratch buffer that the sweep stores."""

    matrix: str
    over: str
    left: Side
    right: Side
    bias: Side | None = None
    cotangent: str = ""


def separated(program: KernelProgram) -> tuple[tuple[Product, ...], KernelProgram]:
    """The products that a program begins and ends with, and the sweep between them, to which matrices are arguments;
    NotSupportedError where there are none that can be told apart."""
    scratch = {b.name for b in program.buffers if b.role == "scratch"}
    loads = {s.value.name: s for s in program.body if isinstance(s, Load)}
    made = {v.name: s for s in program.body if isinstance(s, Island | Reduce) for v in s.values}
    added = {s.value.name: s for s in program.body if isinstance(s, Let) and s.op == "add"}
    used: set[int] = set()
    products: list[Product] = []
    for s in program.body:
        if not isinstance(s, Store) or s.buffer not in scratch or not isinstance(s.value, str):
            continue
        total = added.get(s.value)
        product = made.get(str(total.args[0]) if total else s.value)
        if not isinstance(product, Island) or product.op != "contract":
            continue
        left, right = (loads[str(a)] for a in product.args)
        (over,) = product.attrs[0] if isinstance(product.attrs[0], tuple) else ()
        bias = loads[str(total.args[1])] if total else None
        sides = [Side(x.buffer, tuple(a for a in x.index if a != over)) for x in (left, right)]
        third = None if bias is None else Side(bias.buffer, bias.index)
        products.append(Product(s.buffer, over, sides[0], sides[1], third))
        used |= {id(x) for x in (left, right, product, bias, total, s) if x is not None}
    if not products:
        raise NotSupportedError("a matrix product")
    for s in program.body:
        if not isinstance(s, Store) or s.buffer in scratch:
            continue
        source = made.get(s.value) if isinstance(s.value, str) else None
        origin = loads.get(str(source.args[0])) if source is not None else None
        if origin is None or origin.buffer not in scratch or source is None:
            continue
        at = next((i for i, p in enumerate(products) if origin.buffer == f"grad_{p.matrix}"), None)
        if at is None:
            continue
        products[at] = _with_cotangent(products[at], origin.buffer, s, source)
        used |= {id(origin), id(source), id(s)}
    roles = {p.matrix: "in" for p in products} | {p.cotangent: "out" for p in products if p.cotangent}
    buffers = tuple(replace(b, role=roles.get(b.name, b.role)) for b in program.buffers)  # type: ignore[arg-type]
    apart = {x.buffer for p in products for x in (p.left, p.right, p.bias) if x}
    apart |= {x.cotangent for p in products for x in (p.left, p.right, p.bias) if x}
    own = tuple(b for b in buffers if b.name not in apart)
    axes = tuple(a for a in program.axes if a not in {p.over for p in products})
    return tuple(products), replace(
        program, axes=axes, buffers=own, body=tuple(s for s in program.body if id(s) not in used)
    )


def _with_cotangent(p: Product, cotangent: str, s: Store, source: Island | Reduce) -> Product:
    p = replace(p, cotangent=cotangent)
    if isinstance(source, Reduce):
        assert p.bias is not None
        return replace(p, bias=replace(p.bias, cotangent=s.buffer))
    if set(s.index) == {*p.left.axes, p.over}:
        return replace(p, left=replace(p.left, cotangent=s.buffer))
    return replace(p, right=replace(p.right, cotangent=s.buffer))


def by_results(sweep: KernelProgram, rows_of: set[str]) -> Iterator[KernelProgram]:
    """The sweep by what its results run along: those of columns are rows of a program of their own."""
    outs = [b for b in sweep.buffers if b.role == "out"]
    columns = [b.name for b in outs if b.axes and not set(b.axes) & rows_of]
    rows = [b.name for b in outs if b.name not in columns]
    for word, names in (("", rows), ("_columns", columns)):
        if names:
            body = needed_for(sweep.body, set(names))
            buffers = tuple(b for b in sweep.buffers if b.role != "out" or b.name in names)
            yield replace(sweep, name=sweep.name + word, buffers=buffers, body=body)


def needed_for(body: Sequence[Stmt], outs: set[str]) -> tuple[Stmt, ...]:
    """What stores to these buffers need, and to those that it reads again."""
    names: set[str] = set()
    outs = set(outs)
    while True:
        before = len(names), len(outs)
        kept = _pruned(body, outs, names)
        if (len(names), len(outs)) == before:
            return kept


def _pruned(body: Sequence[Stmt], outs: set[str], names: set[str]) -> tuple[Stmt, ...]:
    kept: list[Stmt] = []
    for s in reversed(body):
        if isinstance(s, Loop):
            inner = _pruned(s.body, outs, names)
            if inner:
                if s.guard is not None:
                    names.add(s.guard)
                kept.append(replace(s, body=inner, head=_pruned(s.head, outs, names)))
            continue
        if isinstance(s, Store):
            needed = s.buffer in outs
        elif isinstance(s, Reduce | Island):
            needed = any(v.name in names for v in s.values)
        else:
            needed = s.value.name in names
        if needed:
            names.update(x for x in operands(s) if isinstance(x, str))
            if isinstance(s, Load):
                outs.add(s.buffer)
            if isinstance(s, Scatter):
                names.update(x for x in (s.arg, s.index) if isinstance(x, str))
            kept.append(s)
    return tuple(reversed(kept))
