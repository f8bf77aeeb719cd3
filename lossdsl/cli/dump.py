"""lossdsl dump: any stage as stable text."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from lossdsl.cli import FILE_IS_WRONG
from lossdsl.cli._files import chosen_heads, chosen_modes, discovered, fail, read_target, show

if TYPE_CHECKING:
    from lossdsl.plan.kernel import Plan
    from lossdsl.registry import Registry
    from lossdsl.source.text import Source

STAGES = ("ast", "typed", "graph", "joint", "plan", "kernel", "code")


@click.command("dump")
@click.argument("file", metavar="FILE")
@click.option("--stage", type=click.Choice(STAGES), required=True, help="Which of the row, in order.")
@click.option("--backend", show_default="torch", help="Whose code `--stage code` shows.")
@click.option("--mode", "modes", multiple=True, metavar="PARAM=NAME", help="Choose a mode param's function.")
@click.option(
    "--head", "heads", multiple=True, metavar="linear|LOGITS=linear", help="Take hidden states, weight and bias."
)
def command(file: str, stage: str, backend: str | None, modes: tuple[str, ...], heads: tuple[str, ...]) -> None:
    """Print one stage of FILE (a path, a loss's name, or `-`): the same text every time."""
    from lossdsl.check.heads import HeadError
    from lossdsl.source.diagnostic import DiagnosticError

    if backend is not None and stage != "code":
        fail("--backend is for --stage code: every other stage is the same for all")
    registry = discovered()
    source = read_target(file, registry)
    try:
        options = chosen_modes(modes) | chosen_heads(heads)
        text = ast_text(source) if stage == "ast" else stage_text(source, registry, stage, backend or "torch", options)
    except DiagnosticError as error:
        show(error.source, error.diagnostics)
        sys.exit(FILE_IS_WRONG)
    except HeadError as error:
        fail(str(error))
    click.echo(text, nl=not text.endswith("\n"))


def stage_text(source: Source, registry: Registry, stage: str, backend: str, modes: dict[str, str]) -> str:
    """The text of one stage of a file; DiagnosticError if the file is wrong."""
    from lossdsl.backends.manager import BackendError
    from lossdsl.ir.dump import dump
    from lossdsl.pipeline import build, front, middle
    from lossdsl.plan.text import print_kernel

    if stage == "typed":
        from lossdsl.cli._trees import print_typed

        return print_typed(front(source, registry, modes).checked)
    if stage == "code":
        try:
            return str(build(source, registry, backend, modes=modes).emitted.functions)
        except BackendError as error:
            fail(str(error))
    made = middle(source, registry, modes)
    if stage in ("graph", "joint"):
        return dump(made.graph if stage == "graph" else made.joint)
    if stage == "plan":
        from lossdsl.plan.tiles.text import tiling_text
        from lossdsl.plan.tiles.tiling import Tiling

        tiles = tiling_text(made.tiling) if isinstance(made.tiling, Tiling) else ""
        return plan_text(made.plan) + tiles
    return "\n".join(print_kernel(program) for program in made.plan.programs)


def ast_text(source: Source) -> str:
    """The syntax tree; for it neither plugins nor other losses are needed."""
    from lossdsl.cli._trees import print_ast
    from lossdsl.syntax.parse import parse

    return print_ast(parse(source))


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
