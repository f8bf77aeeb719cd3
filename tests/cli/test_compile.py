from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

RIGHT = "loss half\ninput x[N]\nparam scale = 2 in (0, inf)\nreturn x^2 / scale\n"


def test_it_prints_the_module_or_writes_it(run, tmp_path):
    source, out = tmp_path / "half.loss", tmp_path / "deep" / "half.py"
    source.write_text(RIGHT)
    printed = run("compile", source, "--backend", "torch")
    assert printed.exit_code == 0
    assert "class Half(" in printed.stdout
    written = run("compile", source, "--backend", "torch", "-o", out)
    assert written.exit_code == 0
    assert written.stdout == ""
    assert f"wrote {out}: class Half, backend torch" in written.stderr
    assert out.read_text() == printed.stdout


def test_the_module_has_the_losss_value_and_gradient(run, tmp_path):
    source, out = tmp_path / "half.loss", tmp_path / "half_compiled.py"
    source.write_text(RIGHT)
    assert run("compile", source, "--backend", "torch", "-o", out).exit_code == 0
    spec = importlib.util.spec_from_file_location("half_compiled", out)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = torch.tensor([1.0, -3.0], dtype=torch.float64, requires_grad=True)
    value = module.Half()(x)
    assert value.item() == 2.5
    value.backward()
    assert x.grad.tolist() == [0.5, -1.5]


def test_check_fails_on_drift(run, tmp_path):
    source, out = tmp_path / "half.loss", tmp_path / "half.py"
    source.write_text(RIGHT)
    missing = run("compile", source, "-o", out, "--check")
    assert missing.exit_code == 1
    assert f"{out} isn't there" in missing.stderr
    assert run("compile", source, "-o", out).exit_code == 0
    assert run("compile", source, "-o", out, "--check").exit_code == 0
    source.write_text(RIGHT.replace("x^2", "x^4"))
    drift = run("compile", source, "-o", out, "--check")
    assert drift.exit_code == 1
    assert f"{out} is not what {source} compiles to" in drift.stderr
    assert "x^4" in drift.stdout
    assert "x^4" not in out.read_text()


def test_a_wrong_file_writes_nothing(run, wrong, tmp_path):
    out = tmp_path / "out.py"
    result = run("compile", wrong, "-o", out)
    assert result.exit_code == 1
    assert "`y`" in result.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--backend", "troch"], "there is no backend 'troch'; did you mean 'torch'?"),
        (["--check"], "say which with -o OUT"),
        (["--mode", "colour"], "--mode colour: write PARAM=NAME"),
        (["-o", "/dev/null/nowhere/out.py"], "/dev/null/nowhere/out.py: "),
    ],
)
def test_wrong_calls(run, right, arguments, reason):
    result = run("compile", right, *arguments)
    assert result.exit_code == 2
    assert reason in result.stderr


def test_a_standalone_module_runs_where_lossdsl_is_not(run, tmp_path):
    """Its own process, in which importing lossdsl fails."""
    source, out = tmp_path / "half.loss", tmp_path / "half_alone.py"
    source.write_text(RIGHT)
    assert run("compile", source, "--backend", "torch", "--standalone", "-o", out).exit_code == 0
    code = (
        "import sys; sys.modules['lossdsl'] = None\n"
        "import torch, half_alone\n"
        "x = torch.tensor([1.0, -3.0], requires_grad=True)\n"
        "half_alone.Half(scale=4.0)(x).backward(); print(x.grad.tolist())\n"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[0.25, -0.75]"


def test_every_run_gives_the_same_bytes(tmp_path):
    """In processes with different hash seeds."""
    texts = set()
    for seed in ("1", "2"):
        command = [
            sys.executable,
            "-c",
            "from lossdsl.cli import main; main()",
            "compile",
            "focal",
            "--backend",
            "torch",
        ]
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=Path(__file__).parent)
        assert done.returncode == 0, done.stderr
        texts.add(done.stdout)
    assert len(texts) == 1
