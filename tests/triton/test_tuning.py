"""Tuning by a clock that isn't one: what is tried, what is kept, when nothing is."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton

from lossdsl.backends.triton import launch as launching
from lossdsl.backends.triton import tuning
from lossdsl.backends.triton.launch import Launch, shaped, spills
from lossdsl.backends.triton.shapes import Demand, Device, Shape, lighter, shape_of

DEFAULT = Shape("rows", 1, 8192, 8)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOSSDSL_CACHE_DIR", str(tmp_path))
    return tmp_path / "triton"


class Clock:
    """Seconds of each shape, and which were asked for."""

    def __init__(self, **seconds: float) -> None:
        self.seconds = seconds
        self.asked: list[Shape] = []

    def __call__(self, shape: Shape) -> float:
        self.asked.append(shape)
        return self.seconds.get(f"{shape.kind}{shape.warps}", 1.0)


def choose(clock: Clock, **more: object) -> Shape:
    given = {"whole": False, "rows": 4096, "length": 8000, "key": ("text", "device"), **more}
    return tuning.chosen(DEFAULT, time=clock, **given)  # type: ignore[arg-type]


def test_the_quickest_is_kept_and_found_again(files: Path) -> None:
    clock = Clock(rows16=0.5, rows4=0.7)
    assert choose(clock).warps == 16
    asked = len(clock.asked)
    assert asked <= 1 + tuning.MOST
    assert choose(clock).warps == 16
    assert len(clock.asked) == asked
    assert [p.suffix for p in files.iterdir()] == [".json"]


def test_what_is_not_clearly_quicker_is_noise() -> None:
    assert choose(Clock(rows16=0.98, blocks8=0.99)) == DEFAULT
    assert choose(Clock(rows16=math.inf, rows4=math.inf)) == DEFAULT


@pytest.mark.parametrize(
    "other",
    [{"rows": 100_000}, {"length": 10_000}, {"key": ("other text", "device")}, {"key": ("text", "other device")}],
)
def test_another_class_text_or_device_is_measured_anew(other: dict[str, object]) -> None:
    choose(Clock(rows16=0.5))
    clock = Clock(rows4=0.5)
    assert choose(clock, **other).warps == 4
    assert clock.asked
    near = Clock()
    assert choose(near, length=7000, rows=3000).warps == 16  # the same class
    assert not near.asked


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"kind": "rows"}', '{"kind": "x", "rows": 1, "block": 2, "warps": 4, "splits": 1}']
)
def test_a_broken_file_is_written_again(text: str, files: Path) -> None:
    choose(Clock(rows16=0.5))
    (path,) = files.iterdir()
    whole = json.loads(path.read_text())
    path.write_text(text)
    assert choose(Clock(rows16=0.5)).warps == 16
    assert json.loads(path.read_text()) == whole


def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LOSSDSL_CACHE_DIR", str(tmp_path / "file"))
    assert choose(Clock(rows16=0.5)).warps == 16


def test_candidates_are_few_and_can_be_launched() -> None:
    for length in (1, 10, 1000, 16384, 10**6):
        for rows in (1, 10**5):
            for whole in (False, True):
                default = shape_of(rows, length, (Demand(3), Demand(3)), False, Device(), whole)
                found = tuning.candidates(default, whole)
                assert found[0] == default
                assert 1 <= len(found) <= 1 + tuning.MOST
                assert len(set(found)) == len(found)
                assert all(s.kind == "rows" for s in found) or not whole
                assert all(s.warps * 32 <= 1024 for s in found)


def test_when_it_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tuning.is_on(1 << 20)
    assert not tuning.is_on(1 << 10)
    monkeypatch.setenv("LOSSDSL_AUTOTUNE", "0")
    assert not tuning.is_on(1 << 20)


def test_what_the_clock_of_a_device_needs_is_there() -> None:
    assert issubclass(triton.OutOfResources, Exception)


class Kernel:
    """Notes how it is launched, and says what its driver would of the registers that it spills."""

    def __init__(self, kind: str, spills: Callable[[dict[str, Any]], int]) -> None:
        self.kind, self.spills = kind, spills
        self.launched: list[tuple[str, int, int]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., SimpleNamespace]:
        def launch(*_: Any, **options: Any) -> SimpleNamespace:
            self.launched.append((self.kind, options["num_warps"], options["B_C"]))
            return SimpleNamespace(n_spills=self.spills(options))

        return launch


def launch_of(spills: Callable[[dict[str, Any]], int], whole: bool) -> tuple[Launch, list[tuple[str, int, int]]]:
    """The stage of a row's loss, and what is launched of it."""
    rows, blocks = Kernel("rows", spills), Kernel("blocks", spills)
    blocks.launched = rows.launched
    axes: dict[str, Any] = {"rows": ("N",), "sweeps": ("C",), "along": ("C",), "sizes": ("N", "C"), "stops": (0,)}
    made = Launch(
        rows, None if whole else blocks, tensors=[(("N", "C"), 1)], demand=(Demand(3), Demand(3)), parts=2, **axes
    )
    return made, rows.launched


