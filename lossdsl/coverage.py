"""Which backend prints which loss, and how: fused, in tiles, partly as library calls, or composed; and the bytes that
it moves.

Everything is read from the programs that a backend is given and from whether it can print them, so that a backend of
another distribution is covered as ours are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lossdsl.artifacts.emission import emit_with
from lossdsl.backends.api import NotSupportedError
from lossdsl.backends.manager import BackendError
from lossdsl.pipeline import Middle, module_kernels
from lossdsl.plan.cost import count, statements, values_of
from lossdsl.plan.kernel import Island, KernelProgram, Load, Loop, Plan, Stmt
from lossdsl.plan.tiles.programs import tile_kernels
from lossdsl.plan.tiles.tiling import Tiling
from lossdsl.registry import BackendSpec, Registry

FUSED, PARTLY, COMPOSED, TILES, NO = "fused", "partly", "composed", "tiles", "no"
STEP = frozenset({"value", "gradient", "both"})  # what a training step runs


@dataclass(frozen=True, slots=True)
class Covered:
    """How a backend runs a loss.

    `how` is one of the words above (tiles: a matrix in blocks, never whole); `islands` are its library calls (a
    matmul, a sort); `bytes` those that value and gradient of an element of the largest input move, in float32 with long
    axes; `reason` says what the backend has no words for.
    """

    how: str
    islands: tuple[str, ...] = ()
    bytes: float = 0.0
    reason: str = ""

    def __str__(self) -> str:
        if self.how == NO:
            return f"no: {self.reason}"
        if self.how == TILES:
            return TILES
        calls = f" ({', '.join(self.islands)})" if self.islands else ""
        return f"{self.how}{calls}, {self.bytes:.3g} B"


def coverage(made: Middle, registry: Registry) -> dict[str, Covered]:
    """How each backend runs a training step of a loss, by the backend's name."""
    tiles: tuple[KernelProgram, ...] = ()
    if isinstance(made.tiling, Tiling):
        tiles = tuple(k.program for k in tile_kernels(made.checked.name, made.tiling, registry, made.precise).all)
    planned = {
        one_visit: {k.name: k.program for k in module_kernels(made, registry, one_visit, STEP)}
        for one_visit in {spec.one_visit for spec in registry.backends.values()}
    }
    return {
        name: _covered(made, spec, planned[spec.one_visit], tiles, registry)
        for name, spec in sorted(registry.backends.items())
    }


def _covered(
    made: Middle,
    spec: BackendSpec,
    programs: dict[str, KernelProgram],
    tiles: tuple[KernelProgram, ...],
    registry: Registry,
) -> Covered:
    if tiles and not _refused(spec, tiles, made, registry):
        return Covered(TILES)
    if reason := _refused(spec, tuple(programs.values()), made, registry):
        return Covered(NO, reason=reason)
    step = [programs["both"]] if "both" in programs else list(programs.values())
    inside = [s for p in step for s in statements(p.body)]
    islands = tuple(sorted({s.op for s in inside if isinstance(s, Island)}))
    if not spec.fuses:
        return Covered(COMPOSED, islands, sum(count(_unrolled(p)).bytes for p in step))
    outside = any(_passes(p, s) for p in step for s in p.body)
    loops = any(isinstance(s, Loop) for p in step for s in p.body)
    how = FUSED if not (outside or islands) else PARTLY if loops else COMPOSED
    return Covered(how, islands, sum(count(p).bytes for p in step))


def _refused(spec: BackendSpec, programs: tuple[KernelProgram, ...], made: Middle, registry: Registry) -> str:
    """What the backend has no words for, or nothing."""
    try:
        emit_with(spec, Plan(programs, made.plan.notes), made.source, registry)
    except (NotSupportedError, BackendError) as error:
        return str(error) or "it doesn't say why"
    except Exception as error:  # the backend's own fault, which the table is there to show
        return f"it fails with {type(error).__name__}: {error}"
    return ""


def _passes(program: KernelProgram, s: Stmt) -> bool:
    """Whether a statement outside all loops passes over an array as large as the largest input."""
    largest = max((b.axes for b in program.buffers if b.role == "in"), key=len, default=())
    view = isinstance(s, Load) and all(i in program.axes for i in s.index)
    return not (isinstance(s, Loop) or view) and any(set(largest) <= set(v.axes) for v in values_of(s))


def _unrolled(program: KernelProgram) -> KernelProgram:
    """The program with every statement by itself, over whole arrays."""
    return replace(program, body=tuple(statements(program.body)))
