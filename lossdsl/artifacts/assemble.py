"""The text of a generated module, from what every stage before has made.

The text depends on nothing but its inputs: no time, no path, no order of a set. It is formatted as ruff formats.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from lossdsl.artifacts.artifact import Artifact
from lossdsl.artifacts.describe import Kernel, Table, describe, tabulate
from lossdsl.artifacts.identifiers import MODULE, class_name, identifier
from lossdsl.artifacts.literals import Apply, Dict, Name, docstring_text, literal, long_text
from lossdsl.artifacts.members import class_text, function_text, options
from lossdsl.artifacts.reached import defined, in_two, uses
from lossdsl.artifacts.standalone import RUNTIME, Embedded, Runtime, merge_imports, packages, rule, without
from lossdsl.artifacts.tiles import RUNTIME as TILES_RUNTIME
from lossdsl.artifacts.tiles import SPECS, Tiles, describe_tiles, functions
from lossdsl.backends.api import Emitted
from lossdsl.check.typed import CheckedLoss
from lossdsl.ir.graph import Graph
from lossdsl.plan.overwrite import overwritable
from lossdsl.registry import BackendSpec
from lossdsl.source.diagnostic import InternalError

RUNTIME_IMPORTS = (
    "from lossdsl.runtime.calling import functional",
    "from lossdsl.runtime.kernels import Compiled",
    "from lossdsl.runtime.module import Loss",
)

PARTS = (("inplace", "overwrite"), ("precise", "in_double"), ("ready", "Ready"))  # which not every loss has


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a module comes from: what its header says.

    `versions` are names and versions of what made it, in order; `command` is what a person would type to make it again;
    `headed`: the loss takes hidden states, whose features stand last; `precise`: it computes in float64.
    """

    backend: BackendSpec
    command: str
    versions: tuple[tuple[str, str], ...]
    equation: str
    gradient: str = ""
    headed: bool = False
    precise: bool = False


def assemble(
    checked: CheckedLoss,
    graph: Graph,
    kernels: Sequence[Kernel],
    emitted: Emitted,
    origin: Origin,
    missing: str = "",
    standalone: bool = False,
    tiles: Sequence[Tiles] = (),
) -> Artifact:
    """The module of a loss: kernels, `SIGNATURE`, a class and a function; with tiles, `TILING` (and `ACROSS`)."""
    table = tabulate(checked, graph)
    signature = describe(checked, table, graph, kernels, origin.backend, missing, origin.precise)
    ways = [describe_tiles(way, table.names) for way in tiles]
    own = (*RUNTIME, *TILES_RUNTIME) if tiles else RUNTIME
    runtime = Runtime((*own, *emitted.runtime), len(own)) if standalone else None
    taken = {*MODULE, *(runtime.names() if runtime else ()), *_defined(emitted.functions)}
    if runtime and (twice := runtime.names() & set(_defined(emitted.functions))):
        raise InternalError(
            f"the backend {origin.backend.name} prints {', '.join(sorted(twice))}, names of its runtime"
        )
    function = identifier(checked.name, taken)
    kind = class_name(checked.name, taken | {function})
    body = emitted.functions.strip("\n") + "\n"
    fixed = why_not_inplace(kernels, origin.backend, bool(tiles), origin.precise)
    settings = options(checked, bool(tiles), origin.headed, not fixed)
    identity = _digest(body, literal(signature), origin.equation, *(f"{n} {v}" for n, v in origin.versions))
    for way in ways:
        identity = _digest(identity, literal(way))
    compiled = _compiled(kernels, [*zip(ways, tiles, strict=True)], origin, not fixed)
    tables = {"EQUATION": long_text(origin.equation, 11), "SIGNATURE": literal(signature, 0, 12)}
    for name, way in reversed([*zip(("TILING", "ACROSS"), ways, strict=False)]):
        tables[name] = literal(way, 0, len(name) + 3)
    said = "".join(f"{name} = {text}\n" for name, text in tables.items())
    members = class_text(checked, table, kind, settings)
    members += f"\n\n{function_text(checked, table, function, kind, settings)}"
    embedded = None
    if runtime:
        embedded = runtime.embed(uses("\n".join([body, said, literal(compiled), members])))
        identity = _digest(identity, embedded.text)
    compiled = replace(compiled, args=(*compiled.args, identity[:12]))
    said += f"COMPILED = {literal(compiled, 0, 11)}\n"
    imports = _imports(checked, table, emitted, embedded, compiled, bool(tiles))
    first, then = in_two(body, runtime.names()) if runtime else ("", body)
    order = (_order(packages(imports), bool(first)),) if embedded else ()
    parts = [
        f"{_header(checked, origin, order)}\n{_docstring(checked, table, origin)}\n",
        f"from __future__ import annotations\n\n{merge_imports(imports)}\n",
    ]
    if embedded:
        if first:
            parts.append(f"{rule(f'{checked.name}: kernels')}\n\n\n{first}\n")
        parts += [f"{embedded.text}\n", f"{rule(checked.name)}\n"]
    if then:
        blocks = then.startswith(("def ", "class ", "@"))
        parts.append(f"\n{then}" if blocks else then)
    parts.append(f"\n{said}" if then else said)
    parts.append(f"\n{members}")
    manifest = _manifest(checked, table, origin, kernels, identity[:12], function, kind, standalone)
    return Artifact("\n".join(parts), {**manifest, "tiled": bool(tiles), "fresh": fixed})


