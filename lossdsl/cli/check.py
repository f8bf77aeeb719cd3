"""lossdsl check: is a file right, and does it mean what its examples say?"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from lossdsl.cli import FILE_IS_WRONG
from lossdsl.cli._files import Format, discovered, fail, read_target, show
from lossdsl.source.text import Source

if TYPE_CHECKING:
    from lossdsl.check.typed import CheckedLoss
    from lossdsl.ir.graph import Graph
    from lossdsl.pipeline import Middle
    from lossdsl.registry import Registry
    from lossdsl.source.diagnostic import Diagnostic


@click.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option("--syntax", is_flag=True, help="Look at the spelling alone; other losses and plugins aren't needed.")
@click.option("--json", "as_json", is_flag=True, help="A list of records for programs, one a file.")
@click.option("--format", "form", type=click.Choice(["terminal", "github"]), default="terminal", show_default=True)
@click.option("--strict", is_flag=True, help="Warnings too make a file wrong.")
@click.option("--claims", is_flag=True, help="Say of each claim what became of it, and how.")
@click.option(
    "--accuracy",
    "measuring",
    is_flag=True,
    help="Measure value and gradient of every backend against 110 digits: 10 to 20 s a loss, minutes for a few.",
)
@click.option("--backend", "backends", multiple=True, help="With --accuracy: measure this backend. May be repeated.")
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    type=click.Choice(["float32", "bfloat16", "float16"]),
    help="With --accuracy: of the inputs. May be repeated; float32 and bfloat16 where none is named.",
)
@click.option("--prove", is_flag=True, help="Let sympy prove the derived gradient too: up to 20 s a file.")
def command(
    files: tuple[str, ...],
    syntax: bool,
    as_json: bool,
    form: Format,
    strict: bool,
    claims: bool,
    measuring: bool,
    backends: tuple[str, ...],
    dtypes: tuple[str, ...],
    prove: bool,
) -> None:
    """Check FILES (paths, names of losses, or `-`) and run their examples.

    Exits with 1 if a file is wrong, or with --accuracy if a number is beyond its bar and nothing excuses it. Every
    error of a file is reported in one run.
    """
    if (backends or dtypes) and not measuring:
        raise click.UsageError("--backend and --dtype say what --accuracy measures: add that")
    registry = None if syntax else discovered()
    if backends and registry is not None:
        _usable(registry, backends)
    records = []
    for file in files:
        source = read_target(file, registry)
        record, diagnostics = _syntax(source) if registry is None else _whole(source, registry, prove)
        record["ok"] = not any(d.severity == "error" or (strict and d.severity == "warning") for d in diagnostics)
        records.append(record)
        measured = ""
        if measuring and registry is not None and record["ok"]:
            measured = _accuracy(source, registry, record, backends, dtypes)
        if as_json:
            from lossdsl.source.render import as_dict

            record["diagnostics"] = [as_dict(source, d) for d in diagnostics]
        else:
            show(source, diagnostics, form)
            click.echo(_in_words(source, record, diagnostics))
            for claim in record.get("claims", ()) if claims else ():
                click.echo(f"  {claim['claim']}: {claim['text']}")
            if measured:
                click.echo(measured)
    if as_json:
        click.echo(json.dumps(records, indent=2, ensure_ascii=False))
    if not all(record["ok"] and _kept(record) for record in records):
        sys.exit(FILE_IS_WRONG)


def _syntax(source: Source) -> tuple[dict[str, Any], list[Diagnostic]]:
    from lossdsl.source.diagnostic import DiagnosticError
    from lossdsl.syntax.parse import parse

    try:
        loss = parse(source)
    except DiagnosticError as error:
        return {"file": source.name, "name": None}, list(error.diagnostics)
    return {"file": source.name, "name": loss.name}, []


def _whole(source: Source, registry: Registry, prove: bool) -> tuple[dict[str, Any], list[Diagnostic]]:
    """Everything up to the gradient, then the examples, the claims, and the proof of the gradient."""
    from lossdsl.derive.claims.decide import decide
    from lossdsl.derive.examples import run_examples
    from lossdsl.pipeline import middle
    from lossdsl.source.diagnostic import DiagnosticError, in_order

    record: dict[str, Any] = {"file": source.name, "name": None, "examples": []}
    try:
        made, wrong = _made(source, registry)
        record["name"] = made.checked.name

        def lowered(modes: Mapping[str, str]) -> Graph:
            return middle(made.source, registry, modes).graph if modes else made.graph

        results = run_examples(made.checked, registry, lowered)
        verdicts = decide(made.lossdef, made.checked, registry)
    except DiagnosticError as error:
        return record, list(error.diagnostics)
    if prove:
        record["gradient"] = _proof(made.checked, registry)
    record["examples"] = [{"expected": r.expected, "got": r.got, "ok": r.ok} for r in results]
    record["claims"] = [
        {"claim": v.claim, "status": v.status, "detail": v.detail}
        | {"points": v.points, "digits": v.digits, "seed": v.seed, "text": str(v)}
        for v in verdicts
    ]
    problems = [*(r.problem for r in results if r.problem is not None), *(p for v in verdicts for p in v.problems)]
    return record, [*made.checked.warnings, *(in_order([*wrong, *problems]) if wrong else problems)]


def _made(source: Source, registry: Registry) -> tuple[Middle, Sequence[Diagnostic]]:
    """A file, and what is wrong with some of its claims and examples, which doesn't hide what becomes of the others."""
    from lossdsl.pipeline import middle
    from lossdsl.source.diagnostic import DiagnosticError

    try:
        return middle(source, registry), ()
    except DiagnosticError as error:
        rest = _without(source, error.diagnostics)
        if rest is None:
            raise
        try:
            return middle(rest, registry), error.diagnostics
        except DiagnosticError:
            raise error from None


