"""lossdsl analyze: what a loss is like, found without being asked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lossdsl.cli import FILE_IS_WRONG
from lossdsl.cli._files import discovered, fail, read_target, show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lossdsl.check.typed import Param


@click.command("analyze")
@click.argument("what", metavar="LOSS")
@click.option("--set", "given", multiple=True, metavar="PARAM=VALUE", help="Analyse at this value, not the default.")
@click.option("--json", "as_json", is_flag=True, help="A record for programs.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw loss and weight in p to this file.")
@click.option("--quick", is_flag=True, help="Without the proofs that need sympy.")
def command(what: str, given: tuple[str, ...], as_json: bool, plot: Path | None, quick: bool) -> None:
    """Analyse LOSS (a path, a name, or `-`): shift invariance, symmetry, convexity, properness, calibration, bounds;
    its series in 1 - p, the weight of its gradient, its growth in the margin, its radius of convergence."""
    from lossdsl.derive.analysis.record import analyze, in_words
    from lossdsl.derive.prove import TIMEOUT
    from lossdsl.pipeline import front
    from lossdsl.source.diagnostic import DiagnosticError

    registry = discovered()
    source = read_target(what, registry)
    try:
        made = front(source, registry)
        settings = _settings(given, {p.name: p for p in made.checked.params if not p.modes})
        record = analyze(made.lossdef, made.checked, registry, settings, 0 if quick else TIMEOUT)
    except DiagnosticError as error:
        show(error.source, error.diagnostics)
        sys.exit(FILE_IS_WRONG)
    if plot is not None:
        _draw(record, plot)
    click.echo(json.dumps(record, indent=2, ensure_ascii=False) if as_json else in_words(record))


def _settings(given: tuple[str, ...], known: Mapping[str, Param]) -> dict[str, float]:
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            fail(f"--set {text}: write PARAM=VALUE")
        if name.strip() not in known:
            fail(f"there is no param `{name.strip()}`; there are {', '.join(sorted(known)) or 'none'}")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            fail(f"`{value}` is no number for `{name.strip()}`")
        bounds = known[name.strip()].bounds
        if bounds is not None and found[name.strip()] not in bounds:
            fail(f"{name.strip()} = {value} is not in {bounds}")
    return found


def _draw(record: Mapping[str, Any], path: Path) -> None:
    """The loss, and the weight of its gradient, against the probability of the target."""
    try:
        import matplotlib
    except ImportError:
        fail("a plot needs matplotlib: pip install matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    curve = record["probability"]
    if curve is None or not curve["values"]:
        fail(f"{record['name']} is no function of one probability: there is nothing to draw")
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    axes[0].plot([v["p"] for v in curve["values"]], [v["loss"] for v in curve["values"]])
    axes[0].set(xlabel="probability of the target", ylabel="loss", title=record["name"])
    weights = record["gradient"]["weights"] if record["gradient"] else []
    axes[1].plot([w["p"] for w in weights], [w["weight"] for w in weights])
    axes[1].set(xlabel="probability of the target", ylabel="weight of (softmax - e)")
    figure.savefig(path, dpi=120)
    plt.close(figure)
