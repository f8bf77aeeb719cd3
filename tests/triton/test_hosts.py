"""The host's side of launches, on tensors of a device that isn't there and that hold no numbers.

A `FakeTensor` on "cuda" has a shape, strides and a type. Whatever waits for a device (`item`, `bool(tensor)`, `tolist`,
a copy to the host) raises there, so a function that comes to its end has waited for nothing. Triton's own binder says
what a launch would be compiled for; a driver that isn't one stands in for the device's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from lossdsl.backends.api import KernelProgram, free_axes, size_argument
from lossdsl.backends.triton import launch
from lossdsl.backends.triton.shapes import Device
from tests.triton.draw import tensors
from tests.triton.kernels import FULL, REGISTRY, emitted, fused, planned


class Driver:
    """As much of a driver as comes before compiling."""

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What each launch would be compiled for; those that are alike share one kernel."""
    keys: list[str] = []

    def hook(*, key: str, fn: Any, **_: Any) -> bool:
        keys.append(f"{fn.name} {key}")
        return True  # so that nothing is compiled or launched

    monkeypatch.setattr(driver, "_active", Driver())
    monkeypatch.setattr(knobs.runtime, "jit_cache_hook", hook)
    monkeypatch.setattr(launch, "_properties", lambda _: Device())
    monkeypatch.setattr(launch, "on_device", lambda _: nullcontext())
    monkeypatch.setattr(FakeTensor, "data_ptr", lambda _: 4096, raising=False)
    monkeypatch.setenv("LOSSDSL_AUTOTUNE", "0")
    number = launch.number

    def plain(x: Tensor, real: torch.dtype, device: torch.device) -> Any:
        if isinstance(x, FakeTensor):
            return number(x, real, device)
        with unset_fake_temporarily():  # a param on the host, whose number is there
            return number(x, real, device)

    monkeypatch.setattr(launch, "number", plain)
    return keys


@functools.cache
def _drawn(name: str, program: str, classes: int) -> dict[str, Any]:
    made, programs = planned(name)
    return tensors(made.checked, next(p for p in programs if p.name == program), 6, classes)


def called(name: str, program: KernelProgram, classes: int, **params: float) -> None:
    """Call an emitted function with tensors of a device, params on the host as modules keep them."""
    given = dict(_drawn(name, program.name, classes))
    given |= {k: torch.tensor(v, dtype=given[k].dtype) for k, v in params.items()}
    with FakeTensorMode() as mode:
        arguments = [
            given[b.name]
            if b.role == "param" and not b.axes
            else torch.empty(x.shape, dtype=x.dtype if x.dtype != torch.float64 else torch.float32, device="cuda")
            for b in program.buffers
            if b.role in ("in", "param")
            for x in [torch.as_tensor(given[b.name])]
        ]
        sizes = {size_argument(a): given[f"size {a}"] for a in free_axes(program)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mode, "allow_non_fake_inputs", True)
            getattr(emitted(name), program.name.rpartition(".")[2])(*arguments, **sizes)


@pytest.mark.parametrize("name", sorted(REGISTRY.losses) if FULL else ["cross_entropy", "focal"])
@pytest.mark.parametrize("classes", [70, 50257] if FULL else [70])
def test_nothing_waits_for_the_device(name: str, classes: int, compilations: list[str]) -> None:
    for program in fused(name):
        called(name, program, classes)
    assert compilations


@pytest.mark.parametrize("look", [Tensor.item, bool, Tensor.tolist])
def test_what_waits_is_found(
    look: Callable[[Tensor], Any], compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail."""
    run = launch.Launch.run

    def waiting(self: launch.Launch, device: Any, real: Any, sizes: Any, given: Any) -> None:
        look(given[0].sum())
        run(self, device, real, sizes, given)

    monkeypatch.setattr(launch.Launch, "run", waiting)
    with pytest.raises(Exception, match=r"_local_scalar_dense|tolist"):
        called("cross_entropy", planned("cross_entropy")[1][0], 70)


@pytest.mark.parametrize("classes", [70, 50257])
def test_a_schedule_of_a_hundred_steps_compiles_once(classes: int, compilations: list[str]) -> None:
    for name, param, values in (
        ("focal", "gamma", [i / 20 for i in range(100)]),
        ("label_smoothing_ce", "epsilon", [i / 101 for i in range(100)]),
        # whole numbers too, of which Triton itself would take 1 for a constant, and multiples of 16 for another kind
        ("cross_entropy", "ignore_index", [1, 16, 7, *range(-97, 0)]),
    ):
        for program in planned(name)[1]:
            kind = program.name.rpartition(".")[2]
            if param not in {b.name for b in program.buffers} or not (FULL or kind in ("value", "both")):
                continue
            compilations.clear()
            called(name, program, classes, **{param: values[7]})
            once = list(compilations)
            for value in values:
                called(name, program, classes, **{param: value})
            assert once
            assert compilations == once * 101


def test_launches_go_to_the_device_of_the_tensors(compilations: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Which need not be the current one: that is where Triton launches, on its stream."""
    inside: list[torch.device] = []
    seen: list[list[torch.device]] = []

    @contextmanager
    def on_device(device: torch.device) -> Iterator[None]:
        inside.append(device)
        yield
        inside.pop()

    start = launch.Launch.start

    def watched(self: launch.Launch, *given: Any) -> int:
        seen.append(list(inside))
        return start(self, *given)

    monkeypatch.setattr(launch, "on_device", on_device)
    monkeypatch.setattr(launch.Launch, "start", watched)
    called("cross_entropy", planned("cross_entropy")[1][0], 70)
    assert seen == [[torch.device("cuda", 0)]]
