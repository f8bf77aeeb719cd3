"""Kernels that multiply matrices a tile at a time, against the plan's interpreter, which has the matrix whole."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lossdsl.backends.api import Plan
from lossdsl.backends.triton import offline
from lossdsl.backends.triton.launch import shaped
from lossdsl.backends.triton.offline import module_of
from lossdsl.runtime import tilesizes
from lossdsl.runtime.tilerun import Run
from tests.heads.compare import Case, headed, own
from tests.losses import FULL, ROOT, STANDARD
from tests.triton.kernels import REGISTRY
from tests.triton.products import called, drawn, exact, off, products

BOUND = 1e-13  # float64: the order of sums, of some dozens of entries
METRIC = ROOT / "plugins/lossdsl-metric/lossdsl_metric_losses"
LOSSES = {"focal": ("matrix_1",), "clip_loss": ("matrix_1", "matrix_3"), "arcface": ("params_1",)}
if FULL:
    more = ("cross_entropy", "label_smoothing_ce", "symmetric_cross_entropy", "z_loss_ce", "cosface", "supcon", "kd_kl")
    LOSSES = dict.fromkeys((*LOSSES, *more, "l2_svm"), ("",))


@pytest.mark.parametrize(("name", "kinds"), LOSSES.items(), ids=LOSSES)
def test_a_tile_at_a_time_is_the_whole(name: str, kinds: Sequence[str]) -> None:
    """Rows, columns and features that are no multiples of a tile; also with rows that several programs share."""
    plan = Plan(tuple(p for p in products(name).programs if any(k in p.name for k in kinds)))
    module = module_of(plan, REGISTRY)
    for program in plan.programs:
        given = drawn(program)
        wanted = exact(program, given)
        for shape in ({"rows": 16, "block": 16, "splits": 1}, {"rows": 32, "block": 16, "splits": 3}):
            with shaped(**shape):
                assert off(called(module, program, given), wanted) <= BOUND, (program.name, shape)


def test_a_wrong_boundary_of_a_block_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = offline.emit
    for good, bad in (
        ("ok_C = cols_C < end_C", "ok_C = cols_C < end_C - 1"),
        ("live = row < end_Tile", "live = row < end_Tile - 1"),
        ("range(split * share_Tile, end_Tile, R)", "range(split * share_Tile, end_Tile - R, R)"),
    ):

        def wrong(*given: object, good: str = good, bad: str = bad) -> object:
            emitted = right(*given)  # type: ignore[arg-type]
            assert good in emitted.functions
            return type(emitted)(emitted.imports, emitted.functions.replace(good, bad), emitted.runtime)

        monkeypatch.setattr(offline, "emit", wrong)
        plan = products("focal")
        program = next(p for p in plan.programs if p.name.endswith("matrix_1_product"))
        given = drawn(program)
        with shaped(rows=16, block=16, splits=1 if "share" in good else 3):
            found = called(module_of(plan, REGISTRY), program, given)
        assert off(found, exact(program, given)) > 1e-3, good


@pytest.mark.parametrize("wanted", [(True, False, False), (False, True, False), (False, False, True)])
def test_only_what_is_wanted(wanted: tuple[bool, ...]) -> None:
    plan = products("focal")
    program = next(p for p in plan.programs if p.name.endswith("matrix_1_product"))
    given = drawn(program)
    found = called(module_of(plan, REGISTRY), program, given, wanted=wanted)
    assert [found[f"grad_z0_{side}"] is not None for side in ("left", "right", "bias")] == list(wanted)
    assert off(found, exact(program, given)) <= BOUND


def test_an_entry_at_no_class_is_nan() -> None:
    plan = products("cross_entropy")
    program = plan.programs[0]
    given = drawn(program)
    given["target"][5] = 53
    (rows,) = called(module_of(plan, REGISTRY), program, given).values()
    assert rows.isnan().nonzero()[:, 0].tolist() == [5]


# --- as the runtime takes them ----------------------------------------------------------------------------------------


def _case(name: str) -> Case:
    case = headed(STANDARD / f"{name}.loss", backend="triton")
    case = case or own(METRIC / f"{name}.loss", backend="triton")
    assert case is not None
    return case


@pytest.mark.parametrize(("name", "reduction"), [("focal", "none"), ("l2_svm", "mean")])
def test_a_loss_without_tiles_in_memory(name: str, reduction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every third row ignored, learnt parameters, and only some gradients wanted."""
    count = _counted(monkeypatch)
    case = _case(name)
    assert max(case.differences(reduction, learnt=True)) <= 1e-9
    assert max(case.differences(reduction, needs=case.needs[1:2])) <= 1e-9
    assert count


@pytest.mark.parametrize("name", ["clip_loss", "supcon"] if FULL else ["supcon"])
def test_pairs_without_tiles_in_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns have statistics, too; both factors may be one value."""
    count = _counted(monkeypatch)
    case = own(METRIC / f"{name}.loss", backend="triton")
    assert case is not None
    assert max(case.differences("mean", learnt=True)) <= 1e-9
    assert count


def test_too_many_features_are_multiplied_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    count = _counted(monkeypatch)
    monkeypatch.setattr(tilesizes, "FEATURES", 39)  # 5 numbers of 8 bytes are more
    assert max(_case("focal").differences("mean")) <= 1e-9
    assert not count


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sweeps that multiply matrices themselves from here on."""
    found: list[str] = []
    right = Run.multiply

    def multiply(self: Run, *given: object) -> None:
        found.append("sweep")
        right(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Run, "multiply", multiply)
    return found
