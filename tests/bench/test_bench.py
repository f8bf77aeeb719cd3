"""The benchmark's own promises: nothing wrong is timed, every figure is in the report. No test looks at a time."""

from __future__ import annotations

import json
import re
import sys
from math import inf, nan

import pytest
import torch
from click.testing import CliRunner

from lossdsl import bench
from lossdsl.bench import protocol, timing
from lossdsl.bench.candidates import by_module
from lossdsl.bench.comparing import difference, results, terms_of_value
from lossdsl.bench.inputs import draw
from lossdsl.cli.bench import command
from lossdsl.pipeline import build
from lossdsl.plugins import discover
from lossdsl.source.text import Source

REGISTRY = discover()
TEXT = """loss {name}
input logits[N, C]
input target[N]: index C
return logsumexp(logits) - logits[target]
"""


def source(name: str = "mine") -> Source:
    return Source("mine.loss", TEXT.format(name=name))


def test_a_report_has_every_candidate_and_ratio() -> None:
    others = {"library": torch.nn.functional.cross_entropy}
    report = bench.measure(source(), REGISTRY, {"N": 8, "C": 5}, backends=["torch"], others=others, rounds=3)
    assert set(report.timings) == {"torch", "eager", "library", "clone", "copy", "exp"}
    assert report.failures == {}
    for t in report.timings.values():
        assert 0 < t.low <= t.median <= t.high
    plain = json.loads(json.dumps(report.as_json()))
    assert plain["sizes"] == {"N": 8, "C": 5}
    assert set(plain["ratios"]["torch"]) == {"clone", "copy", "exp", "eager"}


def test_a_wrong_baseline_is_named_and_not_timed() -> None:
    others = {
        "off": lambda z, y: torch.nn.functional.cross_entropy(z, y) * 1.01,
        "broken": lambda z, y: z.nothing,
    }
    report = bench.measure(source(), REGISTRY, {"N": 8, "C": 5}, backends=["torch"], others=others, rounds=2)
    assert report.failures["off"] == "the value is wrong in 1 of 1 entries"
    assert report.failures["broken"].startswith("AttributeError")
    assert not {"off", "broken"} & set(report.timings)


def test_a_wrong_backend_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    module = protocol.by_module

    def spoiled(built: object, places: object) -> bench.Run:
        run = module(built, places)  # type: ignore[arg-type]
        return lambda x: tuple(r * 2 if x[0].dtype == torch.float32 else r for r in run(x))  # type: ignore[attr-defined]

    monkeypatch.setattr(protocol, "by_module", spoiled)
    with pytest.raises(bench.WrongGradientError, match="mine by torch: the value is wrong"):
        bench.measure(source(), REGISTRY, {"N": 8, "C": 5}, backends=["torch"], rounds=2)


def test_an_axis_without_a_size_is_named() -> None:
    with pytest.raises(ValueError, match="logits has the axis C, whose size isn't given"):
        bench.measure(source(), REGISTRY, {"N": 8}, backends=["torch"], rounds=2)


def test_a_size_of_no_axis_is_refused() -> None:
    with pytest.raises(ValueError, match="mine has no axis Q: its axes are N, C"):
        bench.measure(source(), REGISTRY, {"N": 8, "C": 5, "Q": 3}, backends=["torch"], rounds=2)


def test_a_backend_that_does_not_run_on_the_device_says_where_it_does() -> None:
    with pytest.raises(ValueError, match=r"triton runs on cuda, not on cpu: (torch finds no GPU|--device cuda)"):
        bench.measure(source(), REGISTRY, {"N": 8, "C": 5}, backends=["triton"], rounds=2)


