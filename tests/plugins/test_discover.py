from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fakes import backend, distribution, pack

from lossdsl.backends.api import API
from lossdsl.plugins import DISABLED, PluginConflictError, PluginFailedError, discover


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


HOOK = "from lossdsl.backends.hooks import hookimpl\n\n@hookimpl\ndef lossdsl_backends():\n    "
GOOD = backend("m", "good")
POINT = "[lossdsl.plugins]\n{name} = {module}\n"


def test_built_in_backend_comes_through_the_hook():
    registry = discover({})
    assert registry.backends["torch"].distribution.startswith("lossdsl ")
    assert registry.primitives["exp"].name == "exp"
    assert registry.reductions["sum"].name == "sum"


def test_a_plugin_adds_its_backend(site: Path):
    distribution(
        site, "acme-fast", "1.2", "[lossdsl.plugins]\nfast = acme_fast\n", acme_fast=backend("acme_fast", "fast")
    )
    spec = discover({}).backends["fast"]
    assert spec.distribution == "acme-fast 1.2"
    assert spec.emit == "acme_fast:emit"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import no_such_module_anywhere", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("def broken(:", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("1 / 0", "ZeroDivisionError"),
        (HOOK + "raise OSError('gone')", "OSError: gone"),
        (HOOK + "return 3", "returned int where a list"),
        (HOOK + "return [3]", "returned int where BackendSpec"),
        (HOOK.replace("backends():", "backend():") + "return []", "unknown hook 'lossdsl_backend'"),
        ("x = 1", "none of the hooks"),
    ],
)
def test_a_broken_plugin_disables_only_itself(site: Path, text: str, reason: str):
    distribution(site, "bad", "0.1", POINT.format(name="bad", module="bad_plugin"), bad_plugin=text)
    distribution(site, "zgood", "0.2", POINT.format(name="good", module="good_plugin"), good_plugin=GOOD)
    registry = discover({})
    assert "good" in registry.backends
    [failure] = [failure for failure in registry.failures if failure.name == "bad"]
    assert failure.distribution == "bad 0.1"
    assert reason in failure.reason
    with pytest.raises(PluginFailedError, match=r"bad \(bad 0\.1\)"):
        discover({"LOSSDSL_STRICT_PLUGINS": "1"})


