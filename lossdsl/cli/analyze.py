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
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw the loss in p and in the margin to this file."
)
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
    """What there is of: the loss and its gradient's weight against the probability, the loss against the margin."""
    try:
        import matplotlib
    except ImportError:
        fail("a plot needs matplotlib: pip install matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = []
    for part, places, x, y, label in (
        ("probability", "values", "p", "loss", "probability of the target"),
        ("gradient", "weights", "p", "weight", "probability of the target"),
        ("margin", "values", "margin", "loss", "margin: the target's logit, the others 0"),
    ):
        points = (record[part] or {}).get(places, [])
        if points:
            panels.append(([q[x] for q in points], [q[y] for q in points], label, y))
    if not panels:
        fail(f"{record['name']} is no function of one probability or margin: there is nothing to draw")
    figure, axes = plt.subplots(1, len(panels), figsize=(4.5 * len(panels), 3.5), layout="constrained", squeeze=False)
    for place, (across, up, label, what) in zip(axes[0], panels, strict=True):
        place.plot(across, up)
        place.set(xlabel=label, ylabel="weight of (softmax - e)" if what == "weight" else what)
    figure.suptitle(record["name"])
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:  # a folder that isn't there, a format that matplotlib doesn't know
        fail(f"the plot can't be written to {path}: {error}")
    finally:
        plt.close(figure)
