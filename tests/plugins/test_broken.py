"""What somebody sees who has a broken plugin installed: the rest works, and what is missing says why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fakes import backend, distribution, pack

import lossdsl
from lossdsl import api
from lossdsl.backends.manager import BackendError
from lossdsl.cli import group
from lossdsl.packs.lookup import UnknownLossError
from lossdsl.source.diagnostic import DiagnosticError

GOOD = "loss good\ninput x[N]\nreturn x^2\n"
BAD = "loss bad\ninput x[N]\nreturn y\n"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """The registry looks at the path again."""
    api._registry.cache_clear()
    yield
    api._registry.cache_clear()


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(group, list(arguments), prog_name="lossdsl")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def losses(site: Path, name: str = "acme", point: str = "acme_losses", **files: str) -> None:
    """A pack `name` of the distribution acme-losses 2.0."""
    pack(site, "acme_losses", **files)
    distribution(site, "acme-losses", "2.0", f"[lossdsl.losses]\n{name} = {point}\n")


# --- a plugin that fails to import ------------------------------------------------------------------------------------


def test_list_goes_on_with_one_line_for_a_broken_plugin(site: Path):
    distribution(site, "bad", "0.1", "[lossdsl.plugins]\nfast = bad_one\n", bad_one="import no_such_module")
    result = run("list")
    assert result.exit_code == 0
    assert "cross_entropy" in result.stdout
    said = "fast (bad 0.1) is not in use: ModuleNotFoundError: No module named 'no_such_module'"
    assert result.stderr == f"warning[E0701]: {said}\n"
    assert run("--strict", "list").exit_code == 2
    assert said in run("--strict", "list").stderr


def test_the_variable_makes_it_fatal_everywhere(site: Path, monkeypatch: pytest.MonkeyPatch):
    distribution(site, "bad", "0.1", "[lossdsl.plugins]\nfast = bad_one\n", bad_one="raise SystemExit(0)")
    monkeypatch.setenv("LOSSDSL_STRICT_PLUGINS", "1")
    assert run("list").exit_code == 2
    with pytest.raises(lossdsl.plugins.PluginFailedError, match=r"fast \(bad 0\.1\) is not in use: SystemExit: 0"):
        lossdsl.losses()


def test_a_backend_that_is_missing_says_which_plugin_failed(site: Path):
    distribution(site, "bad", "0.1", "[lossdsl.plugins]\nfast = bad_one\n", bad_one="import no_such_module")
    with pytest.raises(BackendError, match=r"there is no backend 'fast'.*fast \(bad 0\.1\) is not in use"):
        lossdsl.loss("cross_entropy", backend="fast")


# --- packs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        ("nowhere_at_all", "there is no package 'nowhere_at_all'"),
        ("acme_losses.inner", "'acme_losses.inner' is not a top-level package"),
    ],
)
def test_a_loss_of_a_pack_that_cannot_be_used_says_why(site: Path, point: str, reason: str):
    losses(site, point=point, good=GOOD)
    with pytest.raises(UnknownLossError) as raised:
        lossdsl.loss("acme/good")
    assert str(raised.value).startswith("there is no loss 'acme/good', since acme (acme-losses 2.0) is not in use: ")
    assert reason in str(raised.value)
    assert reason in run("show", "good").stderr
    assert lossdsl.losses()  # and the others are there


def test_a_file_that_does_not_compile_disables_itself_alone(site: Path):
    losses(site, good=GOOD, bad=BAD, nonsense="loss ((", empty="", binary="")
    (site / "acme_losses" / "binary.loss").write_bytes(b"loss \xff\xfe")
    assert lossdsl.load("acme/good").name == "good"
    for name, reason in (("bad", "E0201"), ("nonsense", "E01"), ("empty", "E01")):
        with pytest.raises(DiagnosticError, match=rf"{name}\.loss:\d+:\d+ \(acme-losses 2\.0\): error\[{reason}"):
            lossdsl.load(f"acme/{name}")
    with pytest.raises(ValueError, match=r"binary\.loss is not UTF-8"):
        lossdsl.load("acme/binary")
    listed = run("list", "--pack", "acme")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["bad", "binary", "empty", "good", "nonsense"]
    assert run("check", "acme/good").exit_code == 0
    checked = run("check", "acme/bad")
    assert checked.exit_code == 1
    assert "bad.loss:3:8 (acme-losses 2.0)" in checked.stderr


def test_doctor_checks_the_losses_of_packs_when_asked(site: Path):
    losses(site, good=GOOD, bad=BAD, binary="")
    (site / "acme_losses" / "binary.loss").write_bytes(b"loss \xff\xfe")
    disabled = {"LOSSDSL_DISABLE": "cpu,info,llm,metric,ranking,segmentation"}
    result = CliRunner().invoke(group, ["doctor", "--losses", "--json"], env=disabled)
    assert result.exit_code == 1
    assert {(w["loss"], w["code"]) for w in json.loads(result.stdout)["wrong"]} == {
        ("acme/bad", "E0201"),
        ("acme/binary", "E0703"),
    }


def test_a_broken_loss_as_a_function(site: Path):
    losses(site, bad_one="loss ((", unreadable="")
    (site / "acme_losses" / "unreadable.loss").write_bytes(b"loss \xff\xfe")
    for name, said in (("bad_one", r"is wrong itself: .*\(acme-losses 2\.0\)"), ("unreadable", "can't be read")):
        with pytest.raises(DiagnosticError, match=rf"E0202.*`{name}`.*{said}"):
            lossdsl.loads(f"loss mine\ninput x[N]\nreturn {name}(x)\n")


def test_a_loss_as_a_function_whose_pack_is_absent(site: Path):
    text = "loss mine\ninput x[N]\nreturn zzz_hinge(x)\n"
    with pytest.raises(DiagnosticError) as raised:
        lossdsl.loads(text)
    [finding] = raised.value.diagnostics
    assert finding.code == "E0202"
    assert "install the pack that brings it" in finding.fix
    losses(site, point="nowhere_at_all", zzz_hinge=GOOD)
    api._registry.cache_clear()
    with pytest.raises(DiagnosticError, match=r"no function `zzz_hinge`, but acme \(acme-losses 2\.0\) is not in use"):
        lossdsl.loads(text)


def test_a_bare_name_in_two_packs_says_how_to_choose(site: Path):
    losses(site, hinge_of_two=GOOD)
    pack(site, "other_losses", hinge_of_two=GOOD)
    distribution(site, "other", "0.3", "[lossdsl.losses]\nother = other_losses\n")
    with pytest.raises(UnknownLossError) as raised:
        lossdsl.loss("Hinge-Of-Two")
    assert "say acme/hinge_of_two (acme-losses 2.0) or other/hinge_of_two (other 0.3)" in str(raised.value)
    assert lossdsl.load("other/hinge_of_two").name == "good"


# --- conflicts and doctor ---------------------------------------------------------------------------------------------


def test_a_conflict_is_shown_with_its_place_and_doctor_shows_the_rest(site: Path):
    losses(site, "std", focal=GOOD)
    listed = run("list")
    assert listed.exit_code == 2
    assert "error[E0702]: pack 'std' comes from acme-losses 2.0 and from lossdsl" in listed.stderr
    assert "entry_points.txt:2:1" in listed.stderr
    assert "fix: Uninstall one, or turn one off: LOSSDSL_DISABLE=acme-losses" in listed.stderr
    report = json.loads(run("doctor", "--json").stdout)
    [conflict] = report["conflicts"]
    assert conflict["distributions"][1] == "acme-losses 2.0"
    assert "torch" in [backend["name"] for backend in report["backends"]]
    assert run("doctor").exit_code == 1


def test_doctor_lists_what_each_plugin_brings(site: Path):
    losses(site, good=GOOD, bad=BAD)
    text = backend("p", "fast") + (
        "\nfrom lossdsl.primitives.record import Primitive\nfrom lossdsl.primitives.scan import load_primitives\n"
        "from dataclasses import replace\n@hookimpl\ndef lossdsl_primitives():\n"
        "    return [replace(load_primitives()['exp'], name='exp_of_acme')]\n"
    )
    distribution(site, "bolt", "3.4", "[lossdsl.plugins]\nbolt = bolt_plugin\n", bolt_plugin=text)
    report = json.loads(run("doctor", "--json").stdout)
    plugins = {plugin["distribution"]: plugin for plugin in report["plugins"]}
    assert plugins["acme-losses"]["version"] == "2.0"
    assert plugins["acme-losses"]["packs"] == {"acme": 2}
    assert plugins["bolt"]["backends"] == ["fast"]
    assert plugins["bolt"]["primitives"] == ["exp_of_acme"]
    [fast] = [backend for backend in report["backends"] if backend["name"] == "fast"]
    assert "can't be loaded" in fast["reason"]  # its probe is nowhere
    words = run("doctor").stdout
    assert "2 losses of the pack acme" in words
    assert "backend fast; primitive exp_of_acme" in words
