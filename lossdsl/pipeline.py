"""From text to a torch module: the stages in order, each turning one datatype into the next.

    text → parse → LossDef → check → CheckedLoss → lower → Graph → derive → JointGraph → plan → Plan → emit → Emitted
         → assemble → Artifact → load → nn.Module

`front` goes as far as the checker, `middle` as far as the plan, `build` all the way. Each gives everything it made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from importlib.metadata import PackageNotFoundError, version

from lossdsl import __version__
from lossdsl.artifacts.artifact import Artifact
from lossdsl.artifacts.assemble import Origin, assemble, source_name
from lossdsl.artifacts.describe import Kernel
from lossdsl.artifacts.emission import emit_with
from lossdsl.artifacts.equation import equation, gradient
from lossdsl.artifacts.identifiers import identifier
from lossdsl.artifacts.tiles import Tiles, product_name
from lossdsl.backends.api import Emitted, NotSupportedError
from lossdsl.backends.manager import BackendError, Choice, choose
from lossdsl.check.check import check, remarks
from lossdsl.check.heads import Head, with_heads
from lossdsl.check.typed import CheckedLoss
from lossdsl.derive.centring import centred
from lossdsl.derive.derive import derive
from lossdsl.derive.errors import NotDifferentiableError
from lossdsl.ir.graph import Graph, JointGraph
from lossdsl.ir.limits import TooLargeError
from lossdsl.ir.lower import lower
from lossdsl.plan.kernel import KernelProgram, Plan
from lossdsl.plan.plan import REDUCED, plan, with_reduced
from lossdsl.plan.tiles.cut import Cut, cut, cut_head
from lossdsl.plan.tiles.programs import TileKernel, TileKernels, tile_kernels
from lossdsl.plan.tiles.tiling import Tiling, Untiled, other_axis, tile
from lossdsl.registry import BackendSpec, Registry
from lossdsl.source.diagnostic import Diagnostic, DiagnosticError, InternalError, Label, in_order
from lossdsl.source.text import Source
from lossdsl.syntax.ast import LossDef
from lossdsl.syntax.parse import read


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """A file that is right."""

    source: Source
    lossdef: LossDef
    checked: CheckedLoss


@dataclass(frozen=True, slots=True, kw_only=True)
class Middle(Front):
    """A loss derived and planned, not yet for any backend.

    `joint` has the derivatives by inputs and by params, `by_inputs` those by inputs alone; `plan` holds the programs of
    the first, as `lossdsl dump` shows them. `tiling` says how to do without the loss's matrix, or why that can't be
    (None: it has none), `across` how to take tiles along its columns instead; `heads` are those that were put in front
    of logits.
    """

    graph: Graph
    joint: JointGraph
    by_inputs: JointGraph
    plan: Plan
    tiling: Tiling | Untiled | None
    across: Tiling | None = None
    heads: tuple[Head, ...] = ()
    precise: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Built(Middle):
    """A loss compiled for one backend; `choice` says for which and why, `kernels` are the functions of the module."""

    choice: Choice
    kernels: tuple[Kernel, ...]
    emitted: Emitted
    artifact: Artifact


def front(source: Source, registry: Registry, modes: Mapping[str, str] | None = None) -> Front:
    """Parse and check; DiagnosticError with all that is wrong with the file."""
    reading = read(source)
    if reading.problems or reading.loss is None:
        raise DiagnosticError(source, in_order([*reading.problems, *remarks(reading, source, registry, modes)]))
    checked = check(reading.loss, source, registry, modes)
    return Front(source=source, lossdef=reading.loss, checked=checked)


def middle(source: Source, registry: Registry, modes: Mapping[str, str] | None = None, precise: bool = False) -> Middle:
    """Everything that is the same for all backends; DiagnosticError where a construct can't be compiled.

    `modes` are functions by param; the words "head" (of the first logits) and "head.NAME" in it are heads: HeadError
    for one that is no head of this loss, DiagnosticError where the loss needs all rows of its logits at once.
    """
    chosen, asked = split_heads(modes or {})
    first = front(source, registry, chosen)
    checked, heads = with_heads(first.checked, asked) if asked else (first.checked, ())
    with _bounded(first):
        graph = centred(lower(checked, registry), checked, registry)
        joint = derive(graph, registry)
        by_inputs = derive(_constant_params(graph), registry)
        planned = plan(joint, registry, precise=precise)
        found = _cut(first.checked, graph, heads, registry)
        tiling = None if found is None else tile(found, registry)
        across = None if heads or not isinstance(tiling, Tiling) else _across(graph, tiling, registry)
    if heads and isinstance(tiling, Untiled):
        raise DiagnosticError(source, [_no_head(first, tiling)])
    return Middle(
        source=source,
        lossdef=first.lossdef,
        checked=checked,
        graph=graph,
        joint=joint,
        by_inputs=by_inputs,
        plan=planned,
        tiling=tiling,
        across=across,
        heads=heads,
        precise=precise,
    )


def split_heads(modes: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Modes proper, and heads by the name of their logits ("" for the first)."""
    heads = {n.partition(".")[2]: kind for n, kind in modes.items() if n == "head" or n.startswith("head.")}
    return {n: m for n, m in modes.items() if n != "head" and not n.startswith("head.")}, heads


