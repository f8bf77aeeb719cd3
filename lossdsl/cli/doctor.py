"""lossdsl doctor: what is installed, what works here, and why the rest doesn't."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

from lossdsl import __version__
from lossdsl.cli import FILE_IS_WRONG

LIBRARIES = ("torch", "triton", "numpy", "lark", "sympy", "pluggy", "click")


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="The same as a record for programs.")
def command(as_json: bool) -> None:
    """Show versions, backends, packs and plugins, and what is wrong with those that can't be used.

    Exits with 1 if a plugin has failed or no backend can be used.
    """
    report = examine()
    click.echo(json.dumps(report, indent=2, ensure_ascii=False) if as_json else in_words(report))
    if report["conflict"] or not any(backend["ok"] for backend in report["backends"]) or broken(report):
        sys.exit(FILE_IS_WRONG)


def broken(report: dict[str, Any]) -> bool:
    from lossdsl.plugins import DISABLED

    return any(failure["reason"] != DISABLED for failure in report["failures"])


def examine() -> dict[str, Any]:
    """Everything that the command shows, as plain data."""
    from lossdsl.backends.manager import availability
    from lossdsl.plugins import PluginConflictError, PluginFailedError, discover

    report: dict[str, Any] = {
        "lossdsl": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "compiler": _compiler(),
        "backends": [],
        "packs": [],
        "failures": [],
        "conflict": "",
    }
    try:
        registry = discover({key: value for key, value in os.environ.items() if key != "LOSSDSL_STRICT_PLUGINS"})
    except (PluginConflictError, PluginFailedError) as error:
        report["conflict"] = str(error)
        return report
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
    packs: dict[tuple[str, str], int] = {}
    for loss in registry.losses.values():
        packs[loss.pack, loss.distribution] = packs.get((loss.pack, loss.distribution), 0) + 1
    report["packs"] = [{"name": name, "distribution": owner, "losses": n} for (name, owner), n in packs.items()]
    report["failures"] = [
        {"name": f.name, "distribution": f.distribution, "reason": f.reason} for f in registry.failures
    ]
    return report


def in_words(report: dict[str, Any]) -> str:
    """The report as a person reads it."""
    lines = [f"lossdsl {report['lossdsl']}, Python {report['python']}, {report['platform']}"]
    lines.append(", ".join(f"{name} {number or 'missing'}" for name, number in report["libraries"].items()))
    lines.append(f"C++ compiler: {report['compiler'] or 'none found (c++, g++, clang++, or what CXX names)'}")
    names = [entry["name"] for key in ("backends", "packs", "failures") for entry in report[key]]
    width = max(map(len, names), default=0) + 2
    lines += ["", "Backends"]
    for backend in report["backends"]:
        state = f"ok, {backend['device']}" if backend["device"] else "ok"
        lines.append(f"  {backend['name']:<{width}}{state if backend['ok'] else 'no: ' + backend['reason']}")
        lines.append(f"  {'':<{width}}{backend['doc']} ({backend['distribution']})")
    lines += ["", "Packs"]
    for pack in report["packs"]:
        count = f"{pack['losses']} loss{'es' * (pack['losses'] != 1)}"
        lines.append(f"  {pack['name']:<{width}}{count} ({pack['distribution']})")
    if report["failures"]:
        lines += ["", "Plugins that are not in use"]
        lines += [f"  {f['name']:<{width}}{f['reason']} ({f['distribution']})" for f in report["failures"]]
    if report["conflict"]:
        lines += ["", f"Conflict: {report['conflict']}"]
    return "\n".join(lines)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _compiler() -> str:
    """The first line that the system's C++ compiler says of itself, or nothing."""
    named = os.environ.get("CXX")
    for candidate in [named] if named else ["c++", "g++", "clang++"]:
        path = shutil.which(candidate)
        if path is None:
            continue
        try:
            done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            return f"{path} doesn't answer: {error}"
        return f"{done.stdout.splitlines()[0]} ({path})"
    return ""
