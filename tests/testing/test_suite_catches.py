"""The suite for backends sees what is wrong with one: faults planted in what the torch backend prints."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

import pytest
import torch

from lossdsl import api
from lossdsl.backends.api import Availability, Emitted, Plan
from lossdsl.backends.torch.emit import emit as right
from lossdsl.registry import Registry
from lossdsl.source.text import Source
from lossdsl.testing.conformance import BackendTests

# What the wrapper of each named function does; `right` is the function that torch's backend printed.
WRAPPERS = {
    "the gradient's sign": ("gradient", "return tuple(-x for x in right(*args, **kwargs))"),
    "what is ignored leaks": ("gradient", "return tuple(x + 0 * args[0].sum() for x in right(*args, **kwargs))"),
    "single where double is asked for": ("value", "return tuple(x.float().double() for x in right(*args, **kwargs))"),
    "one memory for all results": (
        "value",
        "found = right(*args, **kwargs)\n"
        "    held = HELD.setdefault(found[0].shape, [x.clone() for x in found])\n"
        "    return tuple(x.copy_(y) for x, y in zip(held, found))",
    ),
    "an argument is written to": ("value", "found = right(*args, **kwargs)\n    args[0].add_(1)\n    return found"),
    "a gradient of another dtype": ("gradient", "return tuple(x.float() for x in right(*args, **kwargs))"),
    "strides are not looked at": (
        "value",
        "flat = args[0].as_strided(args[0].shape, (args[0].shape[1], 1))\n    return right(flat, *args[1:], **kwargs)",
    ),
    "a global between threads": (
        "value",
        "HELD['args'] = args\n    time.sleep(0.002)\n    return right(*HELD['args'], **kwargs)",
    ),
    "other bits every time": (
        "value",
        "return tuple(x * (1 + 1e-6 * torch.rand(())) for x in right(*args, **kwargs))",
    ),
    "a wrong number instead of a refusal": (
        "value",
        "return tuple(torch.zeros_like(x) for x in right(*args, **kwargs))",
    ),
}
numbers = count()


def wrapped(functions: str, name: str, body: str) -> str:
    """The text with one function in a wrapper."""
    if name not in {node.name for node in ast.parse(functions).body if isinstance(node, ast.FunctionDef)}:
        return functions
    head = f"\n\nHELD: dict = {{}}\n_right_{name} = {name}\n\n\ndef {name}(*args: Tensor, **kwargs: int):\n"
    return f"{functions}{head}    right = _right_{name}\n    {body}\n"


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., BackendTests]]:
    """The tests of a backend that prints what torch's does, changed by a function."""
    names = {f"faulty_{next(numbers)}": replace(api.registry().backends["torch"], emit=f"{__name__}:emit")}

    def tests(change: Callable[[Emitted], Emitted], **fields: object) -> BackendTests:
        [(name, spec)] = names.items()
        known = api.registry()
        backends = {**known.backends, name: replace(spec, name=name, **fields)}
        monkeypatch.setattr(api, "_registry", lambda environment: replace(known, backends=backends))
        CHANGES.append(change)
        found = BackendTests()
        found.backend = name
        return found

    yield tests
    CHANGES.clear()


CHANGES: list[Callable[[Emitted], Emitted]] = []


def emit(plan: Plan, source: Source | None = None, registry: Registry | None = None) -> Emitted:
    return CHANGES[-1](right(plan, source, registry))


def with_fault(name: str) -> Callable[[Emitted], Emitted]:
    function, body = WRAPPERS[name]
    return lambda e: replace(e, imports=("import time", *e.imports), functions=wrapped(e.functions, function, body))


