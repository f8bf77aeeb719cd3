"""Building losses for a backend, calling the functions it prints, and what the interpreter says they give."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import lossdsl
from lossdsl.api import registry
from lossdsl.artifacts.describe import Kernel
from lossdsl.artifacts.emission import emit_with
from lossdsl.artifacts.standalone import merge_imports
from lossdsl.backends.api import BackendSpec, Emitted, KernelProgram, Plan, free_axes, size_argument
from lossdsl.backends.manager import availability
from lossdsl.derive.points import random_leaves, sizes_for
from lossdsl.ir.graph import Graph
from lossdsl.pipeline import Built, build
from lossdsl.plan.interpret import run
from lossdsl.plan.names import buffer_name
from lossdsl.source.text import Source

Arrays = dict[str, Any]
IGNORED = -100

# Row-wise losses that every backend prints: picks, selects, log-sum-exps, params, several tensors, labels and masks.
LOSSES = (
    "bce",
    "brier",
    "cross_entropy",
    "focal",
    "generalized_cross_entropy",
    "jsd",
    "kd_kl",
    "label_smoothing_ce",
    "poly1_ce",
    "soft_target_ce",
    "weighted_cross_entropy",
    "z_loss_ce",
)


ANYWHERE = ("RecordTests",)  # groups that look at the record alone, for which no device is needed


class Backend:
    """What the groups of tests share: the backend's name, its record, its device.

    `every`: where a backend's compiler takes a second a function, False leaves out most functions beyond value and
    gradient, unless LOSSDSL_FULL_TESTS=1.
    """

    backend: str
    device: str = ""
    every: bool = True

    @property
    def whole(self) -> bool:
        return self.every or os.environ.get("LOSSDSL_FULL_TESTS") == "1"

    @property
    def spec(self) -> BackendSpec:
        found = registry().backends.get(self.backend)
        failed = [str(f) for f in registry().failures]
        assert found is not None, f"no backend {self.backend!r} is installed; not in use: {failed or 'nothing'}"
        return found

    @property
    def place(self) -> str:
        """The device that tensors are put on."""
        return self.device or {"*": "cpu"}.get(self.spec.devices[0], self.spec.devices[0])


class UsableBackend(Backend):
    """Tests that need the backend to work here."""

    @pytest.fixture(autouse=True)
    def _usable(self, request: pytest.FixtureRequest) -> None:
        own = request.function.__qualname__.partition(".")[0]
        reason = self.missing()
        if reason and own not in ANYWHERE:
            assert os.environ.get("LOSSDSL_STRICT_PLUGINS") != "1", reason
            pytest.skip(f"the backend {self.backend} can't be used here: {reason}")

    def missing(self) -> str:
        """Why the backend can't be used here, or nothing."""
        answer = availability(self.spec)
        if not answer.ok:
            return answer.reason
        try:
            torch.empty(0, device=self.place)
        except (AssertionError, RuntimeError) as error:  # torch's ways of saying that it has no such device
            return f"torch has no {self.place} here: {error}"
        return ""

    def built(self, loss: str) -> Loaded:
        return loaded(self.backend, loss, self.place)

    def kernels(self, loss: str) -> list[Kernel]:
        """All functions of a loss; of a sample value and gradient, and all of focal's."""
        found = self.built(loss).kernels
        return list(found.values()) if self.whole or loss == "focal" else [found["value"], found["gradient"]]

    def run(self, kernel: Kernel, module: ModuleType, given: Mapping[str, Any]) -> list[Tensor]:
        """Call a kernel with arrays by buffer name."""
        return call(getattr(module, kernel.name), kernel.program, given, self.place)


class Loaded:
    """A loss built for a backend, and its module."""

    def __init__(self, built: Built) -> None:
        self.built = built
        self.module = built.artifact.load()
        self.kernels = {k.name: k for k in built.kernels}


@cache
def loaded(backend: str, loss: str, device: str) -> Loaded:
    """A loss of the std pack, or of a text. Raises BackendError where the backend refuses it."""
    source = Source("<conformance>", loss) if "\n" in loss else lossdsl.load(f"std/{loss}").checked.source
    return Loaded(build(source, registry(), backend, device=device))


# --- programs without a loss ------------------------------------------------------------------------------------------


@cache
def _folder() -> TemporaryDirectory[str]:
    """Where emitted modules lie until the process ends."""
    return TemporaryDirectory()


def emitted_module(emitted: Emitted) -> ModuleType:
    """The emitted text, imported from a file as a user's module would be."""
    text = "\n".join(["from __future__ import annotations", "", merge_imports(emitted.imports), "", emitted.functions])
    name = "emitted_" + sha256(text.encode()).hexdigest()[:16]
    path = Path(_folder().name) / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def emit_programs(spec: BackendSpec, programs: Sequence[KernelProgram]) -> ModuleType:
    """A module with a function for each program. NotSupportedError passes through."""
    return emitted_module(emit_with(spec, Plan(tuple(programs)), Source("<conformance>", ""), registry()))


