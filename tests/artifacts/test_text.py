"""The text of generated modules: formatted, the same every time, and free of what a file may smuggle in."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lossdsl
from lossdsl.artifacts.identifiers import arguments, class_name
from lossdsl.artifacts.literals import Apply, docstring_text, literal, quoted
from lossdsl.backends.manager import availability
from lossdsl.pipeline import build
from lossdsl.plugins import discover
from lossdsl.runtime.module import Loss
from lossdsl.source.python_names import ATTRIBUTES
from lossdsl.source.text import Source

REGISTRY = discover()
HOSTILE = '''loss {name}
"""Ends early \'\'\' and \\ goes on: {{0}} %s \\N{{BULLET}} \\"
import os; os.system("true")
"quoted"""
cite "a \\ b"
input lambda[N, C], torch[N, C]: fixed
input self[N]: index C
param import = 1 in [0, inf)
param value = 2, training = 0.5, reduction = 1, γ = 1, gamma = 2
class = softmax(lambda * import + γ + gamma)[self]
return -log(class) * value + reduction * training * mean[C](torch)
'''


def module_text(text: str, standalone: bool = False, name: str = "x.loss") -> str:
    return build(Source(name, text), REGISTRY, "torch", standalone=standalone).artifact.text


def ruff(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ruff", *words], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules of some losses (of all, for full tests), and of some hostile ones."""
    place = tmp_path_factory.mktemp("modules")
    named = ["std/focal", "std/squentropy", "std/snce", "llm/rlcd_reparam", "llm/synib_dirichlet"]
    std = sorted(full for full in REGISTRY.losses if full.startswith("std/"))
    for full in REGISTRY.losses if os.environ.get("LOSSDSL_FULL_TESTS") else [*named, *std[::9]]:
        file = REGISTRY.losses[full]
        if not (place / f"{file.name}.py").exists():
            text = module_text(file.read(), name=file.path)
            (place / f"{file.name}.py").write_text(text)
    (place / "focal_standalone.py").write_text(module_text(REGISTRY.losses["std/focal"].read(), True))
    for name in ("print", "value", "self"):
        (place / f"hostile_{name}.py").write_text(module_text(HOSTILE.format(name=name)))
        (place / f"hostile_{name}_standalone.py").write_text(module_text(HOSTILE.format(name=name), True))
    return place


def test_ruff_has_nothing_to_say(folder: Path) -> None:
    found = ruff("check", "--isolated", str(folder))
    assert found.returncode == 0, found.stdout
    found = ruff("format", "--isolated", "--diff", str(folder))
    assert found.returncode == 0, found.stdout


def test_the_same_bytes_in_another_process(folder: Path) -> None:
    code = (
        "import sys\nfrom lossdsl.pipeline import build\nfrom lossdsl.plugins import discover\n"
        "from lossdsl.source.text import Source\n"
        "text = open(sys.argv[1]).read()\n"
        "print(build(Source('/elsewhere/focal.loss', text), discover(), 'torch').artifact.text, end='')"
    )
    again = subprocess.run(
        [sys.executable, "-c", code, REGISTRY.losses["std/focal"].path], capture_output=True, text=True, check=True
    )
    assert again.stdout == (folder / "focal.py").read_text()


def test_nothing_of_a_docstring_becomes_code(folder: Path) -> None:
    for path in folder.glob("hostile_*.py"):
        tree = ast.parse(path.read_text())
        assert not [
            n
            for n in ast.walk(tree)
            if isinstance(n, ast.Name | ast.Attribute) and "os" in (getattr(n, "id", ""), getattr(n, "attr", ""))
        ]
        assert 'import os; os.system("true")' in (ast.get_docstring(tree) or "")


def test_hostile_modules_run(folder: Path) -> None:
    code = (
        "import sys, torch\nsys.path.insert(0, sys.argv[1])\n"
        "import hostile_print as m, hostile_print_standalone as s\n"
        "z, t, y = torch.randn(3, 4), torch.randn(3, 4), torch.tensor([0, 3, 1])\n"
        "p = torch.softmax(z + 1.0 + 2, 1)[range(3), y]\n"
        "expected = (-torch.log(p) * 2 + 0.5 * t.mean(1)).mean()\n"
        "for k in (m, s):\n"
        "    [kind] = [c for c in vars(k).values() if isinstance(c, type) and c.__module__ == k.__name__\n"
        "              and c.__name__.startswith('Print')]\n"
        "    torch.testing.assert_close(kind()(z, t, y), expected)\n"
        "    torch.testing.assert_close(kind()(z, t, y, gamma_=1.0, gamma=1.0), (expected * 0 + (-torch.log(\n"
        "        torch.softmax(z, 1)[range(3), y]) * 2 + 0.5 * t.mean(1)).mean()))\n"
    )
    run = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_a_standalone_module_needs_nothing_of_lossdsl(folder: Path) -> None:
    code = (
        "import sys\nsys.modules['lossdsl'] = None\nsys.path.insert(0, sys.argv[1])\nimport focal_standalone, torch\n"
        "z = torch.randn(3, 4, requires_grad=True)\nloss = focal_standalone.Focal(gamma=0.0)\n"
        "y = torch.tensor([0, 1, 3])\n"
        "torch.testing.assert_close(loss(z, y), torch.nn.functional.cross_entropy(z, y))\n"
        "loss(z, y).backward()\nassert z.grad.abs().sum() > 0\n"
        "torch.func.grad(lambda z: loss(z, y))(z.detach())\n"
        "import pickle\npickle.loads(pickle.dumps(loss))\n"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('lark', 'pluggy')]\n"
    )
    run = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_importing_a_module_loads_nothing_of_the_compiler(folder: Path) -> None:
    code = (
        "import sys\nsys.path.insert(0, sys.argv[1])\nimport focal, torch\n"
        "focal.Focal()(torch.randn(3, 4), torch.tensor([0, 1, 3]))\n"
        "ours = [m for m in sys.modules if m.startswith('lossdsl.') and not m.startswith('lossdsl.runtime')]\n"
        "assert not ours, ours\n"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('lark', 'pluggy', 'click')]\n"
    )
    run = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_import_order_does_not_depend_on_the_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "focal.py").write_text((folder / "focal.py").read_text())
    for cwd in (tmp_path, Path(lossdsl.__file__).parents[1]):
        found = subprocess.run(
            [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "I", str(tmp_path / "focal.py")],
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 0, found.stdout


def test_a_plugin_backend_is_embedded_too(tmp_path: Path) -> None:
    spec = REGISTRY.backends.get("cpu")
    if spec is None or not availability(spec).ok:
        pytest.skip("the C++ backend is not installed, or there is no compiler")
    text = build(
        Source("focal.loss", REGISTRY.losses["std/focal"].read()), REGISTRY, "cpu", standalone=True
    ).artifact.text
    (tmp_path / "focal.py").write_text(text)
    assert ruff("check", "--isolated", str(tmp_path)).returncode == 0
    assert ruff("format", "--isolated", "--check", str(tmp_path)).returncode == 0
    code = (
        "import sys\nsys.modules['lossdsl'] = sys.modules['lossdsl_cpu'] = None\nsys.path.insert(0, sys.argv[1])\n"
        "import focal, torch\nz = torch.randn(3, 4, requires_grad=True)\ny = torch.tensor([0, 1, 3])\n"
        "loss = focal.focal(z, y, gamma=0.0)\n"
        "torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(z, y))\nloss.backward()\n"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_the_header_says_where_it_comes_from(folder: Path) -> None:
    head = (folder / "squentropy.py").read_text().split('"""')[0]
    assert "# Generated from squentropy.loss" in head
    assert "# lossdsl compile squentropy.loss -o squentropy.py --backend torch" in head
    assert "# uses std/cross_entropy: sha256 " in head


def test_attributes_are_those_of_a_module() -> None:
    import torch

    own = {name for name in dir(torch.nn.Module()) if not name.startswith("_")}
    assert own <= ATTRIBUTES
    assert {name for name in dir(Loss) if not name.startswith("_")} <= ATTRIBUTES


def test_names() -> None:
    assert arguments(["γ", "gamma", "lambda", "self", "reduction", "x'", "train"], ["eval", "value", "input"]) == {
        "γ": "gamma",
        "gamma": "gamma_",
        "lambda": "lambda_",
        "self": "self_",
        "reduction": "reduction_",
        "x'": "x",
        "train": "train",
        "eval": "eval_",
        "value": "value",
        "input": "input",
    }


TAKEN = """loss taken
input value[N], input[N], gradient[N], tensor[N], torch[N], match[N]
param second = 1, max = 2, type_of = 3, compiled = 4, loss_of = 5
return value^2 + second * input + max * gradient * tensor + type_of * torch * match + compiled + loss_of
"""


@pytest.mark.parametrize("standalone", [False, True])
def test_names_of_the_module_and_of_builtins_may_be_arguments(standalone: bool) -> None:
    import torch

    artifact = build(Source("taken.loss", TAKEN), REGISTRY, "torch", standalone=standalone).artifact
    module = artifact.load()
    value, *rest = (torch.tensor([float(k)], dtype=torch.float64, requires_grad=True) for k in range(2, 8))
    names = ("input", "gradient", "tensor", "torch", "match")
    given = dict(zip(names, rest, strict=True))
    want = 4 + 1 * 3 + 2 * 4 * 5 + 3 * 6 * 7 + 4 + 5
    for loss in (module.Taken(), module.taken):
        found = loss(value=value, **given)
        assert found.item() == want
        assert torch.autograd.grad(found, value)[0].item() == 4
        assert loss(value, **given, max=0, second=0.0, compiled_=1, reduction="sum").item() == 4 + 126 + 1 + 5
    assert class_name("cross_entropy", ()) == "CrossEntropy"
    assert class_name("loss", {"Loss"}) == "Loss_"
    assert class_name("none", ()) == "None_"


def test_literals_are_what_they_stand_for() -> None:
    for text in ["", "a\"b'c", "\\", "\n\t\x00\x7f", "é∂𝛾\u202e", '"""', "'\"'"]:
        assert ast.literal_eval(quoted(text)) == text
        assert ast.literal_eval(f'"""{docstring_text(text + "!")}"""') is not None
    value = (1, 2.5, float("inf"), True, None, ("a",), tuple("abcdefghijklmnopqrstuvwxyz"))
    assert eval(literal(value), {"float": float}) == value
    nested = Apply("f", (tuple(range(60)),), (("key", "x" * 100),))
    assert eval(literal(nested), {"f": lambda a, key: (a, key)}) == (tuple(range(60)), "x" * 100)
