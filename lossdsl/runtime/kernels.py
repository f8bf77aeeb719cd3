"""The kernels of a generated module, and which of them gives what a call asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lossdsl.runtime.lane import Family, Route
from lossdsl.runtime.ops import Program
from lossdsl.runtime.quick import Quick
from lossdsl.runtime.signature import KernelFunction, Signature, base_axis

COPIES = 16  # of vectors among the params on devices that are kept


class Compiled:
    """The kernels of a generated module with what is derived from them once.

    Operands are the inputs and params of the signature, in that order, then 1 or 0
    for each computed input: whether it was passed. Kernels are

        value, aux           the rows and weights; and with the named outputs
        weight               the weights alone
        gradient, second     derivatives by all inputs, where params are constants
        …_params             derivatives by inputs and params
        gradient_x           the gradient by the input x alone
        both, both_x         value and gradient in one visit, the upstream known

    of which all but "value" may be missing.
    """

    def __init__(
        self,
        signature: Signature,
        kernels: Mapping[str, KernelFunction],
        identity: str,
        tiling: Any = None,
        inplace: Callable[..., Tensor | None] | None = None,
        ready: Callable[..., Any] | None = None,
    ) -> None:
        self.signature = signature
        self.tiling = tiling  # how to do without the matrix, if the loss has one
        self.inplace = inplace  # `overwrite`, if a gradient can lie where its input was
        self.ready = ready  # `Ready`, if the backend packs arguments beforehand
        self.operands = [s.name for s in signature.inputs]
        self.operands += [s.name for s in signature.params]
        self.computed = tuple(i for i, s in enumerate(signature.inputs) if s.computed)
        self.operands += [signature.inputs[i].given for i in self.computed]
        self.inputs = len(signature.inputs)
        self.indexed = any(s.kind.startswith("index ") for s in signature.inputs)
        # kernels of a device that run on the host all the same do as on the device
        self.emulates = bool(getattr(kernels.get("value"), "emulates", False))
        self.quick = tuple(map(Quick, signature.inputs))
        # params that are vectors: their length is looked at in each call
        self.vectors = tuple(
            (i, base_axis(s.axes[0])) for i, s in enumerate(signature.params) if s.axes
        )
        self.calls: dict[
            tuple[str, str, str, bool, int], Any
        ] = {}  # that most calls share
        self.skip = next(
            (i for i, s in enumerate(signature.params) if s.name == "ignore_index"),
            None,
        )
        # where the extent of each batch axis shows
        self.extents = tuple(
            next(
                (i, s.axes.index(axis))
                for i, s in enumerate(signature.inputs)
                if axis in s.axes
            )
            for axis in signature.batch
            if any(axis in s.axes for s in signature.inputs)
        )
        self.programs = programs = {
            name: Program(signature, name, function, identity)
            for name, function in kernels.items()
        }
        self.value = Route(programs["value"], self.operands)
        self.aux = Route(programs.get("aux", programs["value"]), self.operands)
        self.weight: Route | None = None
        if "weight" in programs:
            self.weight = Route(programs["weight"], self.operands)
        self._families(f"{signature.name}_{identity}")
        self.gradients: list[Steps] = []
        for name, program in programs.items():
            kind, _, suffix = name.partition("_")
            if kind == "gradient":
                both = programs.get(f"both_{suffix}" if suffix else "both")
                self.gradients.append(Steps(self, program, both))
        self.gradients.sort(key=lambda steps: len(steps.at))
        # x *= factor, on the device, where gradients are made ahead of their upstream
        self.rescale: Any = next(
            (f.rescale for f in kernels.values() if hasattr(f, "rescale")), None
        )
        self.copies: dict[tuple[int, torch.device], tuple[Tensor, int, Tensor]] = {}
        self.chosen: dict[tuple[bool, ...], Steps | None] = {}

    def fits(self, sizes: Mapping[str, int], params: Sequence[Tensor]) -> bool:
        """Whether each vector among the params is as long as its axis."""
        if not self.vectors:
            return True
        known = dict(sizes)
        return all(
            known.setdefault(axis, params[i].shape[0]) == params[i].shape[0]
            for i, axis in self.vectors
        )

    def placed(self, vector: Tensor, device: torch.device) -> Tensor:
        """A copy of a param on a device, kept while it is what it was: to make one the
        host waits for the device.
        """
        key = (id(vector), device)
        found = self.copies.get(key)
        if found is None or found[1] != vector._version:
            if len(self.copies) >= COPIES:
                self.copies.clear()
            # with the vector itself, so that no other takes its number
            found = self.copies[key] = (vector, vector._version, vector.to(device))
        return found[2]

    def _families(self, key: str) -> None:
        programs, signature = self.programs, self.signature
        missing = "no further derivative of this loss is derived"
        if signature.second_missing:
            missing += f": {signature.second_missing}"
        full = "_params" if "gradient_params" in programs else ""
        for name, program in programs.items():
            kind, _, suffix = name.partition("_")
            after = {"value": f"gradient{full}", "aux": f"gradient{full}"}.get(kind, "")
            if kind == "gradient":
                after = f"second_{suffix}" if suffix else "second"
            program.register(programs.get(after), missing)
        values = (self.value, self.aux)
        count = len(signature.sizes)
        self.lean = self.full = Family(
            key, self.operands, programs, "", values, count, missing
        )
        if full:
            self.full = Family(
                key + full, self.operands, programs, full, values, count, missing
            )

    def steps(self, needs: tuple[bool, ...]) -> Steps | None:
        """The smallest gradient with all that is needed; None if nothing can be."""
        if needs not in self.chosen:
            able = {i for steps in self.gradients for i in steps.at}
            wanted = {i for i, need in enumerate(needs) if need} & able
            fit = (x for x in self.gradients if wanted and wanted <= set(x.at))
            self.chosen[needs] = next(fit, None)
        return self.chosen[needs]


class Steps:
    """How to get the gradient by some of the operands; `at` says which."""

    def __init__(
        self, compiled: Compiled, gradient: Program, both: Program | None
    ) -> None:
        operands = compiled.operands
        self.weighs = "@weight" in gradient.spec.args
        seeds = ("@rows", "@weight") if self.weighs else ("@rows",)
        self.gradient = Route(gradient, [*operands, *seeds])
        self.at = tuple(
            operands.index(out.removeprefix("grad.")) for out in self.gradient.outs
        )
        self.total = len(operands)
        self.both = None if both is None else Route(both, [*operands, "@rows"])

    def spread(self, grads: Sequence[Tensor]) -> list[Tensor | None]:
        """Gradients, one an operand."""
        result: list[Tensor | None] = [None] * self.total
        for at, grad in zip(self.at, grads, strict=True):
            result[at] = grad
        return result
