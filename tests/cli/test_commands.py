from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from lossdsl.cli.dump import STAGES
from lossdsl.derive.prove import Proof
from lossdsl.source.diagnostic import InternalError


def test_list_shows_name_pack_and_a_line(run):
    lines = run("list").stdout.splitlines()
    [focal] = [line for line in lines if line.startswith("focal ")]
    assert focal.split()[1] == "std"
    assert "Cross-entropy that looks away" in focal
    assert lines == sorted(lines)


def test_list_as_json_and_by_tag(run):
    records = json.loads(run("list", "--json").stdout)
    focal = next(record for record in records if record["name"] == "focal")
    assert focal["full_name"] == "std/focal"
    assert "imbalance" in focal["tags"]
    tagged = json.loads(run("list", "--json", "--tag", "imbalance", "--tag", "classification").stdout)
    assert {record["name"] for record in tagged} == {
        record["name"] for record in records if {"imbalance", "classification"} <= set(record["tags"])
    }
    assert run("list", "--tag", "no_such_tag").stdout == ""
    assert run("list", "--pack", "no_such_pack").stdout == ""


def test_show_prints_the_page_of_a_loss(run, tmp_path):
    page = run("show", "focal").stdout
    for words in ("arXiv:1708.02002", "return -alpha[target]", "d loss / d logits[N, C] =", "focal along logits[0, 0]"):
        assert words in page
    assert len([line for line in page.splitlines() if "┤" in line]) == 16
    assert "along" not in run("show", "sparsemax").stdout  # a map has no curve
    picture = tmp_path / "focal.png"
    assert run("show", "focal", "--plot", picture).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "has no curve" in run("show", "sparsemax", "--plot", picture).stderr
    assert "not supported" in run("show", "focal", "--plot", tmp_path / "focal.xyz").stderr


def test_show_prints_the_file(run):
    text = run("show", "std/focal", "--source").stdout
    assert text.startswith("loss focal\n")
    assert Path(run("show", "focal", "--path").stdout.strip()).read_text() == text


@pytest.mark.parametrize("command", ["show", "check", "explain", "compile", "dump"])
def test_an_unknown_loss_is_a_wrong_call_with_a_suggestion(run, tmp_path, command):
    more = {"compile": ["-o", tmp_path / "out.py"], "dump": ["--stage", "graph"]}.get(command, [])
    result = run(command, "focl", *more)
    assert result.exit_code == 2
    assert "there is no loss 'focl'; did you mean focal?" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("inspect focal --target sm_1", "'sm_1' is no target: there are sm_75"),  # LLVM would end the process
        ("inspect focal --target gfx1", "'gfx1' is no target"),
        ("bench focal --size N=0,C=1", "a size is from 1 to"),
        ("bench focal --backend torch --size N=999999999,C=99999999", "takes more memory than there is"),
        ("explain focal --size N=0,C=1", "a size is from 1 to"),
        ("analyze mean_absolute_error --quick --plot nowhere/mae.png", "the plot can't be written to nowhere/mae.png"),
        ("analyze mean_absolute_error --quick --plot mae.xyz", "Format 'xyz' is not supported"),
        ("analyze focal --set gamma=-1", "gamma = -1 is not in [0, inf)"),
        ("analyze focal --set gamma", "write PARAM=VALUE"),
        ("explain focal --device toaster", "'toaster' is no device"),
        ("compile focal --device cud", "'cud' is no device"),
        ("explain focal --memory 1MiB", "--memory is for --size"),
        ("dump focal --stage kernel --backend torch", "--backend is for --stage code"),
    ],
)
def test_what_no_machine_or_loss_has_is_a_wrong_call(run, words, reason):
    result = run(*words.split())
    assert result.exit_code == 2
    assert reason in result.stderr


def test_a_slope_that_is_infinite_at_the_edge_of_the_domain_is_no_fault_of_ours(run, tmp_path):
    file = tmp_path / "root.loss"
    file.write_text("loss root\ninput x[N] in (0, inf)\nreturn sqrt(x)\nclaim lipschitz(x) <= 1000000\n")
    assert run("check", "--claims", file).exit_code in (0, 1)