def _cut(checked: CheckedLoss, graph: Graph, heads: tuple[Head, ...], registry: Registry) -> Cut | None:
    """Where the loss multiplies matrices: at its heads, or where its file says so."""
    if not heads:
        return cut(graph, registry)
    leaves = {leaf.name: leaf for leaf in graph.leaves}
    named = {h.logits: [leaves[h.hidden], leaves[h.weight], leaves[h.bias]] for h in heads}
    return cut_head(centred(lower(checked, registry), checked, registry), named, registry)


def _across(graph: Graph, tiling: Tiling, registry: Registry) -> Tiling | None:
    axis = other_axis(tiling, graph.batch)
    found = cut(graph, registry, axis) if axis else None
    made = None if found is None else tile(found, registry)
    return made if isinstance(made, Tiling) else None


def _no_head(first: Front, found: Untiled) -> Diagnostic:
    label = Label(found.origin or first.lossdef.name_span, found.reason)
    fix = "compute the logits before the loss, which then takes them whole"
    return Diagnostic("E0803", f"{first.checked.name} can't have a head", (label,), fix)


def where_from(source: Source, found: Untiled) -> str:
    """Why a matrix has to be whole, with the expression and the line."""
    if found.origin is None:
        return found.reason
    text = " ".join(source.text[found.origin.start : found.origin.end].split())
    line = source.text.count("\n", 0, found.origin.start) + 1
    return f"{found.reason}: `{text}`, line {line} of {source.name}"


def build(
    source: Source,
    registry: Registry,
    backend: str = "auto",
    *,
    device: str = "cpu",
    modes: Mapping[str, str] | None = None,
    standalone: bool = False,
    precise: bool = False,
    command: str = "",
) -> Built:
    """Compile a loss for a backend; with "auto" for the best that can print it.

    With `precise`, it computes in float64 whatever dtype comes in, and z - max z of a softmax is carried in two such
    numbers: gradients within 8 ulp of float32.
    Raises DiagnosticError for a wrong file, BackendError for a backend that can't be used.
    """
    made = middle(source, registry, modes, precise)
    with _bounded(made):
        ways = _ways(made, registry, precise)
        choice, printed = _emit(made, registry, backend, device, [k.all for _, k in ways])
        kernels, emitted = printed.kernels, printed.emitted
    tiles = tuple(Tiles(*way, choice.spec.one_visit, printed.products) for way in ways[: printed.ways])
    checked = made.checked
    origin = Origin(
        backend=choice.spec,
        command=command or _command(checked, choice, standalone, precise, made.heads),
        versions=(("lossdsl", __version__), ("torch", installed("torch")), *_backend_version(choice)),
        equation=head_equation(made.heads) + equation(made.lossdef, source),
        gradient=gradient(made.joint, registry),
        headed=bool(made.heads),
        precise=precise,
    )
    missing = made.joint.second_missing
    artifact = assemble(checked, made.graph, kernels, emitted, origin, missing, standalone, tiles)
    return Built(
        **{f.name: getattr(made, f.name) for f in fields(made)},
        choice=choice,
        kernels=kernels,
        emitted=emitted,
        artifact=artifact,
    )


# --- the functions of a module ----------------------------------------------------------------------------------------