@pytest.mark.parametrize(
    ("fault", "method", "arguments"),
    [
        ("the gradient's sign", "test_every_function_in_double", ["brier"]),
        ("the gradient's sign", "test_golden", ["brier__formula", torch.float64]),
        ("what is ignored leaks", "test_ignored_rows_may_hold_anything", [3]),
        ("what is ignored leaks", "test_nan_reaches_its_row_alone", [3]),
        ("single where double is asked for", "test_every_function_in_double", ["jsd"]),
        ("single where double is asked for", "test_golden", ["cross_entropy__torch", torch.float64]),
        ("one memory for all results", "test_arguments_stay_as_they_are_and_results_are_fresh", ["value"]),
        ("an argument is written to", "test_arguments_stay_as_they_are_and_results_are_fresh", ["value"]),
        ("a gradient of another dtype", "test_halves_are_rounded_once", [torch.bfloat16, (5, 7)]),
        ("strides are not looked at", "test_strides_change_nothing", ["value", (5, 7)]),
        ("a global between threads", "test_threads", []),
        ("other bits every time", "test_the_same_bits_every_time", []),
        ("a wrong number instead of a refusal", "test_a_construct_is_right_or_refused", ["a running sum"]),
        ("a wrong number instead of a refusal", "test_reductions_are_right_or_refused", [6, True]),
        ("a wrong number instead of a refusal", "test_a_primitive_is_right_or_refused", ["exp"]),
    ],
)
def test_a_fault_is_seen(
    suite: Callable[..., BackendTests], fault: str, method: str, arguments: list[object], tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("LOSSDSL_CACHE_DIR", str(tmp_path))
    test = getattr(suite(with_fault(fault)), method)
    named = dict(zip(_names(test), arguments, strict=True))
    with pytest.raises((AssertionError, IndexError)):
        test(**named)


@pytest.mark.parametrize(
    "method", ["test_strides_change_nothing", "test_arguments_stay_as_they_are_and_results_are_fresh"]
)
def test_no_fault_no_failure(suite: Callable[..., BackendTests], method: str, tmp_path, monkeypatch) -> None:
    """The same way of calling lets a right backend pass."""
    monkeypatch.setenv("LOSSDSL_CACHE_DIR", str(tmp_path))
    test = getattr(suite(lambda emitted: emitted), method)
    test(**dict(zip(_names(test), ["value", (5, 7)], strict=False)))


def test_digits_that_a_subtraction_loses_are_seen(suite: Callable[..., BackendTests], tmp_path, monkeypatch) -> None:
    """exp(x) - 1 for expm1, and log(1 + x) for log1p: right in double at ordinary rows, wrong at confident ones."""

    def change(emitted: Emitted) -> Emitted:
        text = emitted.functions.replace("torch.expm1(", "(lambda x: torch.exp(x) - 1)(")
        return replace(emitted, functions=text.replace("torch.log1p(", "(lambda x: torch.log(1 + x))("))

    monkeypatch.setenv("LOSSDSL_CACHE_DIR", str(tmp_path))
    found = suite(change)
    with pytest.raises(AssertionError):
        found.test_hostile_rows_against_fifty_digits("confident", 0)
    with pytest.raises(AssertionError):
        found.test_a_primitive_is_right_or_refused("expm1")


def test_a_text_that_differs_from_time_to_time_is_seen(
    suite: Callable[..., BackendTests], tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("LOSSDSL_CACHE_DIR", str(tmp_path))
    found = suite(lambda emitted: replace(emitted, functions=emitted.functions + f"\n# {next(numbers)}\n"))
    with pytest.raises(AssertionError):
        found.test_one_text_for_one_plan()


def test_a_standalone_module_that_needs_the_backend_is_seen(
    suite: Callable[..., BackendTests], tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("LOSSDSL_CACHE_DIR", str(tmp_path))
    more = "from lossdsl.backends.torch.emit import probe"
    found = suite(lambda emitted: replace(emitted, imports=(*emitted.imports, more)))
    with pytest.raises(AssertionError):
        found.test_a_standalone_module_needs_neither_lossdsl_nor_the_backend()


def not_here() -> Availability:
    return Availability(False, "no such card")


def test_a_backend_without_its_device_is_left_out_with_the_reason(suite: Callable[..., BackendTests]) -> None:
    assert suite(lambda emitted: emitted).missing() == ""
    assert suite(lambda emitted: emitted, probe=f"{__name__}:not_here").missing() == "no such card"
    assert "torch has no xpu here" in suite(lambda emitted: emitted, devices=("xpu",)).missing()


@pytest.mark.parametrize("fields", [{"doc": ""}, {"devices": ()}, {"api": 99}])
def test_a_record_that_is_not_whole_is_seen(suite: Callable[..., BackendTests], fields: dict[str, object]) -> None:
    with pytest.raises(AssertionError):
        suite(lambda emitted: emitted, **fields).test_the_record_is_whole()


def _names(test: Callable[..., None]) -> list[str]:
    return list(test.__code__.co_varnames[1 : test.__code__.co_argcount])
