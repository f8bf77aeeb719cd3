"""What a generated module says of its loss: the SIGNATURE that the runtime reads, as literals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from lossdsl.artifacts.identifiers import arguments
from lossdsl.artifacts.literals import Apply, Literal, Name
from lossdsl.check.sizes import ordered, tree
from lossdsl.check.typed import CheckedLoss, Input, Param, Term
from lossdsl.check.types import base_axis
from lossdsl.ir.graph import Graph, Leaf
from lossdsl.ir.inputs import computed_default
from lossdsl.plan.kernel import KernelProgram
from lossdsl.plan.names import free_axes, size_argument
from lossdsl.primitives.interval import Interval
from lossdsl.registry import BackendSpec
from lossdsl.source.diagnostic import InternalError

IGNORE = "@ignore_index"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function of the module: its name there, its program, and the graph that it was planned from."""

    name: str
    program: KernelProgram
    graph: Graph


@dataclass(frozen=True, slots=True)
class Table:
    """The loss in the module's names: `names` maps those of the file to identifiers."""

    names: dict[str, str]
    inputs: tuple[Input, ...]
    params: tuple[Param, ...]
    axes: tuple[tuple[str, int], ...]  # axes whose size is a number of the file, settable like a param
    modes: tuple[tuple[str, str], ...]  # with what was chosen
    ignores: bool

    @property
    def settable(self) -> tuple[str, ...]:
        """The identifiers of what a caller may set, in the order of Signature.params."""
        own = [self.names[p.name] for p in self.params] + [self.names[a] for a, _ in self.axes]
        return (*own, "ignore_index") if self.ignores else tuple(own)


def tabulate(checked: CheckedLoss, graph: Graph) -> Table:
    """Names and order of a loss's arguments."""
    params = tuple(p for p in checked.params if not p.modes)
    axes = tuple(
        (a.name, int(a.size.attrs[0]))  # type: ignore[arg-type]
        for a in checked.axes
        if a.size is not None and a.size.op == "const"
    )
    ignores = any(leaf.name == IGNORE for leaf in graph.leaves)
    modes = tuple((p.name, str(p.default)) for p in checked.params if p.modes)
    own = [*(p.name for p in params), *(a for a, _ in axes), *(m for m, _ in modes)]
    names = arguments([i.name for i in checked.inputs], own)
    return Table(names, checked.inputs, params, axes, modes, ignores)


def describe(
    checked: CheckedLoss,
    table: Table,
    graph: Graph,
    kernels: Sequence[Kernel],
    backend: BackendSpec,
    missing: str,
    precise: bool = False,
) -> Apply:
    """The SIGNATURE."""
    keywords: list[tuple[str, Literal]] = [
        ("name", checked.name),
        ("equation", Name("EQUATION")),
        ("inputs", tuple(_input(checked, table, i) for i in table.inputs)),
        ("params", _params(table)),
        ("batch", graph.batch),
        ("reduction", checked.reduction),
        ("rowwise", rowwise(checked, graph)),
        ("kernels", tuple((k.name, _kernel(table, k)) for k in kernels)),
    ]
    if checked.kind != "loss":
        keywords.append(("kind", checked.kind))
    keywords.append(("backend", backend.name))
    if "*" not in backend.devices:
        keywords.append(("devices", backend.devices))
    if fold := folding(checked, graph):
        keywords.append(("fold", fold))
    if sizes := tuple(_size(table, axis, size) for axis, size in ordered(checked.axes)):
        keywords.append(("sizes", sizes))
    if counted(graph):
        keywords.append(("counted", True))
    if missing:
        keywords.append(("second_missing", missing))
    if table.modes:
        keywords.append(("modes", tuple((table.names[m], chosen) for m, chosen in table.modes)))
    if precise:
        keywords.append(("precise", True))
    return Apply("Signature", keywords=tuple(keywords))


# --- inputs and params -----------------------------------------------------------------------------------------------


def _input(checked: CheckedLoss, table: Table, given: Input) -> Apply:
    keywords: list[tuple[str, Literal]] = []
    if given.kind != "real":
        keywords.append(("kind", given.kind))
    if given.fixed:
        keywords.append(("fixed", True))
    if given.default is not None:
        if computed_default(checked, given) is None:
            keywords.append(("default", _default(table, given, given.default)))
        else:
            keywords.append(("computed", True))
    if given.draw is not None:
        keywords.append(("draw", given.draw))
    if given.bounds is not None:
        keywords.append(("bounds", _bounds(given.bounds)))
    return Apply("InputSpec", (table.names[given.name], given.axes), tuple(keywords))


def _default(table: Table, given: Input, term: Term) -> Literal:
    if term.op == "neg":
        value = _default(table, given, term.args[0])
        if isinstance(value, int | float):
            return -value
    if term.op == "const":
        number = term.attrs[0]
        return number if isinstance(number, bool | int | str) else float(number)  # type: ignore[arg-type]
    if term.op == "leaf" and not term.type.axes and str(term.attrs[0]) in {p.name for p in table.params}:
        return table.names[str(term.attrs[0])]
    raise InternalError(f"the default of {given.name} is neither a number nor a param")