def module_kernels(
    made: Middle, registry: Registry, one_visit: bool = False, only: frozenset[str] | None = None
) -> tuple[Kernel, ...]:
    """Plan each function of the module by itself, so that none computes what it does not return.

    Derivatives by params are functions of their own, since a training step rarely wants them; so is the gradient by the
    first input where there are more. `one_visit` adds those of reduced value and gradient together, and the weights
    alone, whose sum must be known before. `only` names the functions that are wanted, where not all are.
    """
    leaves = [leaf for leaf in made.graph.leaves if leaf.differentiable]
    inputs = [leaf.name for leaf in leaves if leaf.role == "input"]
    rows = ("rows", "weight")
    asked: list[tuple[JointGraph, str, str, tuple[str, ...]]] = [(made.by_inputs, "value", "value", rows)]
    if any(name.startswith("aux.") for name, _ in made.graph.outputs):
        asked.append((made.by_inputs, "value", "aux", (*rows, "aux")))
    groups = {"": ("grad",)} if inputs else {}
    if len(inputs) > 1 and (first := identifier(inputs[0])) != "params":
        groups[f"_{first}"] = (f"grad.{inputs[0]}",)
    for suffix, heads in groups.items():
        asked.append((made.by_inputs, "gradient", f"gradient{suffix}", heads))
        if one_visit:
            asked.append((made.by_inputs, "both", f"both{suffix}", (*rows, REDUCED, *heads)))
    if inputs and one_visit:
        asked.append((made.by_inputs, "value", "weight", ("weight",)))
    if inputs:
        asked.append((made.by_inputs, "second", "second", ("second",)))
    if len(inputs) < len(leaves):
        asked.append((made.joint, "gradient", "gradient_params", ("grad",)))
        asked.append((made.joint, "second", "second_params", ("second",)))
    found = [_planned(*one, registry, made.precise) for one in asked if only is None or one[2] in only]
    return tuple(kernel for kernel in found if kernel is not None)


def _constant_params(graph: Graph) -> Graph:
    leaves = tuple(replace(x, differentiable=False) if x.role == "param" else x for x in graph.leaves)
    return replace(graph, leaves=leaves)


def _planned(
    joint: JointGraph, kind: str, name: str, heads: tuple[str, ...], registry: Registry, precise: bool
) -> Kernel | None:
    """One program under the name that its function will have, or None where there is none."""
    if kind == "both":
        joint = with_reduced(joint, registry)
    outputs = tuple(o for o in joint.graph.outputs if o[0] in heads or o[0].partition(".")[0] in heads)
    if not outputs:
        return None
    part = replace(joint, graph=replace(joint.graph, outputs=outputs))
    for program in plan(part, registry, precise=precise).programs:
        if program.name.rpartition(".")[2] == kind:
            return Kernel(name, replace(program, name=f"{joint.graph.name}.{name}"), part.graph)
    return None


@contextmanager
def _bounded(first: Front) -> Iterator[None]:
    """What a stage can't do, or only beyond its bounds, as a Diagnostic."""
    try:
        yield
    except NotDifferentiableError as error:
        span = error.origin or first.lossdef.name_span
        label = Label(span, "no gradient is known here")
        fix = "write detach(…) around it if no gradient is meant to flow"
        raise DiagnosticError(first.source, [Diagnostic("E0802", str(error), (label,), fix)]) from None
    except (TooLargeError, RecursionError) as error:
        message = str(error) if isinstance(error, TooLargeError) else "the loss is nested too deep"
        label = Label(first.lossdef.name_span, "this loss is too large to compile")
        fix = "say it with a reduction over an axis, or split the file"
        raise DiagnosticError(first.source, [Diagnostic("E0801", message, (label,), fix)]) from None


# --- the backend ------------------------------------------------------------------------------------------------------


def head_equation(heads: tuple[Head, ...]) -> str:
    """What a head says before the file does."""
    lines = [f"{h.logits} = dot[{h.feature}]({h.hidden}, {h.weight}) + {h.bias}\n" for h in heads]
    return "".join(lines)


def chosen(made: Middle, registry: Registry, device: str = "cpu") -> Choice:
    """The backend that "auto" takes for a loss, and why: what stands before it and can't be used, or can't print it."""
    with _bounded(made):
        return _emit(made, registry, "auto", device, [k.all for _, k in _ways(made, registry, False)])[0]


def _ways(made: Middle, registry: Registry, precise: bool) -> list[tuple[Tiling, TileKernels]]:
    """The ways to take tiles of a loss's matrices, with their kernels."""
    named = (("tile", made.tiling), ("across", made.across))
    return [
        (way, tile_kernels(made.checked.name, way, registry, precise, word))
        for word, way in named
        if isinstance(way, Tiling)
    ]


def tile_programs(made: Middle, registry: Registry) -> dict[str, KernelProgram]:
    """The sweeps over tiles of a loss that multiply its matrices themselves, by their names; none without matrices."""
    if not isinstance(made.tiling, Tiling):
        return {}
    kernels = tile_kernels(made.checked.name, made.tiling, registry, made.precise).all
    return {k.name: k.product for k in kernels if k.product is not None}