def test_an_unknown_command_is_a_wrong_call_with_a_suggestion(run):
    result = run("chek", "focal")
    assert result.exit_code == 2
    assert "did you mean 'check'?" in result.stderr


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"loss a\xff\n", "is not UTF-8: byte 6 is 0xff"),
        (b"#" * 70_000, "has 70000 bytes; a .loss file has at most 65536"),
    ],
)
def test_what_is_no_text_is_a_wrong_call(run, tmp_path, data, reason):
    path = tmp_path / "a.loss"
    path.write_bytes(data)
    for command in ("check", "fmt"):
        result = run(command, path)
        assert result.exit_code == 2
        assert reason in result.stderr
    assert "No such file" in run("check", tmp_path / "missing.loss").stderr


# --- fmt --------------------------------------------------------------------------------------------------------------


def test_fmt_writes_prints_and_checks(run, tmp_path):
    path = tmp_path / "a.loss"
    path.write_text("loss a\ninput x[N]\nreturn  x*2\n")
    assert run("fmt", "--check", path).exit_code == 1
    diff = run("fmt", "--diff", path)
    assert diff.exit_code == 1
    assert "-return  x*2\n+return x * 2\n" in diff.stdout
    assert path.read_text() == "loss a\ninput x[N]\nreturn  x*2\n"
    assert run("fmt", path).exit_code == 0
    assert path.read_text() == "loss a\ninput x[N]\nreturn x * 2\n"
    assert run("fmt", "--check", path).exit_code == 0
    assert run("fmt", path).stdout == ""
    assert run("fmt", "-", stdin="loss a\ninput x[N]\nreturn  x*2\n").stdout == path.read_text()


def test_fmt_makes_line_ends_uniform(run, tmp_path):
    path = tmp_path / "a.loss"
    path.write_bytes("\ufeffloss a\r\ninput x[N]\rreturn x * 2\r\n".encode())
    assert run("fmt", "--check", path).exit_code == 1
    assert run("fmt", path).exit_code == 0
    assert path.read_bytes() == b"loss a\ninput x[N]\nreturn x * 2\n"


def test_fmt_leaves_a_broken_file_alone_and_does_the_others(run, tmp_path):
    broken, other = tmp_path / "a.loss", tmp_path / "b.loss"
    broken.write_text("loss a\ninput x[N]\nreturn (x*2\n")
    other.write_text("loss b\ninput x[N]\nreturn x*2\n")
    result = run("fmt", broken, other)
    assert result.exit_code == 1
    assert "error[E01" in result.stderr
    assert broken.read_text().endswith("(x*2\n")
    assert other.read_text().endswith("x * 2\n")


# --- check ------------------------------------------------------------------------------------------------------------


def test_check_says_ok_and_runs_the_examples(run, right):
    result = run("check", right)
    assert result.exit_code == 0
    assert result.stdout == f"{right}: ok, 1 example holds\n"


def test_check_reports_all_errors_of_a_file(run, wrong):
    result = run("check", wrong)
    assert result.exit_code == 1
    assert "`y`" in result.stderr
    assert "`z`" in result.stderr
    assert result.stdout == f"{wrong}: wrong, 2 errors\n"


def test_check_for_programs(run, right, wrong):
    result = run("check", "--json", right, wrong)
    assert result.exit_code == 1
    good, bad = json.loads(result.stdout)
    assert good["ok"]
    assert good["name"] == "half"
    assert good["examples"] == [{"expected": "1.5", "got": "1.5", "ok": True}]
    assert [(d["line"], d["severity"]) for d in bad["diagnostics"]] == [(3, "error"), (3, "error")]


def test_check_proves_the_gradient(run, right, monkeypatch):
    assert run("check", "--prove", right).stdout == f"{right}: ok, 1 example holds, gradient proved\n"
    [record] = json.loads(run("check", "--prove", "--json", right).stdout)
    assert record["gradient"] == {"status": "proved", "points": 3, "detail": "", "text": "proved"}
    wrong = Proof("refuted", 0, "grad.x[0] is derived as 1, but is 2 at x = [1]")
    monkeypatch.setattr("lossdsl.derive.prove.prove_gradient", lambda *_: wrong)
    with pytest.raises(InternalError, match=r"grad.x\[0\] is derived as 1, but is 2"):  # no mistake of the file's
        run("check", "--prove", right)


def test_check_for_github(run, wrong):
    result = run("check", "--format", "github", wrong)
    assert result.stdout.startswith(f"::error file={wrong},line=3,endLine=3,col=8,")


def test_check_reads_the_standard_input(run, right):
    assert run("check", "-", stdin=right.read_text()).stdout == "<stdin>: ok, 1 example holds\n"


