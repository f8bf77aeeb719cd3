"""The functions of a module in the words of a backend: of the one asked for, or of the best that has them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from lossdsl.artifacts.describe import Kernel
from lossdsl.artifacts.emission import emit_with
from lossdsl.artifacts.tiles import product_name
from lossdsl.backends.api import Emitted, NotSupportedError
from lossdsl.backends.manager import BackendError, Choice, choose
from lossdsl.pipeline.functions import module_kernels
from lossdsl.pipeline.stages import Middle, bounded
from lossdsl.plan.kernel import KernelProgram, Plan
from lossdsl.plan.tiles.programs import TileKernel, TileKernels, tile_kernels
from lossdsl.plan.tiles.tiling import Tiling, tile
from lossdsl.registry import BackendSpec, Registry
from lossdsl.source.diagnostic import InternalError


def chosen(made: Middle, registry: Registry, device: str = "cpu") -> Choice:
    """The backend that "auto" takes for a loss, and why: what stands before it and can't be used, or can't print it."""
    with bounded(made):
        return printed_by(made, registry, "auto", device, precise=False)[0]


Way = tuple[Tiling, TileKernels]


def ways_to_tile(made: Middle, registry: Registry, precise: bool, picks: bool = True) -> list[Way]:
    """The ways to take tiles of a loss's matrices, with their kernels. `picks`: of the rows that are there alone."""
    found = []
    for word, way in (("tile", made.tiling), ("across", made.across)):
        if isinstance(way, Tiling) and way.keep is not None and not picks:
            way = tile(way.cut, registry, picks=False)
        if isinstance(way, Tiling):
            found.append((way, tile_kernels(made.checked.name, way, registry, precise, word)))
    return found


def picks_rows(spec: BackendSpec) -> bool:
    """Whether a backend's tiles are of the rows that are there alone: how many these are has to be known before, and to
    wait for that a device would have to stand still. `devices` begin with the one that a backend is for."""
    return spec.devices[0] in ("cpu", "*")


def tile_programs(made: Middle, registry: Registry) -> dict[str, KernelProgram]:
    """The sweeps over tiles of a loss that multiply its matrices themselves, as a device does; none without."""
    ways = ways_to_tile(made, registry, made.precise, picks=False)[:1] if isinstance(made.tiling, Tiling) else ()
    return {k.name: k.product for _, kernels in ways for k in kernels.all if k.product is not None}


@dataclass(frozen=True, slots=True)
class Printed:
    """The functions of a module as text: of which ways to take tiles, and for which kernels of those also one that
    multiplies the matrices itself."""

    kernels: tuple[Kernel, ...]
    emitted: Emitted
    ways: tuple[Way, ...] = ()
    products: frozenset[str] = frozenset()


def printed_by(made: Middle, registry: Registry, backend: str, device: str, precise: bool) -> tuple[Choice, Printed]:
    """The first choice that has words for the programs; one asked for by name is never replaced. Of the ways to take
    tiles so many as it can print, one at least: the others are quicker at some sizes, no more."""
    backends = dict(registry.backends)
    passed: list[str] = []
    known: dict[bool, list[Way]] = {}
    while True:
        choice = choose(backends, backend, device, registry.failures)
        try:
            picks = picks_rows(choice.spec)
            if picks not in known:
                known[picks] = ways_to_tile(made, registry, precise, picks)
            printed = _with_tiles(choice.spec, known[picks], made, registry)
        except NotSupportedError as error:
            if backend != "auto":
                hint = 'build it with backend="torch", or "auto" for the first that can'
                raise BackendError(f"backend {backend!r} can't print this loss: {error}; {hint}") from None
            passed.append(f"{choice.spec.name} can't print {error}")
            del backends[choice.spec.name]
            continue
        return replace(choice, reason="; ".join([*passed, choice.reason])), printed


def _with_tiles(spec: BackendSpec, ways: Sequence[Way], made: Middle, registry: Registry) -> Printed:
    """The kernels of the whole and of tiles as one text; NotSupportedError if a backend can't print the first way."""
    kernels = module_kernels(made, registry, spec.one_visit)
    if not ways:
        return Printed(kernels, _text(spec, kernels, made, registry))
    for count in range(len(ways), 0, -1):
        tiles = tuple(k for _, way in ways[:count] for k in way.all)
        products = _products(spec, tiles, made, registry)
        names = frozenset(k.name.removesuffix("_product") for k in products)
        try:
            emitted = _text(spec, (*kernels, *tiles, *products), made, registry)
            return Printed(kernels, emitted, tuple(ways[:count]), names)
        except NotSupportedError:
            pass
        try:
            alone = module_kernels(made, registry)
            emitted = _split(spec, alone, (*tiles, *products), made, registry)
            return Printed(alone, emitted, tuple(ways[:count]), names)
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