def _compiled(
    kernels: Sequence[Kernel], ways: Sequence[tuple[Apply, Tiles]], origin: Origin, overwrites: bool
) -> Apply:
    """What COMPILED is, but for its identity."""
    named: Apply | Dict = Dict(tuple((k.name, Name(k.name)) for k in kernels))
    if origin.precise:
        named = Apply("in_double", (Name("SIGNATURE"), named))
    driver: Apply | None = None
    for name, (_, of) in reversed([*zip(("TILING", "ACROSS"), ways, strict=False)]):
        other = () if driver is None else (("across", driver),)
        driver = Apply("Tiling", (Name("SIGNATURE"), Name(name), functions(of)), other)
    keywords = () if driver is None else (("tiling", driver),)
    if overwrites:
        keywords = (*keywords, ("inplace", Name("overwrite")))
    if origin.backend.into:
        keywords = (*keywords, ("ready", Name("Ready")))
    return Apply("Compiled", (Name("SIGNATURE"), named), keywords)


def _order(needed: Sequence[str], kernels_first: bool) -> str:
    order = "its kernels, what of lossdsl's run time they and it need, then its table, class and function"
    if not kernels_first:
        order = "what of lossdsl's run time it needs, then its kernels, table, class and function"
    return f"standalone: needs {' and '.join(needed)}, and nothing of lossdsl. Here are {order}"


def why_not_inplace(kernels: Sequence[Kernel], backend: BackendSpec, tiled: bool, precise: bool = False) -> str:
    """Why no gradient can be written over the input that it is of; empty if one can."""
    if not backend.into:
        return f"the backend {backend.name} makes every gradient in memory of its own"
    if precise:
        return "precise gradients are made in float64"
    if tiled:
        return "its matrix is never in memory"
    both = [k.program for k in kernels if k.name.startswith("both")]
    if not both:
        return "its gradient is not made together with its value"
    if not any(overwritable(p) for p in both):
        return "its inputs are read again when a gradient has been written"
    return ""


def source_name(checked: CheckedLoss) -> str:
    """The name of the source that a module shows: a file's last part, so that it is the same on every machine."""
    name = PurePath(checked.source.name).name or checked.name
    return "".join(c if c.isprintable() else "?" for c in name)


def sha256(text: str) -> str:
    """The hash of a source's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def _defined(functions: str) -> set[str]:
    return {name for node in ast.parse(functions).body for name in defined(node)}


def _imports(
    checked: CheckedLoss,
    table: Table,
    emitted: Emitted,
    embedded: Embedded | None,
    compiled: Apply,
    tiled: bool,
) -> list[str]:
    lines = ["from torch import Tensor", *emitted.imports]
    if checked.outputs:
        lines.append("from typing import Any")
    if embedded is not None:
        return [*without(lines, emitted.runtime), *embedded.imports]
    if "torch." not in emitted.functions:
        lines = [line for line in lines if line != "import torch"]
    names = ["InputSpec", "KernelSpec", *(["ParamSpec"] if table.settable else []), "Signature"]
    if tiled:
        lines.append("from lossdsl.runtime.tiling import Tiling")
        lines.append(f"from lossdsl.runtime.tilespec import {', '.join(SPECS)}")
    said = uses(literal(compiled))
    lines += [f"from lossdsl.runtime.{module} import {name}" for module, name in PARTS if name in said]
    return [*lines, *RUNTIME_IMPORTS, f"from lossdsl.runtime.signature import {', '.join(names)}"]


# --- head -------------------------------------------------------------------------------------------------------------


def _header(checked: CheckedLoss, origin: Origin, more: Sequence[str]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in origin.versions)
    lines = [
        f"Generated from {source_name(checked)}: change that file and not this one.",
        origin.command,
        f"sha256 {sha256(checked.source.text)}",
        versions,
    ]
    lines += [f"uses {name}: sha256 {digest}" for name, digest in checked.dependencies]
    lines += more
    return "\n".join(f"# {''.join(c if c.isprintable() else '?' for c in line)}" for line in lines)


def _docstring(checked: CheckedLoss, table: Table, origin: Origin) -> str:
    blocks = [checked.doc.strip() or f"The loss {checked.name}."]
    blocks.append(_indented(origin.equation))
    if origin.gradient:
        blocks.append("The gradient of an entry:")
        blocks.append(_indented(origin.gradient))
    blocks += [f"{cite.strip()}" for cite in checked.cites]
    text = docstring_text("\n\n".join(blocks))
    return f'"""{text}\n"""'


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _manifest(
    checked: CheckedLoss,
    table: Table,
    origin: Origin,
    kernels: Sequence[Kernel],
    identity: str,
    function: str,
    kind: str,
    standalone: bool,
) -> Mapping[str, object]:
    return {
        "name": checked.name,
        "kind": checked.kind,
        "source": source_name(checked),
        "sha256": sha256(checked.source.text),
        "dependencies": dict(checked.dependencies),
        "backend": origin.backend.name,
        "versions": dict(origin.versions),
        "command": origin.command,
        "standalone": standalone,
        "identity": identity,
        "function": function,
        "class": kind,
        "names": dict(table.names),
        "settable": list(table.settable),
        "kernels": [k.name for k in kernels],
    }
