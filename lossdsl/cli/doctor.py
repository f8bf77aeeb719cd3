"""lossdsl doctor: what is installed, what works here, and why the rest doesn't."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import click

from lossdsl import __version__
from lossdsl.cli import FILE_IS_WRONG

if TYPE_CHECKING:
    from lossdsl.registry import LossFile, Registry
    from lossdsl.source.diagnostic import Diagnostic
    from lossdsl.source.text import Source

LIBRARIES = ("torch", "triton", "numpy", "lark", "sympy", "pluggy", "click")


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="The same as a record for programs.")
@click.option("--losses", "check_losses", is_flag=True, help="Check each loss of the packs that plugins bring, too.")
def command(as_json: bool, check_losses: bool) -> None:
    """Show versions, plugins and what they bring, backends, and what is wrong with those that can't be used.

    Exits with 1 if a plugin has failed, two bring one name, a loss is wrong, or no backend can be used.
    """
    report = examine(check_losses)
    click.echo(json.dumps(report, indent=2, ensure_ascii=False) if as_json else in_words(report))
    failed = any(not failure["disabled"] for failure in report["failures"])
    usable = any(backend["ok"] for backend in report["backends"])
    if failed or report["conflicts"] or report["wrong"] or not usable:
        sys.exit(FILE_IS_WRONG)


def examine(check_losses: bool = False) -> dict[str, Any]:
    """Everything that the command shows, as plain data."""
    from lossdsl.backends.manager import availability
    from lossdsl.plugins import survey

    registry, conflicts = survey()
    report: dict[str, Any] = {
        "lossdsl": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "compiler": _compiler(),
        "plugins": _plugins(registry),
        "backends": [],
        "failures": [
            {
                **_problem(f.source, f.problem),
                "name": f.name,
                "distribution": f.distribution,
                "reason": f.reason,
                "disabled": f.disabled,
            }
            for f in registry.failures
        ],
        "conflicts": [
            {
                **_problem(c.origin.source, c.problem),
                "kind": c.kind,
                "name": c.name,
                "distributions": [c.holder, c.origin.owner],
            }
            for c in conflicts
        ],
        "wrong": _wrong(registry) if check_losses else [],
    }
    for spec in registry.backends.values():
        answer = availability(spec)
        report["backends"].append(
            {
                "name": spec.name,
                "doc": spec.doc,
                "distribution": spec.distribution,
                "devices": list(spec.devices),
                "priority": spec.priority,
                "ok": answer.ok,
                "reason": answer.reason,
                "device": answer.device,
            }
        )
    return report


def _plugins(registry: Registry) -> list[dict[str, Any]]:
    """What each distribution brings, lossdsl itself first."""
    found: dict[str, dict[str, Any]] = {}

    def of(distribution: str) -> dict[str, Any]:
        name, _, number = distribution.rpartition(" ")
        empty = {"distribution": name, "version": number, "backends": [], "packs": {}, "primitives": []}
        return found.setdefault(distribution, empty)

    for spec in registry.backends.values():
        of(spec.distribution)["backends"].append(spec.name)
    for loss in registry.losses.values():
        packs = of(loss.distribution)["packs"]
        packs[loss.pack] = packs.get(loss.pack, 0) + 1
    for name, owner in registry.primitive_owners.items():
        of(owner)["primitives"].append(name)
    return list(found.values())


def _wrong(registry: Registry) -> list[dict[str, Any]]:
    """The losses of plugins' packs that don't compile; those that come with lossdsl are tested with it."""
    found = []
    for loss in registry.losses.values():
        if not loss.owner:
            continue
        found += [{**_problem(*item), "loss": f"{loss.pack}/{loss.name}"} for item in _checked(loss, registry)]
    return found


def _checked(loss: LossFile, registry: Registry) -> list[tuple[Source, Diagnostic]]:
    from lossdsl.pipeline import front
    from lossdsl.source.diagnostic import Diagnostic, DiagnosticError
    from lossdsl.source.text import Source

    source = Source(loss.path, "", loss.owner)
    try:
        front(Source(loss.path, loss.read(), loss.owner), registry)
    except DiagnosticError as error:
        return [(error.source, diagnostic) for diagnostic in error.diagnostics]
    except (OSError, UnicodeDecodeError) as error:
        return [(source, Diagnostic("E0703", f"{loss.path} can't be read: {error}", ()))]
    return []


def _problem(source: Source, problem: Diagnostic) -> dict[str, Any]:
    line = source.position(problem.labels[0].span.start)[0] if problem.labels else 0
    return {"code": problem.code, "message": problem.message, "fix": problem.fix, "file": source.name, "line": line}


# --- in words ---------------------------------------------------------------------------------------------------------


def in_words(report: Mapping[str, Any]) -> str:
    """The report as a person reads it."""
    lines = [f"lossdsl {report['lossdsl']}, Python {report['python']}, {report['platform']}"]
    lines.append(", ".join(f"{name} {number or 'missing'}" for name, number in report["libraries"].items()))
    lines.append(f"C++ compiler: {report['compiler'] or 'none found (g++, c++, clang++, or what CXX names)'}")
    names = [entry["name"] for entry in report["backends"]] + [p["distribution"] for p in report["plugins"]]
    width = max(map(len, names), default=0) + 2
    lines += ["", "Plugins"]
    for plugin in report["plugins"]:
        lines.append(f"  {plugin['distribution']:<{width}}{plugin['version']}: {_brings(plugin)}")
    lines += ["", "Backends"]
    for backend in report["backends"]:
        state = f"ok, {backend['device']}" if backend["device"] else "ok"
        lines.append(f"  {backend['name']:<{width}}{state if backend['ok'] else 'no: ' + backend['reason']}")
        lines.append(f"  {'':<{width}}{backend['doc']} ({backend['distribution']})")
    for title, key in (
        ("Plugins that are not in use", "failures"),
        ("Names that are brought twice", "conflicts"),
        ("Losses that are wrong", "wrong"),
    ):
        lines += ["", title] if report[key] else []
        for problem in report[key]:
            place = f" ({problem['file']}:{problem['line']})" if problem["line"] else ""
            lines.append(f"  [{problem['code']}] {problem['message']}{place}")
            lines += [f"      fix: {problem['fix']}"] if problem["fix"] else []
    return "\n".join(lines)


def _brings(plugin: Mapping[str, Any]) -> str:
    parts = [f"{n} loss{'es' * (n != 1)} of the pack {name}" for name, n in plugin["packs"].items()]
    for what in ("backends", "primitives"):
        if names := plugin[what]:
            parts.append(f"{what[: None if len(names) > 1 else -1]} {', '.join(names)}")
    return "; ".join(parts)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _compiler() -> str:
    """The first line that the system's C++ compiler says of itself, or nothing."""
    named = os.environ.get("CXX")
    for candidate in [named] if named else ["g++", "c++", "clang++"]:
        path = shutil.which(candidate)
        if path is None:
            continue
        try:
            done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            return f"{path} doesn't answer: {error}"
        return f"{done.stdout.splitlines()[0]} ({path})"
    return ""