@dataclass(frozen=True, slots=True)
class _Printed:
    """The functions of a module as text: of how many ways to take tiles, and for which kernels of those also one that
    multiplies the matrices itself."""

    kernels: tuple[Kernel, ...]
    emitted: Emitted
    ways: int = 0
    products: frozenset[str] = frozenset()


def _emit(
    made: Middle, registry: Registry, backend: str, device: str, ways: Sequence[tuple[TileKernel, ...]]
) -> tuple[Choice, _Printed]:
    """The first choice that has words for the programs; one asked for by name is never replaced. Of the ways to take
    tiles so many as it can print, one at least: the others are quicker at some sizes, no more."""
    backends = dict(registry.backends)
    passed: list[str] = []
    while True:
        choice = choose(backends, backend, device, registry.failures)
        try:
            printed = _with_tiles(choice.spec, ways, made, registry)
        except NotSupportedError as error:
            if backend != "auto":
                raise BackendError(f"backend {backend!r} can't print this loss: {error}") from None
            passed.append(f"{choice.spec.name} can't print {error}")
            del backends[choice.spec.name]
            continue
        return replace(choice, reason="; ".join([*passed, choice.reason])), printed


def _with_tiles(
    spec: BackendSpec, ways: Sequence[tuple[TileKernel, ...]], made: Middle, registry: Registry
) -> _Printed:
    """The kernels of the whole and of tiles as one text; NotSupportedError if a backend can't print the first way."""
    kernels = module_kernels(made, registry, spec.one_visit)
    if not ways:
        return _Printed(kernels, _text(spec, kernels, made, registry))
    for count in range(len(ways), 0, -1):
        tiles = tuple(k for way in ways[:count] for k in way)
        products = _products(spec, tiles, made, registry)
        names = frozenset(k.name.removesuffix("_product") for k in products)
        try:
            emitted = _text(spec, (*kernels, *tiles, *products), made, registry)
            return _Printed(kernels, emitted, count, names)
        except NotSupportedError:
            pass
        try:
            alone = module_kernels(made, registry)
            emitted = _split(spec, alone, (*tiles, *products), made, registry)
            return _Printed(alone, emitted, count, names)
        except NotSupportedError:
            if count == 1:
                raise
    raise InternalError("a loss has no way to take tiles")


def _products(
    spec: BackendSpec, tiles: Sequence[TileKernel], made: Middle, registry: Registry
) -> tuple[TileKernel, ...]:
    """The kernels of tiles that multiply their matrices themselves, as far as a backend can print them: without one the
    matrix is multiplied by torch, a tile in memory."""
    found = []
    for k in tiles if spec.multiplies else ():
        if k.product is not None:
            kernel = replace(k, name=product_name(k.name), program=k.product)
            with suppress(NotSupportedError):
                _text(spec, (kernel,), made, registry)
                found.append(kernel)
    return tuple(found)


def _text(spec: BackendSpec, kernels: tuple[Kernel | TileKernel, ...], made: Middle, registry: Registry) -> Emitted:
    return emit_with(spec, Plan(tuple(k.program for k in kernels), made.plan.notes), made.source, registry)


def _split(
    spec: BackendSpec, kernels: tuple[Kernel, ...], tiles: tuple[TileKernel, ...], made: Middle, registry: Registry
) -> Emitted:
    """Tiles by one backend; by torch's the kernels of the whole matrix, which serve second derivatives and transforms:
    a backend that fuses loops need not multiply matrices."""
    tiled = _text(spec, tiles, made, registry)
    whole = _text(registry.backends["torch"], kernels, made, registry)
    functions = f"{whole.functions.rstrip()}\n\n\n{tiled.functions.lstrip()}"
    return Emitted((*whole.imports, *tiled.imports), functions, (*whole.runtime, *tiled.runtime))


def installed(distribution: str) -> str:
    """The version of an installed distribution, or "unknown"."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"


def _backend_version(choice: Choice) -> tuple[tuple[str, str], ...]:
    name, _, number = choice.spec.distribution.partition(" ")
    return () if name == "lossdsl" or not number else ((name, number),)


def _command(checked: CheckedLoss, choice: Choice, standalone: bool, precise: bool, heads: tuple[Head, ...]) -> str:
    words = ["lossdsl", "compile", source_name(checked), "-o", f"{checked.name}.py", "--backend", choice.spec.name]
    for h in heads:
        words += ["--head", f"{h.logits}=linear"]
    return " ".join([*words, *(["--standalone"] if standalone else []), *(["--precise"] if precise else [])])
