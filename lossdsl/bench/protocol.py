"""One loss at one shape: what is to be timed is built and checked (`prepare`), then timed (`Prepared.timed`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from lossdsl.bench.baselines import by_hand, floors, plain, products
from lossdsl.bench.candidates import InPlace, Run, by_autograd, by_module
from lossdsl.bench.comparing import compared
from lossdsl.bench.inputs import draw, scaled
from lossdsl.bench.report import Report
from lossdsl.bench.timing import WARM_UP, timed
from lossdsl.check.typed import CheckedLoss
from lossdsl.check.types import base_axis
from lossdsl.pipeline import Built, build
from lossdsl.plan.cost import count
from lossdsl.plan.kernel import Cost
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import InternalError
from lossdsl.source.text import Source

SETS = 2  # of inputs, taken by turns
NO_GPU = (
    "torch finds no GPU here, so nothing can be timed on one; "
    "what compilers make of the kernels can be looked at all the same: lossdsl inspect LOSS --target sm_90"
)


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
    spare: bool = False,
) -> Prepared:
    """Build what is to be timed, run each once and compare its value and gradient with float64.

    With `heads` (as `pipeline.middle` takes them) the logits are products, of this standard deviation; HeadError for a
    loss that can't have one.
    `inplace` times the first backend once more, with gradients over the logits; ValueError for one that can't.
    `others` are more baselines: functions of the loss's inputs, in order, that give the mean loss. A baseline that is
    off is left out, or timed all the same where `inaccurate` ones are wanted. Raises BackendError for a backend that
    can't be used and WrongGradientError for one that is wrong; ValueError for a GPU where there is none, for a backend
    that doesn't run on the device, and, without `spare` ones, for the size of an axis that the loss hasn't.
    """
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(NO_GPU)
    built = {name: build(source, registry, name, device=device, modes=heads) for name in backends}
    whole = built.get("torch") or build(source, registry, "torch", device=device, modes=heads)
    checked = whole.checked
    for name, b in built.items():
        _runs_on(name, b.choice.spec.devices, device)
    sizes = _known(checked, sizes, spare)

    def drawn(seed: int) -> list[Tensor]:
        return scaled(draw(checked, sizes, dtype, device, seed), whole, spread)

    first = drawn(0)
    places = [i for i, x in enumerate(first) if x.requires_grad]
    if not places:
        raise InternalError(f"{checked.name} has no input with a gradient")
    runs: dict[str, Run] = {name: by_module(b, places) for name, b in built.items()}
    if inplace:
        runs["inplace"] = InPlace(built[backends[0]], places)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    if "eager" in baselines:
        runs["eager"] = by_hand(whole, registry, places, sizes, wide, compiled=False)
    if "compile" in baselines:
        runs["compile"] = by_hand(whole, registry, places, sizes, wide, compiled=True)
    if "plain" in baselines and whole.heads:
        runs["plain"] = by_autograd(plain(source, registry, next(iter(built)), device, whole, heads or {}), places)
    for name, function in (others or {}).items():
        runs[name] = by_autograd(function, places)
    planned = _planned(built, whole, sizes)
    failures = compared(runs, whole, registry, first, places, dtype, {*built, "inplace"}, inaccurate)
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
        least = floors(inputs[0], self.places)
        if self.whole.heads:
            least["matmuls"] = products(self.whole)
        runs = {**self.runs, **{name: run for name, run in least.items() if name in self.baselines}}
        return replace(
            self.report,
            rounds=rounds,
            timings=timed(runs, inputs, rounds, self.device, cold, warm_up),
            threads=torch.get_num_threads(),
            cache="" if not self.device.startswith("cuda") else "cold" if cold else "hot",
        )


def _runs_on(name: str, devices: Sequence[str], device: str) -> None:
    if "*" in devices or device.partition(":")[0] in devices:
        return
    why = f": {NO_GPU}" if "cuda" in devices and not torch.cuda.is_available() else f": --device {devices[0]}"
    raise ValueError(f"backend {name} runs on {' and '.join(devices)}, not on {device}{why}")


def _known(checked: CheckedLoss, sizes: Mapping[str, int], spare: bool) -> dict[str, int]:
    """The sizes of axes that the loss has; ValueError for others, unless they are to spare."""
    axes = dict.fromkeys(base_axis(a.name) for a in checked.axes)
    axes |= dict.fromkeys(base_axis(a) for i in checked.inputs for a in i.axes)
    unknown = [a for a in sizes if a not in axes]
    if unknown and not spare:
        raise ValueError(f"{checked.name} has no axis {unknown[0]}: its axes are {', '.join(axes)}")
    return {a: n for a, n in sizes.items() if a in axes}


def _planned(built: Mapping[str, Built], whole: Built, sizes: Mapping[str, int]) -> Cost | None:
    kernels = {k.name: k.program for b in (*built.values(), whole) for k in b.kernels}
    program = kernels.get("both") or kernels.get("gradient")
    return None if program is None else count(program, sizes)


def _copies(planned: Cost, tensors: Sequence[Tensor], places: Sequence[int]) -> float:
    """The plan's bytes for each byte of a copy, both of float32: a copy reads and writes what gets a gradient."""
    largest = max(x.numel() for x in tensors)
    return planned.bytes * largest / (8 * sum(tensors[i].numel() for i in places))