def launched(calls: int, spills: Callable[[dict[str, Any]], int], *, whole: bool = False) -> list[tuple[str, int, int]]:
    """The shapes of so many calls on 600 rows of 2000 entries."""
    launch, found = launch_of(spills, whole)
    for _ in range(calls):
        launch.run(torch.device("cpu"), torch.float32, [600, 2000], [torch.empty(600, 2000)])
    return found


def test_a_kernel_that_spills_is_launched_once() -> None:
    """What the compiler has made is known after a launch; others of the same call take a lighter shape, until none
    spills: a graph that is captured afterwards finds what it needs compiled."""
    plain = launched(3, lambda _: 0)
    assert len(set(plain)) == 1
    kind, warps, block = plain[0]
    assert launched(3, lambda o: o["num_warps"] == warps and 8) == [plain[0], *[(kind, 2 * warps, block)] * 3]
    found = launched(3, lambda o: o["B_C"] > 1024 and 8)
    assert found[-3:] == [("blocks", 8, 1024)] * 3
    assert len(set(found[:-2])) == len(found[:-2])
    assert [kind for kind, *_ in found] == sorted((kind for kind, *_ in found), reverse=True)  # rows first
    with pytest.warns(UserWarning, match="keeps 8 values in memory") as said:
        assert {kind for kind, *_ in launched(9, lambda _: 8, whole=True)} == {"rows"}
    assert len(said) == 1  # at the heaviest use of threads, and once
    with shaped(warps=4):
        assert launched(2, lambda _: 8) == [("rows", 4, block)] * 2  # by hand: as it was asked for


@pytest.mark.parametrize("how", ["captured", "over what it reads"])
def test_a_launch_that_cannot_be_repeated_is_not(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "capturing", lambda _: how == "captured")
    launch, found = launch_of(lambda o: 8 if o["num_warps"] == 8 else 0, False)
    for _ in range(2):
        given = torch.device("cpu"), torch.float32, [600, 2000], [torch.empty(600, 2000)]
        launch.run(*given, alone=how != "captured")
    assert [warps for _, warps, _ in found] == [8, 16]


def test_a_graph_is_captured_with_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tuned shape, from memory: no file is read, nothing is timed and no text is hashed; nor at later calls."""
    times, captured = [0], [False]
    monkeypatch.setattr(launching, "properties", lambda _: Device())
    monkeypatch.setattr(launching, "on_device", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(launching, "capturing", lambda _: captured[0])
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a device")
    monkeypatch.setattr(Launch, "source", lambda self: "")
    monkeypatch.setattr(launching, "run_of", lambda x, tile: 4)

    def clock(_: torch.device, run: Callable[[], object]) -> float:
        assert not captured[0]
        times[0] += 1
        run()
        return 1.0 if found[-1][1] != 16 else 0.5

    monkeypatch.setattr(launching, "_seconds", clock)
    launch, found = launch_of(lambda _: 0, True)

    def call(rows: int) -> tuple[str, int, int]:
        launch.run(torch.device("cuda", 0), torch.float32, [rows, 2000], [torch.empty(rows, 2000, device="meta")])
        return found[-1]

    captured[0] = True
    plain = call(600)
    assert plain[1] != 16
    assert not times[0]
    captured[0] = False
    assert call(600)[1] == 16
    assert 1 < times[0] <= 1 + tuning.MOST
    timed = times[0]
    monkeypatch.setattr(launching, "chosen", None)
    captured[0] = True
    assert call(600)[1] == 16
    assert call(601)[1] == 16  # of one class
    assert call(5000) == plain  # of another, which no call has seen
    captured[0] = False
    assert call(600)[1] == 16
    assert times[0] == timed
    monkeypatch.setenv("LOSSDSL_AUTOTUNE", "0")
    assert call(600) == plain


def test_arrays_of_its_own_are_no_spills() -> None:
    """The digits of 2/π that a sine looks up for large arguments: 28 bytes, which the stack has as 32."""
    sine = {"ptx": "\t.local .align 4 .b8 \t__local_depot0[28];\n"}
    assert spills(SimpleNamespace(n_spills=8, asm=sine)) == 0
    assert spills(SimpleNamespace(n_spills=12, asm=sine)) == 4
    assert spills(SimpleNamespace(n_spills=4, asm={"ptx": "\t.reg .b32 \t%r<9>;\n"})) == 4
    assert spills(SimpleNamespace(n_spills=4, asm={"amdgcn": ""})) == 4
    assert spills(None) == 0


@pytest.mark.parametrize("whole", [False, True])
def test_lighter_shapes_come_to_an_end(whole: bool) -> None:
    for length in (2, 1000, 16384, 10**6):
        for rows in (1, 10**5):
            shape: Shape | None = shape_of(rows, length, (Demand(9), Demand(9)), False, Device(), whole)
            for _ in range(20):
                assert shape is None or (shape.warps <= 32 and shape.rows >= 1)
                shape = shape and lighter(shape, whole, Device())
            assert shape is None
