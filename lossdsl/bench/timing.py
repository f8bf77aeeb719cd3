"""The clock: rounds of one call each, interleaved, and the peak of memory."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lossdsl.bench.candidates import InPlace, Run
from lossdsl.bench.report import Timing

WARM_UP = 3
COLD = 256 * 2**20  # bytes that are written between two calls on a GPU, more than any second-level cache holds


def timed(
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
            if isinstance(run := runs[name], InPlace):
                run.before(tensors)
            seconds[name].append(_once(runs[name], tensors, device, cold))
    found = {}
    for name, s in seconds.items():
        low, middle, high = statistics.quantiles(s, n=4) if len(s) > 1 else (s[0], s[0], s[0])
        if isinstance(run := runs[name], InPlace):
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