def test_interrupting_is_not_a_plugin_failure(site: Path):
    distribution(site, "bad", "0.1", POINT.format(name="bad", module="stopped"), stopped="raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        discover({})


def test_damaged_metadata_hides_no_other_plugin(site: Path):
    distribution(site, "awful", "0", "[lossdsl.plugins]\nno equals sign here\n")
    distribution(site, "zgood", "0.2", POINT.format(name="good", module="good_plugin"), good_plugin=GOOD)
    registry = discover({})
    assert "good" in registry.backends
    assert any("awful" in failure.distribution for failure in registry.failures)


@pytest.mark.parametrize(("one", "other"), [("fast", "fast"), ("fast", "Fast"), ("my-fast", "my_fast")])
def test_two_plugins_of_one_name_are_an_error_that_names_both(site: Path, one: str, other: str):
    distribution(site, "acme", "1.2", POINT.format(name="a", module="plug_a"), plug_a=backend("m", one))
    distribution(site, "bolt", "3.4", POINT.format(name="b", module="plug_b"), plug_b=backend("m", other))
    with pytest.raises(PluginConflictError) as raised:
        discover({})
    assert f"backend {other!r}" in str(raised.value)
    assert "from bolt 3.4 and from acme 1.2" in str(raised.value)
    assert one in discover({"LOSSDSL_DISABLE": "bolt"}).backends
    assert other in discover({"LOSSDSL_DISABLE": "a"}).backends


def test_a_plugin_cannot_take_a_built_in_name(site: Path):
    distribution(site, "acme", "1.2", POINT.format(name="a", module="plug_a"), plug_a=backend("m", "torch"))
    with pytest.raises(PluginConflictError, match=r"acme 1\.2 and from lossdsl "):
        discover({})


def test_a_disabled_plugin_is_not_imported_and_is_no_failure(site: Path):
    distribution(site, "acme", "1.2", POINT.format(name="a-b", module="plug_a"), plug_a="raise SystemExit")
    registry = discover({"LOSSDSL_DISABLE": " A_b ", "LOSSDSL_STRICT_PLUGINS": "1"})
    assert [failure.reason for failure in registry.failures if failure.name == "a-b"] == [DISABLED]
    assert "plug_a" not in sys.modules


@pytest.mark.parametrize(("api", "age"), [(API + 1, "newer"), (0, "older")])
def test_backends_outside_the_api_window_are_refused(site: Path, api: int, age: str):
    distribution(site, "acme", "1.2", POINT.format(name="a", module="plug_a"), plug_a=backend("m", "fast", str(api)))
    registry = discover({})
    assert "fast" not in registry.backends
    [failure] = [failure for failure in registry.failures if failure.name == "a"]
    assert f"is for the {age} backend API {api}" in failure.reason


def test_what_a_plugin_prints_stays_out_of_our_output(site: Path, capsys: pytest.CaptureFixture[str]):
    text = backend("m", "fast") + "\nprint('hello from a plugin')\n"
    distribution(site, "acme", "1.2", POINT.format(name="a", module="plug_a"), plug_a=text)
    discover({})
    assert capsys.readouterr().out == ""


def test_a_pack_is_data(site: Path):
    pack(site, "acme_losses", hinge="loss hinge", zed="loss zed")
    distribution(site, "acme-losses", "2.0", "[lossdsl.losses]\nacme = acme_losses\n")
    losses = discover({}).losses
    assert losses["acme/hinge"].read() == "loss hinge"
    assert losses["acme/hinge"].distribution == "acme-losses 2.0"
    assert "acme_losses" not in sys.modules


def test_finding_a_pack_runs_none_of_its_code(site: Path):
    pack(site, "acme_losses", hinge="loss hinge")
    (site / "acme_losses" / "__init__.py").write_text("raise SystemExit")
    distribution(site, "acme-losses", "2.0", "[lossdsl.losses]\nacme = acme_losses\n")
    assert "acme/hinge" in discover({}).losses


@pytest.mark.parametrize(
    ("point", "files", "reason"),
    [
        ("acme = nowhere_to_be_found", ["a"], "there is no package 'nowhere_to_be_found'"),
        ("acme = acme_losses.inner", ["a"], "is not a top-level package"),
        ("acme = acme_losses", [], "holds no .loss file"),
        ("acme = acme_losses", ["a-b", "a_b"], "a-b.loss and a_b.loss, which are one name"),
        ("Ac!me = acme_losses", ["a"], "is not a pack's name"),
    ],
)
def test_a_broken_pack_disables_only_itself(site: Path, point: str, files: list[str], reason: str):
    pack(site, "acme_losses", **dict.fromkeys(files, "loss a"))
    distribution(site, "acme-losses", "2.0", f"[lossdsl.losses]\n{point}\n")
    registry = discover({})
    assert not [name for name in registry.losses if name.startswith("acme/")]
    assert [failure for failure in registry.failures if reason in failure.reason]


def test_two_packs_of_one_name_are_an_error(site: Path):
    pack(site, "acme_losses", a="loss a")
    pack(site, "other_losses", b="loss b")
    distribution(site, "acme-losses", "2.0", "[lossdsl.losses]\nmy-own = acme_losses\n")
    distribution(site, "other", "0.3", "[lossdsl.losses]\nmy_own = other_losses\n")
    with pytest.raises(PluginConflictError, match=r"from other 0\.3 and from acme-losses 2\.0"):
        discover({"LOSSDSL_DISABLE": ""})


def test_discovery_is_the_same_every_time(site: Path):
    for name in ("b", "a", "c"):
        distribution(site, name, "1", POINT.format(name=name, module=f"p_{name}"), **{f"p_{name}": backend("m", name)})
    assert list(discover({}).backends) == list(discover({}).backends)
    assert [name for name in discover({}).backends if name in "abc"] == ["a", "b", "c"]


def test_discovery_imports_nothing_heavy():
    code = (
        "import sys; from lossdsl.plugins import discover; discover({});"
        "print([m for m in ('torch', 'sympy', 'triton', 'lark', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
