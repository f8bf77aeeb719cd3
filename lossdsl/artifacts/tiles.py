"""What a generated module says of its tiles: the TILING that the runtime reads, as literals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lossdsl.artifacts.literals import Apply, Dict, Literal, Name
from lossdsl.ir.lower import IGNORE
from lossdsl.plan.tiles.cut import Matrix
from lossdsl.plan.tiles.features import Side
from lossdsl.plan.tiles.programs import TileKernel, TileKernels
from lossdsl.plan.tiles.steps import Give
from lossdsl.plan.tiles.tiling import Tiling

SPECS = ("TakeSpec", "GiveSpec", "StepSpec", "SideSpec", "MatrixSpec", "VariantSpec", "TilingSpec")
RUNTIME = tuple(
    f"lossdsl.runtime.{name}" for name in ("tilespec", "factors", "matrices", "tilesizes", "tilerun", "tiling")
)


@dataclass(frozen=True, slots=True)
class Tiles:
    """A tiling and its kernels, as the module will have them; `fused`: a kernel holds nothing besides its results.
    `products`: kernels of which the module has a function that multiplies the matrices itself."""

    tiling: Tiling
    kernels: TileKernels
    fused: bool
    products: frozenset[str] = frozenset()


def functions(tiles: Tiles) -> Dict:
    """The module's functions that run the steps of one way."""
    names = [k.name for k in tiles.kernels.all]
    names += [product_name(n) for n in names if n in tiles.products]
    return Dict(tuple((n, Name(n)) for n in names))


def product_name(kernel: str) -> str:
    """The function of a kernel that multiplies the matrices itself."""
    return f"{kernel}_product"


def describe_tiles(tiles: Tiles, names: Mapping[str, str]) -> Apply:
    """The TILING; `names` maps the file's names to the module's."""
    t, kernels = tiles.tiling, tiles.kernels
    say = _Names(names, tiles.products)
    forward = {k.gives[0].name: k for k in kernels.forward}
    matrices = tuple(_matrix(say, m, three, forward, kernels) for m, three in zip(t.matrices, t.sides, strict=True))
    variants = tuple(
        Apply(
            "VariantSpec",
            (
                name,
                tuple(_step(say, k, t.axis) for k in steps),
                tuple((say(output), say(value)) for output, value in outputs),
            ),
        )
        for name, steps, outputs in kernels.variants
    )
    keywords: list[tuple[str, Literal]] = [
        ("axis", t.axis),
        ("matrices", matrices),
        ("variants", variants),
        ("temporaries", 0 if tiles.fused else t.temporaries),
    ]
    if kernels.keep is not None:
        keywords.append(("keep", _step(say, kernels.keep, t.axis)))
        keywords += [] if t.picks else [("picks", False)]
    return Apply("TilingSpec", keywords=tuple(keywords))


class _Names:
    """A value's name in the module: inputs and params by their identifiers there."""

    def __init__(self, names: Mapping[str, str], products: frozenset[str]) -> None:
        self.names = names
        self.products = products

    def __call__(self, name: str) -> str:
        if name == IGNORE:
            return "ignore_index"
        head, dot, tail = name.rpartition(".")
        if name.startswith("@d."):  # @d.left.z0.x
            return f"{head}.{self.names[tail]}" if tail in self.names else name
        if head == "grad" and dot:
            return f"grad.{self.names.get(tail, tail)}"
        return self.names.get(name, name)


def _matrix(
    say: _Names,
    m: Matrix,
    three: tuple[Side, Side, Side | None],
    forward: Mapping[str, TileKernel],
    kernels: TileKernels,
) -> Apply:
    left, right, bias = three
    keywords: list[tuple[str, Literal]] = [
        ("name", m.name),
        ("kind", m.kind),
        ("rows", m.rows),
        ("columns", m.columns),
        ("over", m.over),
        ("left", _side(say, left, forward, kernels)),
        ("right", _side(say, right, forward, kernels)),
    ]
    if bias is not None:
        keywords.append(("bias", _side(say, bias, forward, kernels)))
    return Apply("MatrixSpec", keywords=tuple(keywords))


def _side(say: _Names, side: Side, forward: Mapping[str, TileKernel], kernels: TileKernels) -> Apply:
    keywords: list[tuple[str, Literal]] = []
    if side.inputs:
        keywords.append(("inputs", tuple(map(say, side.inputs))))
    if side.params:
        keywords.append(("params", tuple(map(say, side.params))))
    if side.lists:
        keywords.append(("lists", tuple(map(say, side.lists))))
    if side.step is not None:
        keywords.append(("forward", _step(say, forward[side.value], side.along)))
    back = tuple((group, _step(say, k, side.along)) for name, group, k in kernels.backward if name == side.cotangent)
    if side.step is not None and back:
        keywords.append(("back", back))
    if side.along:
        keywords.append(("apart", True))
    if side.through:
        keywords.append(("through", tuple((say(x), say(i)) for x, i in side.through)))
    return Apply("SideSpec", (say(side.value), side.axes, side.cotangent), tuple(keywords))


def _step(say: _Names, kernel: TileKernel, axis: str) -> Apply:
    takes = tuple(Apply("TakeSpec", (say(name), *((dim,) if dim >= 0 else ()))) for name, dim in kernel.takes)
    gives = tuple(Apply("GiveSpec", (say(g.name), g.how, *_dim(g, axis))) for g in kernel.gives)
    sizes = (kernel.sizes,) if kernel.sizes else ()
    product = (("product", product_name(kernel.name)),) if kernel.name in say.products else ()
    return Apply("StepSpec", (kernel.name, kernel.sweep, takes, gives, *sizes), product)


def _dim(give: Give, axis: str) -> tuple[int, ...]:
    """Along which dimension a result has the tiled rows."""
    for i, a in enumerate(give.axes):
        if a == axis or a.startswith("Tile"):
            return (i,)
    return ()