def test_json_to_standard_output_is_json_alone(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "mine.loss"
    path.write_text(TEXT.format(name="mine"), encoding="utf-8")
    call = [str(path), "--size", "N=4,C=3", "--backend", "torch", "--rounds", "2", "--json", "-"]
    result = CliRunner().invoke(command, call, catch_exceptions=False)
    assert json.loads(result.stdout)[0]["sizes"] == {"N": 4, "C": 3}
    assert "mine  N = 4" in result.stderr


def test_the_command_prints_a_table_and_writes_json(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path, out = tmp_path / "mine.loss", tmp_path / "figures.json"
    path.write_text(TEXT.format(name="mine"), encoding="utf-8")
    call = [str(path), "--size", "N=4,C=3", "--backend", "torch", "--rounds", "2", "--json", str(out)]
    result = CliRunner().invoke(command, call, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "mine  N = 4, C = 3  float32" in result.output
    assert re.search(r"no ratio to (clone|copy)", result.output)  # one may have been held up
    assert json.loads(out.read_text(encoding="utf-8"))[0]["loss"] == "mine"


def test_an_unknown_baseline_is_refused() -> None:
    result = CliRunner().invoke(command, ["mine", "--baseline", "cloen"])
    assert result.exit_code == 2
    assert "there is no baseline 'cloen'" in result.output


def test_a_head_is_timed_against_the_logits_in_memory() -> None:
    sizes = {"N": 9, "C": 5, "D": 4}
    asked = ("plain", "matmuls")
    others = {"theirs": lambda h, w, b, y: torch.nn.functional.cross_entropy(h @ w.t() + b, y)}
    report = bench.measure(
        source(),
        REGISTRY,
        sizes,
        backends=["torch"],
        baselines=asked,
        others=others,
        rounds=2,
        heads={"head": "linear"},
    )
    assert set(report.timings) == {"torch", "plain", "matmuls", "theirs"}
    assert not report.failures


HEADED = ["cross_entropy", "--head", "linear", "--size", "N=9,C=5,D=4", "--backend", "torch", "--rounds", "2"]


def test_cross_entropies_of_others_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's fused one; libraries that aren't here stand in for themselves, in their own order of arguments."""
    from types import SimpleNamespace

    def fused(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, **how: str) -> torch.Tensor:
        assert how in ({}, {"reduction": "mean"})
        return torch.nn.functional.cross_entropy(hidden @ weight.t(), target)

    def plain(logits: torch.Tensor, target: torch.Tensor, reduction: str = "none") -> torch.Tensor:
        return torch.nn.functional.cross_entropy(logits, target, reduction=reduction)

    liger = SimpleNamespace(
        LigerCrossEntropyLoss=torch.nn.CrossEntropyLoss,
        LigerFusedLinearCrossEntropyLoss=lambda: lambda weight, hidden, target: fused(hidden, weight, target),
    )
    monkeypatch.setitem(sys.modules, "liger_kernel.transformers", liger)
    monkeypatch.setitem(sys.modules, "cut_cross_entropy", SimpleNamespace(linear_cross_entropy=fused))
    monkeypatch.setitem(sys.modules, "quack.linear_cross_entropy", SimpleNamespace(chunked_linear_cross_entropy=fused))
    monkeypatch.setitem(sys.modules, "quack.cross_entropy", SimpleNamespace(cross_entropy=plain))
    names = ["linear_cross_entropy", "liger", "cut_cross_entropy", "quack"]
    said = CliRunner().invoke(command, [*HEADED, *(x for n in names for x in ("--against", n))])
    assert said.exit_code == 0, said.output
    assert "not timed" not in said.output
    assert all(re.search(rf"^  {n} +\d", said.output, re.M) for n in names)
    del names[2]
    rows = ["cross_entropy", "--size", "N=9,C=5", "--backend", "torch", "--rounds", "2"]
    said = CliRunner().invoke(command, [*rows, *(x for n in names for x in ("--against", n))])
    assert said.exit_code == 0, said.output
    assert "not timed" not in said.output
    said = CliRunner().invoke(command, [*rows, "--against", "cut_cross_entropy"])
    assert said.exit_code == 2
    assert "say --head linear" in said.output


def test_a_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "liger_kernel.transformers", None)
    said = CliRunner().invoke(command, [*HEADED, "--against", "liger"])
    assert said.exit_code == 2
    assert "--against liger: " in said.output


class Event:
    """Of a clock that moves on by a millisecond at each look."""

    now = 0.0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        Event.now += 1.0
        self.at = Event.now

    def elapsed_time(self, other: Event) -> float:
        return other.at - self.at


@pytest.mark.parametrize("cold", [True, False])
def test_a_device_is_timed_between_events(cold: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: seen.append("waited"))
    monkeypatch.setattr(timing, "_sweep_out", lambda device: seen.append(f"cold {device}"))
    taken = timing._once(lambda _: seen.append("run"), [], "cuda", cold)
    assert taken == pytest.approx(1e-3)
    assert seen == (["cold cuda"] if cold else []) + ["run", "waited"]


def test_the_share_of_a_copys_bandwidth() -> None:
    """Value and gradient in one visit read and write what a copy does: 1 where they take as long."""
    one, two = bench.Timing(2.0, 2.0, 2.0, None), bench.Timing(4.0, 4.0, 4.0, None)
    report = bench.Report("mine", (), "float32", 1, 2, {"copy": one, "torch": two}, copies=1.0)
    assert report.of_copy("torch") == 0.5
    measured = bench.measure(source(), REGISTRY, {"N": 8, "C": 500}, backends=["torch"], rounds=2)
    assert 1 <= measured.copies < 2
    assert (
        bench.measure(source(), REGISTRY, {"N": 8, "C": 5}, backends=["torch"], baselines=[], rounds=2).of_copy("torch")
        is None
    )


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = CliRunner().invoke(command, ["cross_entropy", "--device", "cuda"])
    assert result.exit_code == 2
    assert "torch finds no GPU here" in result.output
    assert "lossdsl inspect" in result.output


def test_an_inaccurate_baseline_is_timed_where_that_is_asked_for() -> None:
    others = {
        "off": lambda z, y: torch.nn.functional.cross_entropy(z, y) * 1.01,
        "broken": lambda z, y: z.nothing,
    }
    prepared = bench.prepare(
        source(), REGISTRY, {"N": 8, "C": 5}, backends=["torch"], baselines=["clone"], others=others, inaccurate=True
    )
    report = prepared.timed(2, sets=1, warm_up=1)
    assert set(report.timings) == {"torch", "off", "clone"}
    assert set(report.failures) == {"off", "broken"}
    assert report.rounds == 2


def test_compiled_baselines_are_compiled_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch keeps eight compilations of one function and then runs it as it is: each loss must be one of its own."""
    compiled: list[object] = []
    monkeypatch.setattr(torch, "compile", lambda f, dynamic: compiled.append(f.forward.__code__) or f)
    for name in ("one", "two"):
        asked = {"backends": ["torch"], "baselines": ["compile"]}
        bench.prepare(source(name), REGISTRY, {"N": 8, "C": 5}, **asked)
    assert compiled[0] is not compiled[1]


def test_what_is_not_finite_is_wrong_where_the_right_one_is() -> None:
    right = torch.tensor([[1.0, nan, inf, 2.0]])
    for wrong in ([nan, nan, inf, 2.0], [1.0, 1.0, inf, 2.0], [1.0, nan, -inf, 2.0], [1.0, nan, inf, 3.0]):
        found = torch.tensor([wrong])
        assert difference([found], [right], 1e-3) == "the value is wrong in 1 of 4 entries"
    assert difference([right.clone()], [right], 1e-3) == ""


CANCELS = """loss cancels
input logits[N, C]
input target[N]: index C
l = log(0.1 + softmax(logits))
return mean[C](l where C != target) - l[target]
"""


def test_a_value_that_cancels_is_measured_by_its_terms() -> None:
    """Logarithms near 2.3 of which 1e-4 is left: single precision knows it to 1e-7 or so, whoever computes it, and
    that is more than the bound leaves. Two hundredths of it are not rounding."""
    asked = {"backends": ["torch"], "baselines": ["eager"], "rounds": 2}
    sizes = {"N": 64, "C": 4000}
    built = build(Source("cancels.loss", CANCELS), REGISTRY, "torch")
    tensors = draw(built.checked, sizes, torch.float64)
    assert terms_of_value(built, REGISTRY, tensors) == pytest.approx(2 * 2.3, rel=0.01)
    loss = by_module(built, [0])
    wanted = results(loss(tensors))
    ulp = torch.finfo(torch.float32).eps * 4.6
    off = [wanted[0] + 2 * ulp, wanted[1]]
    assert difference(off, wanted, 2e-4) == "the value is wrong in 1 of 1 entries"
    assert difference(off, wanted, 2e-4, lambda: 4 * ulp) == ""
    assert difference([wanted[0] + 8 * ulp, wanted[1]], wanted, 2e-4, lambda: 4 * ulp)
    told = difference([wanted[0], wanted[1] * 1.001], wanted, 2e-4, lambda: 4 * ulp)
    assert told.startswith("gradient 1 is wrong in ")
    report = bench.measure(Source("cancels.loss", CANCELS), REGISTRY, sizes, **asked)
    assert not report.failures


def test_rows_that_hang_on_each_other_have_no_terms() -> None:
    text = "loss batch\nbatch N\ninput x[N]\nreturn log(sum[N](exp(x)))\n"
    built = build(Source("batch.loss", text), REGISTRY, "torch")
    assert terms_of_value(built, REGISTRY, draw(built.checked, {"N": 4}, torch.float64)) == 0.0
