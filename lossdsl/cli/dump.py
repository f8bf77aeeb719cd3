"""lossdsl dump: any stage as stable text."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from lossdsl.cli import FILE_IS_WRONG
from lossdsl.cli._files import chosen_modes, discovered, fail, read_target, show
from lossdsl.cli._stages import STAGES

if TYPE_CHECKING:
    from lossdsl.plan.kernel import Plan
    from lossdsl.registry import Registry
    from lossdsl.source.text import Source


@click.command("dump")
@click.argument("file", metavar="FILE")
@click.option("--stage", type=click.Choice(STAGES), required=True, help="Which of the row, in order.")
@click.option("--backend", default="torch", show_default=True, help="Whose code `--stage code` shows.")
@click.option("--mode", "modes", multiple=True, metavar="PARAM=NAME", help="Choose a mode param's function.")
def command(file: str, stage: str, backend: str, modes: tuple[str, ...]) -> None:
    """Print one stage of FILE (a path, a loss's name, or `-`): the same text every time."""
    from lossdsl.source.diagnostic import DiagnosticError

    registry = discovered()
    source = read_target(file, registry)
    try:
        text = stage_text(source, registry, stage, backend, chosen_modes(modes))
    except DiagnosticError as error:
        show(error.source, error.diagnostics)
        sys.exit(FILE_IS_WRONG)
    click.echo(text, nl=not text.endswith("\n"))


def stage_text(source: Source, registry: Registry, stage: str, backend: str, modes: dict[str, str]) -> str:
    """The text of one stage of a file; DiagnosticError if the file is wrong."""
    from lossdsl.cli import _stages as run

    if stage == "ast":
        from lossdsl.cli._trees import print_ast
        from lossdsl.syntax.parse import parse

        return print_ast(parse(source))
    checked = run.checked_loss(source, registry, modes)
    if stage == "typed":
        from lossdsl.cli._trees import print_typed

        return print_typed(checked)
    if stage in ("graph", "joint"):
        from lossdsl.ir.dump import dump

        return dump(run.graph_of(checked, registry) if stage == "graph" else run.joint_of(checked, registry))
    plan = run.plan_of(checked, registry)
    if stage == "plan":
        return plan_text(plan)
    if stage == "kernel":
        from lossdsl.plan.text import print_kernel

        return "\n".join(print_kernel(program) for program in plan.programs)
    from lossdsl.backends.api import NotSupportedError
    from lossdsl.backends.manager import BackendError, choose, function

    try:
        emitted = function(choose(registry.backends, backend).spec, "emit")(plan, source, registry)
    except (BackendError, NotSupportedError) as error:
        fail(str(error))
    return "\n".join(emitted.imports) + "\n\n\n" + str(emitted.functions)


def plan_text(plan: Plan) -> str:
    """What each program costs, its outline of loops, and why the plan is as it is."""
    from lossdsl.plan.cost import count
    from lossdsl.plan.kernel import Buffer, Loop, Stmt

    lines: list[str] = []

    def buffer(b: Buffer) -> str:
        return f"{b.name}[{', '.join(b.axes)}]" if b.axes else b.name

    def outline(body: tuple[Stmt, ...], depth: int) -> None:
        run = 0
        for s in (*body, None):
            if isinstance(s, Loop) or s is None:
                if run:
                    lines.append(f"{'  ' * depth}{run} statement{'s' * (run > 1)}")
                run = 0
            if isinstance(s, Loop):
                lines.append(f"{'  ' * depth}for {s.axis}" + (f" where {s.guard}" if s.guard else "") + ":")
                outline((*s.head, *s.body), depth + 1)
            elif s is not None:
                run += 1

    for program in plan.programs:
        cost = count(program)
        lines.append(f"program {program.name}")
        for role in ("in", "param", "out", "scratch"):
            named = [buffer(b) for b in program.buffers if b.role == role]
            if named:
                lines.append(f"  {role} {', '.join(named)}")
        lines.append(
            f"  an element: {cost.sweeps} sweeps, {cost.reads:.3g} reads, {cost.writes:.3g} writes, "
            f"{cost.exps:.3g} transcendentals, {cost.bytes:.3g} bytes in float32"
        )
        outline(program.body, 1)
    lines += [f"note: {note}" for note in plan.notes]
    return "\n".join(lines) + "\n"
