"""All the way: a loss compiled for one backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.metadata import PackageNotFoundError, version

from lossdsl import __version__
from lossdsl.artifacts.artifact import Artifact
from lossdsl.artifacts.assemble import Origin, assemble, source_name
from lossdsl.artifacts.describe import Kernel
from lossdsl.artifacts.equation import equation, gradient
from lossdsl.artifacts.tiles import Tiles
from lossdsl.backends.api import Emitted
from lossdsl.backends.manager import Choice
from lossdsl.check.heads import Head
from lossdsl.check.typed import CheckedLoss
from lossdsl.pipeline.printing import printed_by
from lossdsl.pipeline.stages import Middle, bounded, middle
from lossdsl.registry import Registry
from lossdsl.source.text import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Built(Middle):
    """A loss compiled for one backend; `choice` says for which and why, `kernels` are the functions of the module."""

    choice: Choice
    kernels: tuple[Kernel, ...]
    emitted: Emitted
    artifact: Artifact


def build(
    source: Source,
    registry: Registry,
    backend: str = "auto",
    *,
    device: str = "cpu",
    modes: Mapping[str, str] | None = None,
    standalone: bool = False,
    precise: bool = False,
    command: str = "",
) -> Built:
    """Compile a loss for a backend; with "auto" for the best that can print it.

    With `precise`, it computes in float64 whatever dtype comes in, and z - max z of a softmax is carried in two such
    numbers: gradients within 8 ulp of float32.
    Raises DiagnosticError for a wrong file, BackendError for a backend that can't be used.
    """
    made = middle(source, registry, modes, precise)
    with bounded(made):
        choice, printed = printed_by(made, registry, backend, device, precise)
        kernels, emitted = printed.kernels, printed.emitted
    tiles = tuple(Tiles(*way, choice.spec.one_visit, printed.products) for way in printed.ways)
    checked = made.checked
    origin = Origin(
        backend=choice.spec,
        command=command or _command(checked, choice, standalone, precise, made.heads),
        versions=(("lossdsl", __version__), ("torch", installed("torch")), *_backend_version(choice)),
        equation=head_equation(made.heads) + equation(made.lossdef, source),
        gradient=gradient(made.joint, registry),
        headed=bool(made.heads),
        precise=precise,
    )
    missing = made.joint.second_missing
    artifact = assemble(checked, made.graph, kernels, emitted, origin, missing, standalone, tiles)
    return Built(
        **{f.name: getattr(made, f.name) for f in fields(made)},
        choice=choice,
        kernels=kernels,
        emitted=emitted,
        artifact=artifact,
    )


def head_equation(heads: tuple[Head, ...]) -> str:
    """What a head says before the file does."""
    lines = [f"{h.logits} = dot[{h.feature}]({h.hidden}, {h.weight}) + {h.bias}\n" for h in heads]
    return "".join(lines)


def installed(distribution: str) -> str:
    """The version of an installed distribution, or "unknown"."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"


def _backend_version(choice: Choice) -> tuple[tuple[str, str], ...]:
    name, _, number = choice.spec.distribution.partition(" ")
    return () if name == "lossdsl" or not number else ((name, number),)


def _command(checked: CheckedLoss, choice: Choice, standalone: bool, precise: bool, heads: tuple[Head, ...]) -> str:
    words = ["lossdsl", "compile", source_name(checked), "-o", f"{checked.name}.py", "--backend", choice.spec.name]
    for h in heads:
        words += ["--head", f"{h.logits}=linear"]
    return " ".join([*words, *(["--standalone"] if standalone else []), *(["--precise"] if precise else [])])
