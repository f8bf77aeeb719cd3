"""What `import lossdsl` offers: losses as modules, specs, artifacts.

loss_fn = lossdsl.loss("focal", gamma=2.0)      # an nn.Module, of the library or from a path
spec = lossdsl.load("my.loss")                  # .inputs .params .claims .latex() .explain()
module = lossdsl.compile(spec, backend="torch") # .text .manifest .write(path) .load()
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossdsl.artifacts import cache as disk
from lossdsl.artifacts.artifact import Artifact
from lossdsl.check.typed import CheckedLoss, Input, Param
from lossdsl.packs.lookup import find_loss
from lossdsl.registry import BackendSpec, Registry
from lossdsl.source.diagnostic import Diagnostic, DiagnosticError
from lossdsl.source.text import Source
from lossdsl.syntax.ast import Claim

if TYPE_CHECKING:
    import torch

    from lossdsl.runtime.kernels import Compiled
    from lossdsl.runtime.module import Loss
    from lossdsl.runtime.signature import Signature

LARGEST = 64 * 1024  # characters of a .loss file
ENVIRONMENT = ("LOSSDSL_DISABLE", "LOSSDSL_STRICT_PLUGINS")


@dataclass(frozen=True, slots=True)
class Spec:
    """A loss that is right, not yet compiled."""

    checked: CheckedLoss

    @property
    def name(self) -> str:
        return self.checked.name

    @property
    def doc(self) -> str:
        return self.checked.doc

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.checked.inputs

    @property
    def params(self) -> tuple[Param, ...]:
        return self.checked.params

    @property
    def claims(self) -> tuple[Claim, ...]:
        return self.checked.claims

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return self.checked.warnings

    @property
    def text(self) -> str:
        """The text of the file."""
        return self.checked.source.text

    def latex(self) -> str:
        """The equation in LaTeX."""
        from lossdsl.syntax.latex import latex

        return latex(self.checked.source)

    def explain(self, device: str = "cpu") -> str:
        """Equation, gradient, sweeps over the data, cost and choice of backend in words."""
        from lossdsl.explain import loss_in_words, loss_record

        return loss_in_words(loss_record(self.checked.source, registry(), device))

    def __str__(self) -> str:
        return self.text


# --- finding ----------------------------------------------------------------------------------------------------------


def registry() -> Registry:
    """What is installed; looked for once a process, and again when the variables that turn plugins off change."""
    return _registry(tuple((name, os.environ.get(name, "")) for name in ENVIRONMENT))


@cache
def _registry(environment: tuple[tuple[str, str], ...]) -> Registry:
    from lossdsl.plugins import discover

    return discover(dict(environment))


def source_of(target: str | os.PathLike[str]) -> Source:
    """The text that a name or a path means. A path ends in .loss or holds a separator and exists."""
    text = os.fspath(target)
    if isinstance(target, str) and "\n" in text:
        raise ValueError("that is the text of a loss, not its name or path: pass lossdsl.loads(text)")
    if text.endswith(".loss") or (not isinstance(target, str)) or Path(text).is_file():
        return read_source(Path(text))
    known = registry()
    found = find_loss(known.losses, text, known.failures)
    return read_source(Path(found.path), found.owner)


def read_source(path: Path, owner: str = "") -> Source:
    """The text of a file, which a distribution may have shipped; ValueError if it is none of a .loss file."""
    data = path.read_bytes()
    if len(data) > LARGEST:
        raise ValueError(f"{path} has {len(data)} bytes; a .loss file has at most {LARGEST}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}") from None
    return Source(str(path), text.replace("\r\n", "\n").replace("\r", "\n"), owner)


# --- the functions ----------------------------------------------------------------------------------------------------


def loads(text: str, name: str = "<text>", **modes: str) -> Spec:
    """Check the text of a loss. Raises DiagnosticError with all that is wrong with it."""
    from lossdsl.pipeline import front

    return Spec(front(Source(name, text), registry(), modes).checked)


def load(target: str | os.PathLike[str], **modes: str) -> Spec:
    """Check a loss of the library, or a file. Raises UnknownLossError, OSError, DiagnosticError."""
    from lossdsl.pipeline import front

    return Spec(front(source_of(target), registry(), modes).checked)


def check(target: str | os.PathLike[str]) -> tuple[Diagnostic, ...]:
    """All that is to be said of a file: its mistakes, or if there are none its warnings."""
    try:
        return load(target).warnings
    except DiagnosticError as error:
        return error.diagnostics


def losses() -> tuple[str, ...]:
    """The full names of all losses, `pack/name`."""
    return tuple(sorted(registry().losses))


def backends() -> Mapping[str, BackendSpec]:
    """The backends that are installed, by name."""
    return dict(registry().backends)


def compile(
    spec: Spec | CheckedLoss | str | os.PathLike[str],
    backend: str = "auto",
    *,
    device: str | torch.device = "cpu",
    standalone: bool = False,
    precise: bool = False,
    **modes: str,
) -> Artifact:
    """Compile a loss; from the cache if it has been compiled before.

    `precise` computes in float64, whatever dtype comes in, and rounds once: gradients within 8 ulp of float32 but where
    float64 loses digits, too (`benchmarks/accuracy.md`), for copies of the inputs and arithmetic of half the speed.
    Raises DiagnosticError for a wrong file and BackendError for a backend that can't be used.
    """
    _check_flags(standalone=standalone, precise=precise)
    if isinstance(spec, Spec):
        spec = spec.checked
    if isinstance(spec, CheckedLoss):
        return _compiled(spec.source, backend, device, standalone, {**_modes(spec), **modes}, precise)
    return _compiled(source_of(spec), backend, device, standalone, modes, precise)


def loss(
    target: str | os.PathLike[str] | Spec,
    *,
    backend: str = "auto",
    device: str | torch.device = "cpu",
    head: str | Mapping[str, str] | None = None,
    precise: bool = False,
    debug: bool = False,
    **params: Any,
) -> Loss:
    """A loss as a torch module.

    `precise` computes in float64, whatever dtype comes in, and rounds once: gradients within 8 ulp of float32 but where
    float64 loses digits, too (`benchmarks/accuracy.md`), for copies of the inputs and arithmetic of half the speed.
    `debug` looks at every result: where a value or a gradient isn't finite it raises a FloatingPointError that names
    the first intermediate that isn't, by its line, expression and sample.

    `params` are those of the file and `reduction`, `ignore_index`, `denominator`, `empty`, `class_dim`; a mode takes
    the name of a function. `head="linear"` takes hidden[N, D], weight[C, D] and bias[C] (or None) where the loss took
    its logits, which then never are in memory whole; `{"student": "linear", "teacher": "linear"}` names them. `memory`
    is what tiles of such a matrix may take. `inplace=True` writes the gradient over the logits, for logits that nothing
    else needs, on a backend that can. Raises TypeError for a param that the loss doesn't have, and ValueError for
    logits, or a loss that can't be inplace.
    """
    _check_flags(precise=precise, debug=debug)
    for name in _AT_CALLS:
        if name in params:
            raise TypeError(f"{name} is given at each call: loss_fn(…, {name}={params[name]!r})")
    modes = {name: value for name, value in params.items() if isinstance(value, str) and name not in _WORDS}
    numbers = {name: value for name, value in params.items() if name not in modes}
    if isinstance(target, Spec):
        modes = {**_modes(target.checked), **modes}
    modes |= _heads(head)
    source = target.checked.source if isinstance(target, Spec) else source_of(target)
    artifact = _compiled(source, backend, device, False, modes, precise)
    kind = _class(artifact)
    if debug:
        from lossdsl.accuracy.debug import debugging

        kind = debugging(kind, source, registry(), modes, precise)
    names = artifact.manifest["names"]
    assert isinstance(names, dict)
    settable = artifact.manifest["settable"]
    assert isinstance(settable, list)
    given = {names.get(name, name): value for name, value in numbers.items()}
    absent = {*([] if artifact.manifest["tiled"] else ["memory"]), *(["inplace"] if artifact.manifest["fresh"] else [])}
    if "inplace" in absent and given.pop("inplace", False):
        raise ValueError(f"{artifact.manifest['name']} can't be inplace: {artifact.manifest['fresh']}")
    if "memory" in absent and "memory" in given:
        raise TypeError(
            f"{artifact.manifest['name']} takes no memory: that is for tiles, which a loss has that compares all with "
            'all, or is built with head="linear"'
        )
    words = [word for word in _WORDS if word not in absent]
    for name in given:
        if name not in settable and name not in words:
            raise TypeError(_unknown(kind.compiled.signature, name, [*settable, *words]))
    return kind(**given)


def _modes(checked: CheckedLoss) -> dict[str, str]:
    """The functions that a checked loss has chosen."""
    return {p.name: str(p.default) for p in checked.params if p.modes}


def _heads(head: str | Mapping[str, str] | None) -> dict[str, str]:
    """Heads as `pipeline.middle` takes them among the modes."""
    if head is None:
        return {}
    return {"head": head} if isinstance(head, str) else {f"head.{name}": kind for name, kind in head.items()}


def _check_flags(**flags: bool) -> None:
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} is True or False, not {value!r}")


_AT_CALLS = ("check", "aux")
_WORDS = ("reduction", "denominator", "empty", "class_dim", "memory", "inplace")


def _unknown(signature: Signature, name: str, settable: list[str]) -> str:
    from lossdsl.packs.migrating import optional, read_rows
    from lossdsl.source.suggest import closest

    if any(name == spec.name for spec in signature.inputs):
        return f"{name} is an input of {signature.name}: pass it at the call, beside {signature.inputs[0].name}"
    row = optional(read_rows(), signature.name, name)
    if row is not None:
        return f"{signature.name} has no param {name!r}; {row.library}'s {row.theirs} is lossdsl.{row.ours}"
    near = closest(name, settable)
    hint = f"; did you mean {near!r}?" if near else f"; it has {', '.join(settable)}"
    return f"{signature.name} has no param {name!r}{hint}"


# --- built classes ----------------------------------------------------------------------------------------------------

_memory: dict[str, Artifact] = {}  # by key: what this process has compiled or read


def _compiled(
    source: Source,
    backend: str,
    device: str | torch.device,
    standalone: bool,
    modes: Mapping[str, str],
    precise: bool = False,
) -> Artifact:
    from lossdsl.backends.manager import device_type

    device = device_type(device)
    name = _key(source, _asked(backend, device), device, standalone, modes, precise)
    found = _memory.get(name) or disk.read(name)
    if found is None:
        from lossdsl.pipeline import build

        built = build(source, registry(), backend, device=device, modes=modes, standalone=standalone, precise=precise)
        manifest = {
            **built.artifact.manifest,
            "asked": backend,
            "origin": [source.name, source.text, backend, device, dict(modes), precise],
        }
        found = disk.keep(name, Artifact(built.artifact.text, manifest))
    _memory[name] = found
    return found


def _asked(backend: str, device: str) -> str:
    """The backend as a part of the key: what "auto" comes to may be another where no compiler or device is."""
    if backend != "auto":
        return backend
    from lossdsl.backends.manager import choose

    known = registry()
    return f"auto {choose(known.backends, backend, device, known.failures).spec.name}"


def _key(
    source: Source, backend: str, device: str, standalone: bool, modes: Mapping[str, str], precise: bool = False
) -> str:
    options = [str(standalone), str(precise), *(f"{k}={v}" for k, v in sorted(modes.items()))]
    return disk.key([_surroundings(registry()), source.name, source.text, backend, device, *options])


def _surroundings(known: Registry) -> str:
    """Everything besides the file that a module depends on: our code, that of backends, other losses, torch."""
    packages = {"lossdsl", *(spec.emit.partition(".")[0].partition(":")[0] for spec in known.backends.values())}
    parts = [_code(tuple(sorted(packages)))]
    parts += [f"{full} {disk.content(file.path)}" for full, file in sorted(known.losses.items())]
    return disk.key(
        [*parts, *sorted(known.primitives), *(f"{n} {s.distribution} {s.devices}" for n, s in known.backends.items())]
    )


@cache
def _code(packages: tuple[str, ...]) -> str:
    from importlib.metadata import version

    return disk.key([version("torch"), *map(disk.fingerprint, packages)])


def _class(artifact: Artifact) -> type[Loss]:
    module = artifact.load()
    kind: type[Loss] = getattr(module, str(artifact.manifest["class"]))
    if kind.restore is None:
        origin = artifact.manifest["origin"]
        assert isinstance(origin, list)
        kind.restore = (restore, tuple(origin))
        if origin[2] == "auto":
            kind.elsewhere = partial(_elsewhere, *origin[:2], tuple(sorted(origin[4].items())), origin[5])
    return kind


@cache
def _elsewhere(name: str, text: str, modes: tuple[tuple[str, str], ...], precise: bool, device: str) -> Compiled:
    """The kernels of a loss whose backend was chosen, for tensors on another device."""
    return _class(_compiled(Source(name, text), "auto", device, False, dict(modes), precise)).compiled


def restore(
    name: str, text: str, backend: str, device: str, modes: dict[str, str], precise: bool = False
) -> type[Loss]:
    """The class of a pickled loss, compiled again from its text."""
    return _class(_compiled(Source(name, text), backend, device, False, modes, precise))
