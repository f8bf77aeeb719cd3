from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fakes import backend, distribution, pack

from lossdsl import plugins
from lossdsl.backends.api import API
from lossdsl.backends.hooks import HOOKS, OLDEST_HOOKS
from lossdsl.plugins import DISABLED, PluginConflictError, PluginFailedError, discover

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
        ("import os; os.environ['HOME' * 99]", "KeyError"),
        ("def f(): f()\nf()", "RecursionError"),
        (HOOK + "return 3", "returned int where a list"),
        (HOOK + "return None", "lossdsl_backends returned None where a list"),
        (HOOK + "return 'torch'", "returned str where a list"),
        (HOOK.replace("backends():", "backends(config):") + "return []", "Argument(s) {'config'} are declared"),
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
    with pytest.raises(PluginFailedError, match=r"bad \(bad 0\.1\) is not in use: "):
        discover({"LOSSDSL_STRICT_PLUGINS": "1"})
    assert failure.problem.code == "E0701"
    assert failure.source.text[slice(failure.span.start, failure.span.end)] == "bad = bad_plugin"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("name", "'auto'", "is not a backend's name"),
        ("name", "3", "is not a backend's name"),
        ("devices", "'cpu'", "not a tuple such as"),
        ("devices", "()", "not a tuple such as"),
        ("emit", "'bad_plugin.emit'", "emit is 'bad_plugin.emit', not 'module:function'"),
        ("probe", "len", "not 'module:function'"),
        ("api", "'1'", "no whole number"),
    ],
)
def test_a_record_that_would_fail_later(site: Path, field: str, value: str, said: str):
    text = GOOD.replace("[BackendSpec", "[replace(BackendSpec").replace(",))]", f",)), {field}={value})]")
    text = "from dataclasses import replace\n" + text
    distribution(site, "bad", "0.1", "[lossdsl.plugins]\nbad = bad_plugin\n", bad_plugin=text)
    [failure] = [failure for failure in discover({}).failures if failure.name == "bad"]
    assert said in failure.reason
    assert "good" not in discover({}).backends


def test_an_entry_point_that_leads_to_none(site: Path):
    distribution(site, "bad", "0.1", "[lossdsl.plugins]\nbad = bad_plugin:nothing\n", bad_plugin="nothing = None")
    [failure] = [failure for failure in discover({}).failures if failure.name == "bad"]
    assert failure.reason == "its entry point leads to None"


def test_a_plugin_that_fails_half_way_brings_nothing(site: Path):
    text = backend("m", "half") + "\n@hookimpl\ndef lossdsl_losses():\n    raise RuntimeError('then this')\n"
    distribution(site, "bad", "0.1", POINT.format(name="bad", module="bad_plugin"), bad_plugin=text)
    registry = discover({})
    assert "half" not in registry.backends
    assert "RuntimeError: then this" in [failure.reason for failure in registry.failures]


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
    assert "LOSSDSL_DISABLE=bolt" in str(raised.value)
    [conflict] = raised.value.conflicts
    assert conflict.problem.code == "E0702"
    assert conflict.origin.source.text.splitlines()[1] == "b = plug_b"
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
    assert failure.problem.code == "E0704"
    assert ("update lossdsl" if age == "newer" else "update the plugin") in failure.problem.fix


@pytest.mark.parametrize(("version", "age"), [(HOOKS + 1, "newer"), (OLDEST_HOOKS - 1, "older")])
def test_plugins_outside_the_window_of_the_hooks_are_refused(site: Path, version: int, age: str):
    """Before anything else is asked of them: a hook that is new to us would be called a slip of the pen."""
    text = f"lossdsl_api = {version}\n" + HOOK.replace("lossdsl_backends", "lossdsl_optimisers") + "return []"
    distribution(site, "acme", "1.2", POINT.format(name="a", module="plug_a"), plug_a=text)
    [failure] = [failure for failure in discover({}).failures if failure.name == "a"]
    assert failure.reason == f"it is for the {age} hooks {version}; here it is {HOOKS}"
    assert failure.problem.code == "E0704"


