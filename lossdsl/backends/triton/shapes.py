"""Which shape of kernel for which rows: part of the run time of generated modules."""

from __future__ import annotations

from dataclasses import dataclass, replace

ON_CHIP = 16384  # the longest row that is held in registers (a longer one spills on every device looked at)
SORTED = 512  # the longest row that is sorted in registers (with more, sorting spills, and takes minutes to compile)
LONGEST_SORTED = 4096  # that is sorted so where there is no other way (a compiler of 262144 runs out of memory)
SHORT = 1024  # the longest row that a program has others beside
LOOPED = 0.84  # what kernels in blocks take of the estimate for rows on chip, at most
LONGEST = 2**20  # entries of a tile, by Triton's own limit
SPLIT_BELOW = 2  # rows a multiprocessor; with fewer, long rows are split


@dataclass(frozen=True, slots=True)
class Device:
    """What the choice of a kernel depends on: threads of a warp, multiprocessors."""

    warp: int = 32
    processors: int = 132


@dataclass(frozen=True, slots=True)
class Shape:
    """How a stage is launched: `kind` is "rows" or "blocks", `rows` those of a program, `block` entries of a row at a
    time, `splits` the programs of a row."""

    kind: str
    rows: int
    block: int
    warps: int
    splits: int = 1


@dataclass(frozen=True, slots=True)
class Demand:
    """What a kernel wants registers for.

    values   of an entry that are alive at once; half a one more for each tensor beyond two that is moved by entries,
             and more for each whose entries don't lie side by side, or are wider
    rows     values of a row that are alive at once
    beside   registers that the functions it calls take for themselves
    """

    values: float
    rows: int = 0
    beside: int = 0


def power_of_2(n: int) -> int:
    """The least power of 2 that is not below n."""
    return 1 << max(n - 1, 0).bit_length()


def registers(demand: Demand, entries: int, wide: bool, rows: int = 1) -> int:
    """What a thread needs for so many entries, of so many rows: near what compilers for sm_80 to sm_100 make of it. A
    few values of a row are in the constant, which every kernel has; of several rows, so are their addresses not. Many
    values of one row count twice: they are alive across the sweep in which the most of its entries are."""
    few, many = max(0, demand.rows - 5), max(0, demand.rows - 8)
    own = few + many if rows == 1 else 1.5 * rows * few
    values = int((2 * demand.values - 1) * entries) // 2 + int(own) + demand.beside
    return values * (2 if wide else 1) + 17


def available(warps: int, device: Device) -> int:
    """The registers of a thread: 64 Ki for the threads of a block, 255 at most."""
    return min(255, 65536 // (warps * device.warp))


def shape_of(
    rows: int, length: int, demand: tuple[Demand, Demand], wide: bool, device: Device, whole: bool = False, run: int = 4
) -> Shape:
    """The kernel for so many rows of this length (0: with nothing to sweep over).

    Short rows go several to a program, ones up to 16384 whole into registers if what is alive of an entry fits; the
    others in blocks, and if there are too few of them for the device, each by several programs. `demand`: of the kernel
    with rows on chip, and of that with blocks. `whole`: rows have to be on chip, where longer ones spill to local
    memory. `run`: entries of 16 bytes, of which a thread has as many at least, so that it moves them at once.
    """
    if not length:  # entries are rows
        while run > 1 and registers(demand[0], run, wide, run) > available(4, device):
            run //= 2
        return Shape("rows", 128 * run, 1, 128 // device.warp)
    found = on_chip(length, demand[0], wide, device, run)
    if found is not None:
        return found
    if whole:
        return Shape("rows", 1, max(power_of_2(length), 2), 1024 // device.warp)
    warps = 256 // device.warp
    entries = 8
    while entries > 2:
        need = registers(demand[1], entries, wide) * LOOPED
        if need <= (134 if entries > run else available(warps, device)):
            break
        entries //= 2
    block = 256 * entries
    splits = 1
    if rows < SPLIT_BELOW * device.processors:
        most = max(1, length // (4 * block))
        splits = min(most, max(1, 2 * SPLIT_BELOW * device.processors // max(rows, 1)), 64)
    return Shape("blocks", 1, block, warps, splits)


def on_chip(length: int, demand: Demand, wide: bool, device: Device, run: int) -> Shape | None:
    """How rows of this length are held in registers as a whole; None if they don't fit, `run` entries a thread at
    least where a row is long enough to go over it in blocks instead."""
    block = max(power_of_2(length), 2)
    if block > ON_CHIP:
        return None
    together = max(1, SHORT // block)
    threads = min(1024, max(device.warp, together * block // 8))
    least = run if block > SHORT else 1
    while threads <= 1024 and together * block // threads >= min(least, 8):
        warps, entries = threads // device.warp, together * block // threads
        if registers(demand, entries, wide, max(1, entries // block)) <= available(warps, device):
            return Shape("rows", together, block, warps)
        threads *= 2
    return None


def too_long(length: int, limit: int, demand: Demand, wide: bool, device: Device) -> bool:
    """Whether rows that are needed as a whole don't fit on chip."""
    return length > limit or on_chip(length, demand, wide, device, 1) is None


def lighter(shape: Shape, whole: bool, device: Device, run: int = 4) -> Shape | None:
    """The next shape for a kernel that spills in this one: more threads a row, as long as each has a `run` of entries
    at least, then fewer rows a program, then blocks (which a stage that needs its rows as a `whole` hasn't), at last
    smaller ones; None where there is none left."""
    if shape.kind == "rows":
        entries = shape.rows * shape.block // (shape.warps * device.warp)
        more = whole or shape.block <= SHORT or entries >= 2 * run
        if more and shape.warps * 2 * device.warp <= 1024:
            return replace(shape, warps=shape.warps * 2)
        if shape.rows > 1:
            return replace(shape, rows=shape.rows // 2)
        return None if whole else Shape("blocks", 1, 2048, 256 // device.warp)
    return replace(shape, block=shape.block // 2) if shape.block > 256 else None