def test_check_of_the_syntax_alone(run, wrong, tmp_path):
    assert run("check", "--syntax", wrong).exit_code == 0
    broken = tmp_path / "b.loss"
    broken.write_text("loss b\ninput x[N]\nreturn (x\n")
    assert run("check", "--syntax", broken).exit_code == 1


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("return x / 2\nexample x = [3] gives 1.4", "E0901", "the example gives 1.5, not 1.4"),
        ("return x / 2\nexample x = [3] gives 1.50001", "E0901", "gives 1.50000"),
        ("return x / 2\nexample x = [3] gives 2", "E0901", "gives 1.5, not 2"),
        ("return x / 2\nexample x = [3] gives [1.5]", "E0902", "the result is one number"),
        ("return x / 2\nexample x = [[3]] gives 1.5", "E0902", "'x' is [N], but the example's value has 2 dimensions"),
        ("input w[N]\nreturn w * x\nexample x = [3] gives 1.5", "E0209", "the example doesn't set `w`"),
        ("input w[N]\nreturn w * x\nexample x = [3], w = [1, 2] gives 1", "E0902", "N = 1 from 'x', but 'w' has 2"),
        ("input w[N]: int\nreturn w * x\nexample x = [3], w = [1.5] gives 1", "E0902", "'w' takes whole numbers"),
    ],
)
def test_an_example_that_does_not_hold_is_an_error(run, text, code, words):
    result = run("check", "-", stdin=f"loss a\ninput x[N]\n{text}\n")
    assert result.exit_code == 1
    assert f"error[{code}]" in result.stderr
    assert words in result.stderr


@pytest.mark.parametrize(
    ("gives", "words"),
    [
        ("[[0, 1], [1.5, 3]]", "gives [[0, 1], [1.0, 3]], not [[0, 1], [1.5, 3]]"),
        ("[0, 1, 1, 3]", "the result has 2 x 2 entries"),
        ("[[0, 1], [1]]", "differ in length"),
        ("4", "the result has 2 x 2 entries"),
    ],
)
def test_an_example_of_a_map_gives_lists(run, gives, words):
    text = "map a\ninput x[N, C]\nreturn x - min[C](x) + (if N == 1 then 1 else 0)\n"
    call = "example x = [[2, 3], [1, 3]] gives "
    assert run("check", "-", stdin=f"{text}{call}[[0, 1], [1, 3.0]]\n").exit_code == 0
    assert words in run("check", "-", stdin=f"{text}{call}{gives}\n").stderr


@pytest.mark.parametrize(
    "text",
    [
        "return x / 3\nexample x = [1] gives 0.333333",
        "return x / 3\nexample x = [1, 3] gives 0.66667",
        "return x / 3\nexample x = [-6] gives -2",
        "return sum[N](x)\nexample x = [1, 2, -0.5] gives 2.5",
        "return log(x)\nexample x = [0] gives -inf",
        "return 1e-9 * x\nexample x = [1.2345] gives 1.2345e-9",
        "input y[N]: index C\ninput z[N, C]\nreturn z[y] + 0 * x\n"
        "example x = [0, 0], z = [[1, 2], [3, 5]], y = [1, 0] gives 2.5",
        "param p = 3\nreturn p * x\nexample x = [1], p = 1/2 gives 0.5",
        "input w[N] = 2\nreturn w * x\nexample x = [1] gives 2",
    ],
)
def test_examples_that_hold(run, text):
    result = run("check", "-", stdin=f"loss a\ninput x[N]\n{text}\n")
    assert result.exit_code == 0, result.stderr


# --- dump -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_prints_the_same_text_twice(run, stage):
    first, second = run("dump", "focal", "--stage", stage), run("dump", "std/focal", "--stage", stage)
    assert first.exit_code == 0
    assert first.stdout == second.stdout
    assert len(first.stdout) > 100


def test_dump_of_a_wrong_file(run, wrong):
    result = run("dump", wrong, "--stage", "graph")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "`y`" in result.stderr


def test_dump_wants_a_stage_it_knows(run):
    assert run("dump", "focal", "--stage", "graf").exit_code == 2
    assert run("dump", "focal").exit_code == 2
    assert "there is no backend 'troch'" in run("dump", "focal", "--stage", "code", "--backend", "troch").stderr