def test_a_plugin_that_imports_what_lossdsl_has_not_is_for_another_version(site: Path):
    text = "from lossdsl.backends.api import TileProgram"
    distribution(site, "acme", "1.2", POINT.format(name="a", module="plug_a"), plug_a=text)
    [failure] = [failure for failure in discover({}).failures if failure.name == "a"]
    assert "cannot import name 'TileProgram'" in failure.reason
    assert failure.problem.code == "E0704"


@pytest.mark.parametrize("version", ["'1'", "1.0", "True"])
def test_a_version_is_a_whole_number(site: Path, version: str):
    text = f"lossdsl_api = {version}\n" + GOOD
    distribution(site, "acme", "1.2", POINT.format(name="a", module="plug_a"), plug_a=text)
    [failure] = [failure for failure in discover({}).failures if failure.name == "a"]
    assert "no whole number" in failure.reason


def test_one_plugin_under_two_names_is_one(site: Path):
    """Within a distribution or from two."""
    distribution(site, "acme", "1.2", "[lossdsl.plugins]\na = plug_a\nb = plug_a\n", plug_a=backend("m", "fast"))
    distribution(site, "bolt", "3.4", POINT.format(name="c", module="plug_a"))
    assert discover({}).backends["fast"].distribution == "acme 1.2"


def test_the_same_conflict_whatever_the_order_on_disk(site: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("zzz", "aaa", "mmm"):
        distribution(site, name, "1", POINT.format(name=name, module=f"p_{name}"), **{f"p_{name}": backend("m", "x")})
    said = []
    for key in (str, lambda d: str(d.name)[::-1], lambda d: hash(d.name)):
        found = sorted(plugins.distributions(), key=lambda d, key=key: key(d))
        monkeypatch.setattr(plugins, "distributions", lambda found=found: iter(found))
        with pytest.raises(PluginConflictError) as raised:
            discover({})
        said.append(str(raised.value))
        monkeypatch.undo()
        monkeypatch.syspath_prepend(site)
    assert len(set(said)) == 1
    assert [c.origin.owner for c in raised.value.conflicts] == ["mmm 1", "zzz 1"]
    assert {c.holder for c in raised.value.conflicts} == {"aaa 1"}


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
    [failure] = [failure for failure in registry.failures if reason in failure.reason]
    assert failure.problem.code == "E0703"
    assert "acme-losses" in failure.problem.fix


def test_two_packs_of_one_name_are_an_error(site: Path):
    pack(site, "acme_losses", a="loss a")
    pack(site, "other_losses", b="loss b")
    distribution(site, "acme-losses", "2.0", "[lossdsl.losses]\nmy-own = acme_losses\n")
    distribution(site, "other", "0.3", "[lossdsl.losses]\nmy_own = other_losses\n")
    with pytest.raises(PluginConflictError, match=r"from other 0\.3 and from acme-losses 2\.0"):
        discover({"LOSSDSL_DISABLE": ""})
    assert "my-own/a" in discover({"LOSSDSL_DISABLE": "other"}).losses


@pytest.mark.parametrize("name", ["std", "STD"])
def test_a_pack_cannot_take_the_place_of_std(site: Path, name: str):
    pack(site, "acme_losses", focal="loss focal")
    distribution(site, "acme-losses", "2.0", f"[lossdsl.losses]\n{name} = acme_losses\n")
    if name == "STD":  # no pack's name to begin with
        registry = discover({})
        assert registry.losses["std/focal"].distribution.startswith("lossdsl ")
        assert [failure for failure in registry.failures if "is not a pack's name" in failure.reason]
        return
    with pytest.raises(PluginConflictError, match=r"pack 'std' comes from acme-losses 2\.0 and from lossdsl "):
        discover({})


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
