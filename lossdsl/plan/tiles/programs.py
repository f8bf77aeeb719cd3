"""Steps → KernelPrograms, each with the names by which its arguments and results are known to the driver."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lossdsl.check.types import Type
from lossdsl.ir.builder import bound_axes
from lossdsl.ir.graph import Graph, Leaf
from lossdsl.plan.expand import expand
from lossdsl.plan.guards import Output
from lossdsl.plan.kernel import Buffer, KernelProgram
from lossdsl.plan.names import buffer_names, free_axes, size_argument
from lossdsl.plan.schedule import schedule
from lossdsl.plan.tiles.products import multiplied
from lossdsl.plan.tiles.steps import Give, Step
from lossdsl.plan.tiles.tiling import Tiling
from lossdsl.plan.writing import dtype_of
from lossdsl.primitives.interval import FINITE
from lossdsl.registry import Registry

REAL = "@real"  # a number in the dtype of the call's arithmetic, for kernels that see it nowhere else


@dataclass(frozen=True, slots=True)
class TileKernel:
    """A step as a program. `takes` are the values that its buffers hold, each with the dimension along which a tile
    slices it (-1: whole); `sizes` the axes whose extent no argument shows, with the keyword for each. `product` is the
    same sweep with the matrices multiplied in it (None where it reads none, or distances)."""

    name: str
    program: KernelProgram
    sweep: bool
    takes: tuple[tuple[str, int], ...]
    gives: tuple[Give, ...]
    sizes: tuple[tuple[str, str], ...]
    product: KernelProgram | None = None


@dataclass(frozen=True, slots=True)
class TileKernels:
    """The kernels of a tiling: by variant, by side, and the one that says which rows are there."""

    keep: TileKernel | None
    variants: tuple[tuple[str, tuple[TileKernel, ...], tuple[tuple[str, str], ...]], ...]  # name, steps, outputs
    forward: tuple[TileKernel, ...]  # that compute sides
    backward: tuple[tuple[str, str, TileKernel], ...]  # cotangent, "inputs" or "params", kernel

    @property
    def all(self) -> tuple[TileKernel, ...]:
        steps = tuple(k for _, kernels, _ in self.variants for k in kernels)
        return (*((self.keep,) if self.keep else ()), *steps, *self.forward, *(k for _, _, k in self.backward))


def tile_kernels(
    name: str, tiling: Tiling, registry: Registry, precise: bool = False, word: str = "tile"
) -> TileKernels:
    """Plan every step of a tiling; with `precise` its softmaxes carry z - max z in two floats."""

    def planned(which: str, step: Step) -> TileKernel:
        return _with_product(_kernel(name, which, step, registry, precise), tiling)

    keep = None if tiling.keep is None else planned(f"{word}_keep", tiling.keep)
    variants = []
    for v in tiling.variants:
        steps = [planned(f"{word}_{v.name}_{i}", step) for i, step in enumerate(v.schedule.steps)]
        variants.append((v.name, tuple(steps), v.schedule.outputs))
    forward: dict[str, TileKernel] = {}
    backward: list[tuple[str, str, TileKernel]] = []
    for number, three in enumerate(tiling.sides):
        for part, side in zip(("left", "right", "bias"), three, strict=True):
            if side is None or any(name == side.cotangent for name, _, _ in backward):
                continue  # both factors are one value
            if side.step is not None:
                forward[side.value] = planned(f"{word}_{part}_{number}", side.step)
            for group, step in side.back:
                kernel = planned(f"{word}_{part}_{number}_{group}", step)
                backward.append((side.cotangent, group, kernel))
    return TileKernels(keep, tuple(variants), tuple(forward.values()), tuple(backward))


def _kernel(loss: str, name: str, step: Step, registry: Registry, precise: bool) -> TileKernel:
    graph = _own_axes(step)
    if not any(leaf.role != "param" and leaf.type.kind == "real" for leaf in graph.leaves):
        real = Leaf(REAL, (), Type(frozenset(), "real", FINITE), "input", False)
        graph = replace(graph, leaves=(*graph.leaves, real))
    expanded, hints = expand(graph, registry, precise)
    expanded = replace(expanded, leaves=graph.leaves)
    named = buffer_names(leaf.name for leaf in graph.leaves)
    # a matrix's cotangent has its name, which says over which of several matrices it may be written
    results = [g.name if g.how == "matrix" else f"out_{i}" for i, g in enumerate(step.gives)]
    outs = buffer_names(results, named.values())
    inputs = {
        leaf.name: Buffer(
            named[leaf.name], leaf.axes, dtype_of(leaf.type.kind), "param" if leaf.role == "param" else "in"
        )
        for leaf in graph.leaves
    }
    outputs = []
    for i, give in enumerate(step.gives):
        node = expanded.output(give.name)
        kind = expanded.nodes[node].type.kind
        dtype = "real" if give.how in ("matrix",) or "grad" in give.name else dtype_of(kind)
        dtype = "real" if give.name.startswith("out.") else dtype
        outputs.append(Output(Buffer(outs[results[i]], give.axes, dtype, "out"), node))
    body, scratch, _ = schedule(expanded, outputs, inputs, registry, hints)
    buffers = (*inputs.values(), *(o.buffer for o in outputs), *scratch)
    program = KernelProgram(f"{loss}.{name}", expanded.axes, buffers, body)
    sliced = dict(step.sliced)
    takes = tuple((leaf.name, sliced.get(leaf.name, -1)) for leaf in graph.leaves)
    sizes = tuple((axis, size_argument(axis)) for axis in free_axes(program))
    return TileKernel(name, program, step.sweep, takes, step.gives, sizes)


def _with_product(kernel: TileKernel, tiling: Tiling) -> TileKernel:
    """A sweep that reads matrices of products, with the program that multiplies them."""
    known = {m.name: m for m in tiling.matrices}
    arguments = [b for b in kernel.program.buffers if b.role in ("in", "param")]
    read = [(b.name, known[name]) for b, (name, _) in zip(arguments, kernel.takes, strict=True) if name in known]
    given = {g.name.removeprefix("grad.") for g in kernel.gives if g.how == "matrix"}
    sound = {m.name for _, m in read} >= given and all(m.kind == "dot" and len(m.over) == 1 for _, m in read)
    if not kernel.sweep or not read or not sound:
        return kernel
    matrices = [(buffer, len(m.rows), m.bias is not None) for buffer, m in read]
    return replace(kernel, product=multiplied(kernel.program, matrices, f"{kernel.program.name}_product").program)


def _own_axes(step: Step) -> Graph:
    """The graph with the axes that stand in it alone, those of the first result first: its rows are the outer loop."""
    graph = step.graph
    used = {a for leaf in graph.leaves for a in leaf.axes} | {a for give in step.gives for a in give.axes}
    used = used.union(*(n.type.axes | bound_axes(n) for n in graph.nodes))
    used |= {str(n.attrs[1]) for n in graph.nodes if n.op == "order"} | {
        str(n.attrs[2]) for n in graph.nodes if n.op in ("eigvals", "eigvecs")
    }
    used |= {str(n.attrs[0]) for n in graph.nodes if n.op == "size"}
    first = [a for give in step.gives[:1] for a in give.axes]
    if step.sweep:  # tiles' rows first, whatever the results are
        first = [a for a in graph.axes if a.startswith("Tile") and a in used]
    return replace(graph, axes=(*first, *(a for a in graph.axes if a in used and a not in first)))
