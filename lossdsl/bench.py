"""Timing losses: backends and baselines in one process, interleaved, checked against float64 before anything is timed.

Only ratios within one run mean anything: between processes torch itself moves by a factor of two.

    clone    fresh memory for a copy of every tensor that gets a gradient: the floor of a fresh gradient
    copy     the same into memory that is there: the floor of a gradient in place
    exp      `torch.exp(x, out=y)` of one of them: the unit of transcendentals
    eager    the loss as one writes it by hand in torch (`lossdsl.handwritten`), the gradient by autograd; where torch
             has no words for it, the text of the torch backend's value
    compile  `torch.compile` of that
    plain    with a head: the same loss by the first backend, its logits in memory
    inplace  the first backend's with `inplace=True`: logits that are there, and are overwritten
    matmuls  with a head: the matrix products that no gradient can do without, on the same tiles and nothing between
"""

from __future__ import annotations

import ctypes
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from lossdsl.check.typed import CheckedLoss, Input
from lossdsl.handwritten import NoWordError, handwritten
from lossdsl.ir.lower import lower
from lossdsl.pipeline import Built, build, split_heads
from lossdsl.plan.cost import count
from lossdsl.plan.kernel import Cost
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import InternalError
from lossdsl.source.text import Source

BASELINES = ("clone", "copy", "exp", "eager", "compile", "plain", "matmuls")
WARM_UP = 3
SETS = 2  # of inputs, taken by turns
IGNORED = -100
COLD = 256 * 2**20  # bytes that are written between two calls on a GPU, more than any second-level cache holds
TILE = 384  # rows
NO_GPU = (
    "torch finds no GPU here, so nothing can be timed on one; "
    "what compilers make of the kernels can be looked at all the same: lossdsl inspect LOSS --target sm_90"
)

Run = Callable[[Sequence[Tensor]], object]


class WrongGradientError(Exception):
    """What was to be timed gives a wrong value or gradient."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one candidate over all rounds: median and quartiles, and the peak of memory in bytes beyond what was
    held before (None where it can't be asked for)."""

    median: float
    low: float
    high: float
    peak: int | None


@dataclass(frozen=True, slots=True)
class Report:
    """One loss at one shape. `ratios` are of medians, against each baseline that ran; `exps` are the transcendentals an
    element in the plan of value and gradient, `copies` the bytes that it moves for each that the copy does; `cache` is
    "cold" or "hot" on a GPU."""

    loss: str
    sizes: tuple[tuple[str, int], ...]
    dtype: str
    threads: int
    rounds: int
    timings: Mapping[str, Timing]
    failures: Mapping[str, str] = field(default_factory=dict)
    exps: float = 0.0
    copies: float = 0.0
    cache: str = ""

    def of_copy(self, name: str) -> float | None:
        """The share of the copy's bandwidth that one had by the plan's bytes: 1 where it moved these as quickly."""
        if "copy" not in self.timings or not self.copies:
            return None
        return self.copies / self.ratio(name, "copy")

    def ratio(self, name: str, baseline: str) -> float:
        return self.timings[name].median / self.timings[baseline].median

    def as_json(self) -> dict[str, Any]:
        """Plain data: the timings and every ratio to a baseline."""
        baselines = [b for b in BASELINES if b in self.timings]
        plain = asdict(self)
        plain["sizes"] = dict(self.sizes)
        plain["ratios"] = {n: {b: self.ratio(n, b) for b in baselines if b != n} for n in self.timings}
        plain["of_copy"] = {n: self.of_copy(n) for n in self.timings}
        return plain


def measure(
    source: Source,
    registry: Registry,
    sizes: Mapping[str, int],
    *,
    rounds: int = 30,
    cold: bool = True,
    **how: Any,
) -> Report:
    """Time value and gradient of a loss whose axes have these sizes, after checking them; `how` as `prepare` has it.

    On a GPU a call finds the second-level cache `cold`, or as the call before has left it.
    """
    return prepare(source, registry, sizes, **how).timed(rounds, cold)