def _without(source: Source, wrong: Sequence[Diagnostic]) -> Source | None:
    """The text without the claims and examples that are wrong; None where more than those is."""
    from lossdsl.syntax.parse import read

    reading = read(source)
    if reading.problems or reading.loss is None:
        return None
    spans = {*(claim.span for claim in reading.loss.claims), *(example.span for example in reading.loss.examples)}
    here = {d: next((s for s in spans if s.start <= d.labels[0].span.start < s.end), None) for d in wrong}
    text = source.text
    for span in here.values():
        if span is None:
            return None
        start = text.rfind("\n", 0, span.start) + 1  # with the word before it
        blank = "".join(c if c == "\n" else " " for c in text[start : span.end])
        text = text[:start] + blank + text[span.end :]
    return replace(source, text=text)


def _accuracy(
    source: Source, registry: Registry, record: dict[str, Any], backends: Sequence[str], dtypes: Sequence[str]
) -> str:
    """The errors as a table; also put into the record. A file is not wrong because of them: a backend is."""
    from lossdsl.accuracy.table import DTYPES, accuracy, in_words
    from lossdsl.accuracy.table import record as as_record
    from lossdsl.derive.errors import NotDifferentiableError
    from lossdsl.pipeline import front

    try:
        checked, told = front(source, registry).checked, _tell(source.name)
        found = accuracy(checked, registry, backends or None, dtypes or DTYPES, widely=True, told=told)
    except NotDifferentiableError as error:
        return f"{source.name}: no accuracy is measured: {error}"
    record["accuracy"] = as_record(found)
    return in_words(found)


def _usable(registry: Registry, backends: Sequence[str]) -> None:
    from lossdsl.accuracy.table import on_cpu
    from lossdsl.backends.manager import BackendError

    try:
        for name in backends:
            on_cpu(registry, name)
    except BackendError as error:
        fail(str(error))


def _tell(name: str) -> Callable[[int, int], None]:
    """Says on a terminal how far the measuring is, in one line, which goes when all is done."""

    def told(done: int, of: int) -> None:
        if sys.stderr.isatty():
            text = f"{name}: {done} of {of} cases" if done < of else ""
            click.echo(f"\r\033[K{text}", nl=False, err=True)

    return told


def _proof(checked: CheckedLoss, registry: Registry) -> dict[str, Any]:
    """What became of the proof. A wrong gradient is no mistake of the file's."""
    from dataclasses import asdict

    from lossdsl.derive.prove import prove_gradient
    from lossdsl.source.diagnostic import InternalError

    proof = prove_gradient(checked, registry)
    if proof.status == "refuted":
        raise InternalError(f"the gradient of {checked.name} is wrong: {proof.detail}")
    return {**asdict(proof), "text": str(proof)}


def _in_words(source: Source, record: dict[str, Any], diagnostics: list[Diagnostic]) -> str:
    counts = [
        (sum(d.severity == "error" for d in diagnostics), "error"),
        (sum(d.severity == "warning" for d in diagnostics), "warning"),
        (sum(example["ok"] for example in record.get("examples", ())), "example holds"),
        *((_count(record, status), f"claim {status}") for status in ("proved", "held", "undecided")),
    ]
    parts = [_plural(n, noun) for n, noun in counts if n]
    if "gradient" in record:
        parts.append(f"gradient {record['gradient']['text']}")
    verdict = "wrong" if not record["ok"] else "ok" if _kept(record) else "not exact"
    return f"{source.name}: {verdict}" + (f", {', '.join(parts)}" if parts else "")


def _kept(record: dict[str, Any]) -> bool:
    """Whether every number that was measured is within its bar, or excused."""
    return bool(record.get("accuracy", {}).get("ok", True))


def _count(record: dict[str, Any], status: str) -> int:
    return sum(claim["status"] == status for claim in record.get("claims", ()))


def _plural(n: int, noun: str) -> str:
    word, _, rest = noun.partition(" ")
    many = f"{word}s {'hold' if rest == 'holds' else rest}".strip()
    return f"{n} {noun if n == 1 else many}"