# --- doctor -----------------------------------------------------------------------------------------------------------


def test_doctor_shows_versions_backends_and_packs(run):
    result = run("doctor")
    assert "torch 2." in result.stdout
    assert "C++ compiler: " in result.stdout
    report = json.loads(run("doctor", "--json").stdout)
    [torch] = [backend for backend in report["backends"] if backend["name"] == "torch"]
    assert torch["ok"]
    assert any(plugin["packs"].get("std", 0) >= 20 for plugin in report["plugins"])


def test_doctor_reports_a_plugin_that_failed(run, tmp_path, monkeypatch):
    info = tmp_path / "bad-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[lossdsl.plugins]\nbad = bad_doctor_plugin\n")
    (tmp_path / "bad_doctor_plugin.py").write_text("raise ImportError('no cuda here')")
    monkeypatch.syspath_prepend(tmp_path)
    result = run("doctor")
    assert result.exit_code == 1
    assert "bad (bad 0.1) is not in use: ImportError: no cuda here" in result.stdout
    monkeypatch.setenv("LOSSDSL_DISABLE", "bad")
    result = run("doctor")
    assert "bad (bad 0.1) is not in use: turned off by LOSSDSL_DISABLE" in result.stdout
    assert result.exit_code == 0
    monkeypatch.setenv("LOSSDSL_DISABLE", "")
    monkeypatch.setenv("LOSSDSL_STRICT_PLUGINS", "1")
    strict = run("list")
    assert strict.exit_code == 2
    assert "bad (bad 0.1) is not in use: ImportError: no cuda here" in strict.stderr


def test_accuracy_says_what_is_beyond_its_bar_and_what_excuses_it(run, tmp_path, monkeypatch):
    from lossdsl.accuracy import table

    path = tmp_path / "gap.loss"
    path.write_text("loss gap\ninput x[N]\nreturn (exp(x) - 1)^2\n")
    good = run("check", "--accuracy", path)
    assert (good.exit_code, "gap.loss: ok" in good.stdout) == (0, True)
    assert "torch, bfloat16: every number keeps to its bar" in good.stdout

    def astray(*arguments: object) -> dict[str, object]:
        found = exact(*arguments)
        return {**found, "grad.x": found["grad.x"] * 1.01}

    exact = table.run_torch
    monkeypatch.setattr(table, "run_torch", astray)
    bad = run("check", "--accuracy", path)
    assert (bad.exit_code, "gap.loss: not exact" in bad.stdout) == (1, True)
    assert "miss: nothing excuses it" in bad.stdout
    [record] = json.loads(run("check", "--accuracy", "--json", path).stdout)
    assert not record["accuracy"]["ok"]
    half = next(r for r in record["accuracy"]["reports"] if (r["backend"], r["dtype"]) == ("torch", "bfloat16"))
    assert half["units"]["gradient"] == "bfloat16"
    assert 0.5 < half["gradient"]["ulp"] < 3  # 1 in a hundred is 1.3 last places of eight bits


def test_accuracy_of_what_is_named_alone(run, tmp_path):
    path = tmp_path / "gap.loss"
    path.write_text("loss gap\ninput x[N]\nreturn (exp(x) - 1)^2\n")
    said = run("check", "--accuracy", "--backend", "torch", "--dtype", "float16", path)
    assert said.exit_code == 0
    assert "torch, float16: every number keeps to its bar" in said.stdout
    assert "left out: offset 1e+06: float16 can't hold it" in said.stdout
    assert not any(word in said.stdout for word in ("float32:", "bfloat16", "cpu,"))
    assert (
        "there is no backend 'torhc'; did you mean 'torch'?"
        in run("check", "--accuracy", "--backend", "torhc", path).stderr
    )
    assert "'triton' is for cuda" in run("check", "--accuracy", "--backend", "triton", path).stderr
    assert "add that" in run("check", "--dtype", "float16", path).stderr


def test_accuracy_says_how_far_it_is_on_a_terminal(monkeypatch):
    from lossdsl.cli.check import _tell

    for terminal, wanted in ((True, "\r\033[Kgap: 2 of 3 cases\r\033[K"), (False, "")):
        stream = io.StringIO()
        stream.isatty = lambda terminal=terminal: terminal
        monkeypatch.setattr(sys, "stderr", stream)
        told = _tell("gap")
        told(2, 3)
        told(3, 3)
        assert stream.getvalue() == wanted