def prepare(
    source: Source,
    registry: Registry,
    sizes: Mapping[str, int],
    *,
    backends: Sequence[str] = ("cpu", "torch"),
    baselines: Sequence[str] = ("clone", "copy", "exp", "eager"),
    others: Mapping[str, Callable[..., Tensor]] | None = None,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    heads: Mapping[str, str] | None = None,
    spread: float = 2.0,
    inplace: bool = False,
    inaccurate: bool = False,
) -> Prepared:
    """Build what is to be timed, run each once and compare its value and gradient with float64.

    With `heads` (as `pipeline.middle` takes them) the logits are products, of this standard deviation; HeadError for a
    loss that can't have one.
    `inplace` times the first backend once more, with gradients over the logits; ValueError for one that can't.
    `others` are more baselines: functions of the loss's inputs, in order, that give the mean loss. A baseline that is
    off is left out, or timed all the same where `inaccurate` ones are wanted. Raises BackendError for a backend that
    can't be used and WrongGradientError for one that is wrong; ValueError for a GPU where there is none.
    """
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(NO_GPU)
    built = {name: build(source, registry, name, device=device, modes=heads) for name in backends}
    whole = built.get("torch") or build(source, registry, "torch", device=device, modes=heads)
    checked = whole.checked

    def drawn(seed: int) -> list[Tensor]:
        return _scaled(draw(checked, sizes, dtype, device, seed), whole, spread)

    first = drawn(0)
    places = [i for i, x in enumerate(first) if x.requires_grad]
    if not places:
        raise InternalError(f"{checked.name} has no input with a gradient")
    runs: dict[str, Run] = {name: _module(b, places) for name, b in built.items()}
    if inplace:
        runs["inplace"] = _InPlace(built[backends[0]], places)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    if "eager" in baselines:
        runs["eager"] = _by_hand(whole, registry, places, sizes, wide, compiled=False)
    if "compile" in baselines:
        runs["compile"] = _by_hand(whole, registry, places, sizes, wide, compiled=True)
    if "plain" in baselines and whole.heads:
        runs["plain"] = _by_autograd(_plain(source, registry, next(iter(built)), device, whole, heads or {}), places)
    for name, function in (others or {}).items():
        runs[name] = _by_autograd(function, places)
    planned = _planned(built, whole, sizes)
    failures = _checked(runs, whole, first, places, dtype, {*built, "inplace"}, inaccurate)
    report = Report(
        loss=checked.name,
        sizes=tuple(sizes.items()),
        dtype=str(dtype).removeprefix("torch."),
        threads=torch.get_num_threads(),
        rounds=0,
        timings={},
        failures=failures,
        exps=0.0 if planned is None else planned.exps,
        copies=0.0 if planned is None or whole.heads else _copies(planned, first, places),
    )
    return Prepared(report, runs, drawn, places, tuple(baselines), whole, device)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is built and checked, to be timed: `draw` makes the inputs of a seed, which are not kept between."""

    report: Report
    runs: Mapping[str, Run]
    draw: Callable[[int], list[Tensor]]
    places: Sequence[int]
    baselines: Sequence[str]
    whole: Built
    device: str

    def timed(self, rounds: int = 30, cold: bool = True, sets: int = SETS, warm_up: int = WARM_UP) -> Report:
        """The report with the timings of so many rounds."""
        inputs = [self.draw(seed) for seed in range(sets)]
        floors = _floors(inputs[0], self.places)
        if self.whole.heads:
            floors["matmuls"] = _products(self.whole)
        runs = {**self.runs, **{name: run for name, run in floors.items() if name in self.baselines}}
        return replace(
            self.report,
            rounds=rounds,
            timings=_timed(runs, inputs, rounds, self.device, cold, warm_up),
            threads=torch.get_num_threads(),
            cache="" if not self.device.startswith("cuda") else "cold" if cold else "hot",
        )


def _planned(built: Mapping[str, Built], whole: Built, sizes: Mapping[str, int]) -> Cost | None:
    kernels = {k.name: k.program for b in (*built.values(), whole) for k in b.kernels}
    program = kernels.get("both") or kernels.get("gradient")
    return None if program is None else count(program, sizes)


def _copies(planned: Cost, tensors: Sequence[Tensor], places: Sequence[int]) -> float:
    """The plan's bytes for each byte of a copy, both of float32: a copy reads and writes what gets a gradient."""
    largest = max(x.numel() for x in tensors)
    return planned.bytes * largest / (8 * sum(tensors[i].numel() for i in places))


# --- inputs -----------------------------------------------------------------------------------------------------------