def _params(table: Table) -> tuple[Literal, ...]:
    found: list[Literal] = []
    for p in table.params:
        keywords: list[tuple[str, Literal]] = []
        if p.axes:
            keywords.append(("axes", p.axes))
        if p.integer:
            keywords.append(("integer", True))
        keywords.append(("default", default_of(p)))
        if p.bounds is not None:
            keywords.append(("bounds", _bounds(p.bounds)))
        if p.learnable:
            keywords.append(("learnable", True))
        found.append(Apply("ParamSpec", (table.names[p.name],), tuple(keywords)))
    for axis, size in table.axes:
        found.append(Apply("ParamSpec", (table.names[axis],), (("integer", True), ("default", size))))
    if table.ignores:
        found.append(Apply("ParamSpec", ("ignore_index",), (("integer", True), ("default", -100))))
    return tuple(found)


def default_of(param: Param) -> float | int | tuple[float, ...]:
    """A param's default as a number or numbers."""
    default = param.default
    if isinstance(default, tuple):
        return tuple(float(x) for x in default)
    if isinstance(default, str):
        raise InternalError(f"the mode {param.name} reached the module")
    return int(default) if param.integer else float(default)


def _bounds(bounds: Interval) -> tuple[Literal, ...]:
    return (float(bounds.low), float(bounds.high), bounds.low_open, bounds.high_open)


def _size(table: Table, axis: str, term: Term | None) -> tuple[Literal, ...]:
    assert term is not None
    if term.op == "const":
        return (axis, table.names[axis])
    return (axis, tree(term, table.names))


# --- kernels --------------------------------------------------------------------------------------------------------


def _kernel(table: Table, kernel: Kernel) -> Apply:
    program, graph = kernel.program, kernel.graph
    kind = kernel.name.partition("_")[0]
    leaves = [leaf for leaf in graph.leaves if _takes(kind, leaf)]
    args = [b for b in program.buffers if b.role in ("in", "param")]
    outs = [b for b in program.buffers if b.role == "out"]
    names = [name for name, _ in graph.outputs if _gives(kind, name)]
    if kind == "both":  # the upstream is one number there
        leaves = [replace(leaf, axes=()) if leaf.name == "@rows" else leaf for leaf in leaves]
    if [leaf.axes for leaf in leaves] != [b.axes for b in args] or len(names) != len(outs):
        raise InternalError(f"{program.name} doesn't take the leaves of its graph")
    keywords: tuple[tuple[str, Literal], ...] = ()
    if free := free_axes(program):
        keywords = (("sizes", tuple((axis, size_argument(axis)) for axis in free)),)
    return Apply(
        "KernelSpec",
        (
            tuple(_named(table.names, leaf.name) for leaf in leaves),
            tuple((_named(table.names, n), b.axes, b.dtype) for n, b in zip(names, outs, strict=True)),
        ),
        keywords,
    )


def _takes(kind: str, leaf: Leaf) -> bool:
    if leaf.role != "seed":
        return True
    return kind == "second" or (kind in ("gradient", "both") and not leaf.name.startswith("@grad."))


def _gives(kind: str, name: str) -> bool:
    head = name.partition(".")[0]
    if kind == "weight":
        return name == "weight"
    if kind in ("value", "aux", "both"):
        return name in ("rows", "weight", "reduced") or head == {"aux": "aux", "both": "grad"}.get(kind)
    return head == ("grad" if kind == "gradient" else "second")


def _named(names: Mapping[str, str], name: str) -> str:
    """A leaf's or output's name with the file's names turned into the module's."""
    if name == IGNORE:
        return "ignore_index"
    head, dot, tail = name.partition(".")
    if head == "aux" or tail.startswith("@"):
        return name
    return f"{head}.{names[tail]}" if dot else names.get(head, head)


# --- what may be done with rows ---------------------------------------------------------------------------------------


def rowwise(checked: CheckedLoss, graph: Graph) -> bool:
    """Whether every row is a function of its own entries alone: not of other rows, its place, or their number."""
    batch = {base_axis(a.name) for a in checked.axes if a.batch}
    if not graph.batch:
        return False
    for node in graph.nodes:
        touched: set[str] = set()
        for attr in node.attrs if node.op != "leaf" else ():
            touched |= set(attr) if isinstance(attr, tuple) else {attr} if isinstance(attr, str) else set()
        if {base_axis(a) for a in touched} & batch:
            return False
        if any(a != base_axis(a) and base_axis(a) in batch for a in node.type.axes):
            return False
    return True


def counted(graph: Graph) -> bool:
    """Whether a row's weight is 1, or 0 where an index is the ignored one, and nothing else."""
    outputs = dict(graph.outputs)
    if "weight" not in outputs:
        return False

    @cache
    def presence(n: int) -> bool:
        node = graph.nodes[n]
        if node.op in ("and", "or", "not"):
            return all(map(presence, node.args))
        leaves = [graph.nodes[a].attrs[0] for a in node.args if graph.nodes[a].op == "leaf"]
        return node.op in ("eq", "ne") and len(leaves) == 2 and IGNORE in leaves

    node = graph.nodes[outputs["weight"]]
    if node.op != "select" or not presence(node.args[0]):
        return presence(outputs["weight"])
    values = [graph.nodes[a].attrs for a in node.args[1:] if graph.nodes[a].op == "const"]
    return sorted(float(v[0]) for v in values) == [0.0, 1.0]  # type: ignore[arg-type]


def folding(checked: CheckedLoss, graph: Graph) -> str:
    """The batch axis that further dimensions may join: the only one, if the file has no copy of it."""
    batch = [a.name for a in checked.axes if a.batch and a.name == base_axis(a.name)]
    used = {a for node in graph.nodes for a in node.type.axes}
    if len(batch) != 1 or any(a != batch[0] and base_axis(a) == batch[0] for a in used):
        return ""
    return batch[0]
