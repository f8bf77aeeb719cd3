from __future__ import annotations

import pytest

from lossdsl.backends import manager
from lossdsl.backends.api import API, Availability
from lossdsl.backends.manager import BackendError, availability, choose
from lossdsl.registry import BackendSpec


def here() -> Availability:
    return Availability(True, device="this one")


def not_here() -> Availability:
    return Availability(False, "no compiler on this machine")


def failing() -> Availability:
    raise RuntimeError("driver")


def nonsense() -> str:
    return "yes"


def spec(name: str, probe: str, priority: int = 0, devices: tuple[str, ...] = ("cpu",)) -> BackendSpec:
    return BackendSpec(
        name=name, api=API, emit="os:getcwd", probe=f"{__name__}:{probe}", devices=devices, priority=priority
    )


def test_auto_takes_the_highest_priority_that_is_available():
    backends = {s.name: s for s in (spec("slow", "here"), spec("fast", "here", 5), spec("faster", "not_here", 9))}
    choice = choose(backends)
    assert choice.spec.name == "fast"
    assert "faster can't be used: no compiler on this machine" in choice.reason


def test_auto_passes_over_backends_of_other_devices():
    backends = {s.name: s for s in (spec("slow", "here"), spec("gpu", "here", 5, ("cuda",)))}
    assert choose(backends).spec.name == "slow"
    assert choose(backends, device="cuda").spec.name == "gpu"
    with pytest.raises(BackendError, match="no backend can be used for mps"):
        choose(backends, device="mps")


def test_equal_priorities_are_settled_by_name():
    backends = {s.name: s for s in (spec("b", "here"), spec("a", "here"))}
    assert choose(backends).spec.name == "a"


def test_a_backend_asked_for_by_name_is_never_replaced():
    backends = {s.name: s for s in (spec("slow", "here"), spec("fast", "not_here", 5))}
    with pytest.raises(BackendError, match="'fast' can't be used here: no compiler"):
        choose(backends, "fast")
    with pytest.raises(BackendError, match="did you mean 'slow'"):
        choose(backends, "slwo")


@pytest.mark.parametrize(
    ("probe", "reason"),
    [
        ("failing", "its probe failed: RuntimeError: driver"),
        ("nonsense", "its probe returned str"),
        ("missing", "can't be loaded"),
    ],
)
def test_a_failing_probe_is_an_answer(probe: str, reason: str):
    answer = availability(spec("x", probe))
    assert not answer.ok
    assert reason in answer.reason


def test_built_in_backends_are_those_with_a_plugin_file():
    for name, load in manager.built_in_plugins():
        assert (manager.HERE / name / "plugin.py").is_file()
        assert manager.call_hooks(load()).backends