# --- tensors ----------------------------------------------------------------------------------------------------------


def drawn(graph: Graph, program: KernelProgram, seed: int = 0, ignored: bool = False, **sizes: int) -> Arrays:
    """Random arrays for a program's buffers, by name, within the kinds and intervals of the loss's inputs.

    With `ignored`, every third index is the one that is ignored. A seed that the program takes as one number is 0.375.
    """
    extents = sizes_for(graph, **sizes)
    rng = np.random.default_rng(seed)
    leaves = random_leaves(graph, extents, rng)
    if ignored and any(leaf.name == "@ignore_index" for leaf in graph.leaves):
        for leaf in graph.leaves:
            if leaf.type.kind.startswith("index ") and leaf.axes == graph.batch:
                leaves[leaf.name].reshape(-1)[2::3] = IGNORED
    given = {buffer_name(name): value for name, value in leaves.items()}
    for b in program.buffers:
        if b.role == "param" and np.ndim(given[b.name]) != len(b.axes):
            given[b.name] = np.array(0.375)
    return given


def tensor(b: Any, value: Any, device: str, dtype: torch.dtype = torch.float64) -> Tensor:
    """A buffer's tensor: reals of the call in `dtype`, params in float64."""
    kind = {"int": torch.int64, "bool": torch.bool}.get(b.dtype, torch.float64 if b.role == "param" else dtype)
    if isinstance(value, Tensor):
        return value.to(device)
    return torch.as_tensor(np.asarray(value)).to(kind).to(device)


def call(
    function: Callable[..., tuple[Tensor, ...]],
    program: KernelProgram,
    given: Mapping[str, Any],
    device: str,
    dtype: torch.dtype = torch.float64,
) -> list[Tensor]:
    """The function's results. Values of `given` that are tensors are passed as they are, arrays in `dtype`; the seeds
    of a half are floats, as the runtime has them."""
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    arguments = []
    for b in program.buffers:
        if b.role in ("in", "param"):
            seed = b.name.startswith("seed_") and not b.name.startswith("seed_grad")
            arguments.append(tensor(b, given[b.name], device, wide if seed else dtype))
    free = {size_argument(a): free_size(program, given, a) for a in free_axes(program)}
    results = list(function(*arguments, **free))
    outs = [b for b in program.buffers if b.role == "out"]
    assert len(results) == len(outs), f"{program.name} returned {len(results)} tensors, not {[b.name for b in outs]}"
    return results


def free_size(program: KernelProgram, given: Mapping[str, Any], axis: str) -> int:
    return int(given.get(f"size {axis}", 4))


def interpreted(program: KernelProgram, given: Mapping[str, Any], number: str = "float64") -> Arrays:
    """What the program means, from the exact values of the tensors."""
    values = {}
    for b in program.buffers:
        if b.role in ("in", "param"):
            x = given[b.name]
            if isinstance(x, Tensor):
                x = (x.double() if x.is_floating_point() else x).cpu().numpy()
            values[b.name] = x
    sizes = {a: free_size(program, given, a) for a in free_axes(program)}
    return run(program, registry(), values, sizes=sizes, number=number)


def rounded(program: KernelProgram, given: Mapping[str, Any], dtype: torch.dtype) -> Arrays:
    """Arrays as tensors of a dtype, so that interpreter and backend start from the same numbers."""
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    result = dict(given)
    for b in program.buffers:
        if b.role == "in" and b.dtype == "real":
            seed = b.name.startswith("seed_") and not b.name.startswith("seed_grad")
            result[b.name] = torch.as_tensor(np.asarray(given[b.name])).to(wide if seed else dtype)
    return result


def check(program: KernelProgram, found: Sequence[Tensor], wanted: Arrays, rtol: float, floor: float = 1e-3) -> None:
    """Every result within `rtol` of the wanted one, entry by entry; entries below `floor` of the largest one are
    compared with that share of it, since a sum of terms that cancel is no better. Infinities and NaN are met by the
    same."""
    outs = [b for b in program.buffers if b.role == "out"]
    for b, x in zip(outs, found, strict=True):
        y = np.asarray(wanted[b.name], dtype=float)
        what = f"{program.name}: {b.name}"
        assert tuple(x.shape) == y.shape, f"{what} has the shape {tuple(x.shape)}, not {y.shape}"
        z = x.detach().cpu().double().numpy()
        both = np.isfinite(y)
        scale = np.max(np.abs(y), initial=0.0, where=both)
        np.testing.assert_array_equal(np.where(both, 0, z), np.where(both, 0, y), err_msg=f"{what}: infinities or NaN")
        y, z = np.where(both, y, 0), np.where(both, z, 0)
        gap = np.abs(z - y) - rtol * np.maximum(np.abs(y), floor * scale)
        worst = np.unravel_index(np.argmax(gap), gap.shape) if gap.size else ()
        assert not gap.size or gap[worst] <= 0, f"{what}{list(map(int, worst))} is {z[worst]!r}, not {y[worst]!r}"