def draw(
    checked: CheckedLoss, sizes: Mapping[str, int], dtype: torch.dtype, device: str = "cpu", seed: int = 0
) -> list[Tensor]:
    """Random tensors for a loss's inputs, within what the file says of them; those with a gradient require it."""
    generator = torch.Generator().manual_seed(seed)
    return [_drawn(i, sizes, dtype, generator).to(device).requires_grad_(_differentiable(i)) for i in checked.inputs]


def _scaled(tensors: list[Tensor], built: Built, spread: float) -> list[Tensor]:
    """The tensors, those of heads such that logits have this standard deviation."""
    names = [i.name for i in built.checked.inputs]
    for head in built.heads:
        hidden, weight = tensors[names.index(head.hidden)], tensors[names.index(head.weight)]
        with torch.no_grad():
            hidden /= 2  # of what `draw` gives, which has 2
            weight *= spread / 2 / weight.shape[-1] ** 0.5
        tensors[names.index(head.bias)] = torch.zeros_like(tensors[names.index(head.bias)])  # and without a gradient
    return tensors


def _differentiable(i: Input) -> bool:
    return not i.fixed and (i.kind == "real" or i.kind.startswith("prob"))


def _drawn(i: Input, sizes: Mapping[str, int], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    missing = [a for a in i.axes if a.rstrip("'") not in sizes]
    if missing:
        raise ValueError(f"{i.name} has the axis {missing[0]}, whose size isn't given")
    shape = [sizes[a.rstrip("'")] for a in i.axes]
    if i.kind == "bool":
        return torch.rand(shape, generator=generator) < 0.5
    if i.kind == "real" or i.kind.startswith("prob"):
        x = torch.randn(shape, generator=generator) * 2
        if i.kind.startswith("prob"):
            x = torch.softmax(x, -1)
        elif i.bounds is not None:
            low = i.bounds.low if math.isfinite(i.bounds.low) else min(0.0, i.bounds.high - 1)
            high = i.bounds.high if math.isfinite(i.bounds.high) else low + 1
            x = low + (high - low) * (0.05 + 0.9 * torch.rand(shape, generator=generator))
        return x.to(dtype)
    target = i.kind.partition(" ")[2]
    low = 0 if i.bounds is None or not math.isfinite(i.bounds.low) else int(i.bounds.low)
    return torch.randint(low, low + sizes.get(target, 4), shape, generator=generator)


# --- what is timed ----------------------------------------------------------------------------------------------------


def _module(built: Built, places: Sequence[int]) -> Run:
    """Value and gradient through the module, as a training step asks for them."""
    module = built.artifact.load()
    loss = getattr(module, str(built.artifact.manifest["class"]))()
    return _by_autograd(loss, places)


def _by_autograd(function: Callable[..., Tensor], places: Sequence[int]) -> Run:
    def run(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        value = function(*tensors)
        value = value.mean() if value.dim() else value  # of a map
        return (value.detach(), *torch.autograd.grad(value, [tensors[i] for i in places]))

    return run


def _plain(
    source: Source, registry: Registry, backend: str, device: str, headed: Built, modes: Mapping[str, str]
) -> Callable[..., Tensor]:
    """A loss without its heads, whose products are whole before it sees them."""
    built = build(source, registry, backend, device=device, modes=split_heads(modes)[0])
    loss = getattr(built.artifact.load(), str(built.artifact.manifest["class"]))()
    names = [i.name for i in headed.checked.inputs]
    heads = {h.logits: h for h in headed.heads}
    wanted = [i.name for i in built.checked.inputs]

    def run(*tensors: Tensor) -> Tensor:
        given = dict(zip(names, tensors, strict=True))
        for name, h in heads.items():
            given[name] = torch.nn.functional.linear(given[h.hidden], given[h.weight], given[h.bias])
        value: Tensor = loss(*(given[name] for name in wanted))
        return value

    return run


class _Filled(torch.autograd.Function):
    """A tensor that is there, as if it had been computed from x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, filled: Tensor) -> Tensor:
        return filled.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


class _InPlace:
    """Value and gradient over inputs that are computed; `before` fills these, which isn't timed."""

    def __init__(self, built: Built, places: Sequence[int]) -> None:
        if built.artifact.manifest["fresh"]:
            raise ValueError(f"{built.checked.name} can't be inplace: {built.artifact.manifest['fresh']}")
        self.loss = getattr(built.artifact.load(), str(built.artifact.manifest["class"]))(inplace=True)
        self.places = places
        self.rooms: dict[int, Tensor] = {}
        self.full = False

    def before(self, tensors: Sequence[Tensor]) -> None:
        for i in self.places:
            x = tensors[i].detach()
            if i not in self.rooms or self.rooms[i].shape != x.shape or self.rooms[i].dtype != x.dtype:
                self.rooms[i] = torch.empty_like(x)
            self.rooms[i].copy_(x)
        self.full = True

    def __call__(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        if not self.full:
            self.before(tensors)
        self.full = False
        leaves = [tensors[i] for i in self.places]
        given = list(tensors)
        for i in self.places:
            given[i] = _Filled.apply(tensors[i], self.rooms[i])  # type: ignore[no-untyped-call]
        value = self.loss(*given)
        return (value.detach(), *torch.autograd.grad(value, leaves))


def _by_hand(
    whole: Built,
    registry: Registry,
    places: Sequence[int],
    sizes: Mapping[str, int],
    dtype: torch.dtype,
    compiled: bool,
) -> Run:
    """The value as torch's operations under autograd."""
    params = {p.name: p.default for p in whole.checked.params if not p.modes}
    try:
        graph = lower(whole.checked, registry)
        module = handwritten(graph, [i.name for i in whole.checked.inputs], params, sizes)
    except NoWordError:
        return _composed(whole, places, compiled)
    module = module.to(dtype)
    function = torch.compile(module, dynamic=False) if compiled else module

    def mean(*tensors: Tensor) -> Tensor:  # halves as torch's autocast has losses
        value: Tensor = function(*(x.to(dtype) if x.is_floating_point() else x for x in tensors))
        return value

    return _by_autograd(mean, places)


def _composed(whole: Built, places: Sequence[int], compiled: bool) -> Run:
    """The value by the text of the torch backend."""
    program = next(k.program for k in whole.kernels if k.name == "value")
    function = whole.artifact.load().value
    names = [i.name for i in whole.checked.inputs]
    params = {p.name: torch.tensor(p.default, dtype=torch.float64) for p in whole.checked.params if not p.modes}
    params["ignore_index"] = torch.tensor(IGNORED, dtype=torch.float64)
    order = [b.name for b in program.buffers if b.role in ("in", "param")]
    outs = [b.name for b in program.buffers if b.role == "out"]

    def mean(*tensors: Tensor) -> Tensor:
        given = dict(zip(names, tensors, strict=True))
        found = dict(zip(outs, function(*(given[n] if n in given else params[n] for n in order)), strict=True))
        rows: Tensor = found["rows"]
        return rows.sum() / (found["weight"].sum() if "weight" in found else max(rows.numel(), 1))

    return _by_autograd(torch.compile(mean, dynamic=False) if compiled else mean, places)


def _floors(tensors: Sequence[Tensor], places: Sequence[int]) -> dict[str, Run]:
    plain = [tensors[i].detach() for i in places]
    there = [x.clone() for x in plain]
    first = max(plain, key=lambda x: x.numel())
    out = torch.empty_like(first)
    return {
        "clone": lambda given: [given[i].detach().clone() for i in places],
        "copy": lambda given: [y.copy_(given[i].detach()) for y, i in zip(there, places, strict=True)],
        "exp": lambda given: torch.exp(first, out=out),
    }


def _products(built: Built) -> Run:
    names = [i.name for i in built.checked.inputs]

    def run(tensors: Sequence[Tensor]) -> list[Tensor]:
        kept = []
        for head in built.heads:
            x, w = (tensors[names.index(n)].detach() for n in (head.hidden, head.weight))
            x = x.reshape(-1, x.shape[-1])
            z = x.new_empty(min(TILE, len(x)), len(w))
            dx, dw = torch.empty_like(x), torch.zeros_like(w)
            for start in range(0, len(x), TILE):
                part = x[start : start + TILE]
                tile = torch.mm(part, w.t(), out=z[: len(part)])
                torch.mm(tile, w, out=dx[start : start + TILE])
                dw.addmm_(tile.t(), part)
            kept += [dx, dw]
        return kept

    return run


# --- checking and timing ----------------------------------------------------------------------------------------------


def _checked(
    runs: dict[str, Run],
    whole: Built,
    tensors: Sequence[Tensor],
    places: Sequence[int],
    dtype: torch.dtype,
    required: set[str],
    inaccurate: bool,
) -> dict[str, str]:
    """Compare each run with the loss in float64; drop baselines that fail (not those that are but `inaccurate`, where
    these are wanted), and say why."""
    exact = [x.detach().double().requires_grad_(x.requires_grad) if x.is_floating_point() else x for x in tensors]
    wanted = _results(_module(whole, places)(exact))
    bound = {torch.float64: 1e-9, torch.float32: 2e-4}.get(dtype, 2e-2)
    failures: dict[str, str] = {}
    for name, run in list(runs.items()):
        broken = False
        try:
            reason = _difference(_results(run(tensors)), wanted, bound)
        except Exception as error:
            if name in required:
                raise
            broken = True
            reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        if reason:
            if name in required:
                raise WrongGradientError(f"{whole.checked.name} by {name}: {reason}")
            failures[name] = reason
            if broken or not inaccurate:
                del runs[name]
    return failures


def _results(found: object) -> list[Tensor]:
    assert isinstance(found, tuple)
    return [x.detach() for x in found]


def _difference(found: Sequence[Tensor], wanted: Sequence[Tensor], bound: float) -> str:
    """Where a result is off by more than the bound of its row's largest finite entry; empty if nowhere.

    What isn't finite must be the same in both, entry by entry: no comparison with NaN is true.
    """
    for i, (x, y) in enumerate(zip(found, wanted, strict=True)):
        x, y = x.double(), y.double()
        known = y.abs().nan_to_num(0.0, 0.0)
        scale = known.amax(-1, keepdim=True) if y.dim() else known
        near = y.isfinite() & ((x - y).abs() <= bound * scale + bound * 1e-6)
        off = ~(near | (x == y) | (x.isnan() & y.isnan()))
        if bool(off.any()):
            what = "the value" if i == 0 else f"gradient {i}"
            return f"{what} is wrong in {int(off.sum())} of {off.numel()} entries"
    return ""


def _timed(
    runs: Mapping[str, Run],
    sets: Sequence[Sequence[Tensor]],
    rounds: int,
    device: str,
    cold: bool = True,
    warm_up: int = WARM_UP,
) -> dict[str, Timing]:
    """Rounds of one call each, in an order that turns."""
    names = list(runs)
    for name in names:
        for k in range(warm_up):
            runs[name](sets[k % len(sets)])
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for r in range(rounds):
        for name in names[r % len(names) :] + names[: r % len(names)]:
            tensors = sets[r % len(sets)]
            if isinstance(run := runs[name], _InPlace):
                run.before(tensors)
            seconds[name].append(_once(runs[name], tensors, device, cold))
    found = {}
    for name, s in seconds.items():
        low, middle, high = statistics.quantiles(s, n=4) if len(s) > 1 else (s[0], s[0], s[0])
        if isinstance(run := runs[name], _InPlace):
            run.before(sets[0])
        found[name] = Timing(middle, low, high, _peak(run, sets[0], device))
    return found


def _once(run: Run, tensors: Sequence[Tensor], device: str, cold: bool = True) -> float:
    """Seconds of one call: on a GPU between two events; `cold`: after what the call before has left in the cache is
    gone."""
    if device.startswith("cuda"):
        if cold:
            _sweep_out(device)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in "be")  # type: ignore[no-untyped-call]
        begin.record()
        kept = run(tensors)
        end.record()
        torch.cuda.synchronize()
        del kept
        return float(begin.elapsed_time(end)) * 1e-3
    start = time.perf_counter()
    kept = run(tensors)
    taken = time.perf_counter() - start
    del kept
    return taken


def _sweep_out(device: str) -> None:
    """Write more than a second-level cache holds."""
    torch.empty(COLD // 4, dtype=torch.int32, device=device).zero_()


def _peak(run: Run, tensors: Sequence[Tensor], device: str) -> int | None:
    """The most memory a call holds beyond what is held before it: resident pages on the CPU."""
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run(tensors)
        return int(torch.cuda.max_memory_allocated() - before)
    try:
        ctypes.CDLL(None).malloc_trim(0)  # memory that was freed but kept would hide what a call takes
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
        before = _status("VmRSS")
        run(tensors)
        return max(0, _status("VmHWM") - before)
    except (OSError, AttributeError, TypeError):  # not Linux
        return None


def _status(field_name: str) -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(field_name):
                return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field_name}")
