"""What is said of arguments that don't fit: who bound which axis, and what would do."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from lossdsl.runtime.signature import InputSpec, Signature, base_axis


class BindingError(ValueError):
    """An argument's shape doesn't fit; the message holds the table of bindings."""


def item(spec: InputSpec) -> str:
    return f"{spec.name}[{', '.join(spec.axes)}]" if spec.axes else spec.name


def table(signature: Signature, tensors: Sequence[Tensor | None]) -> str:
    """Who bound which axis, and what every argument is."""
    seen: dict[str, str] = {}
    for spec, x in zip(signature.inputs, tensors, strict=True):
        if x is not None and x.dim() == len(spec.axes):
            for i, (axis, size) in enumerate(zip(spec.axes, x.shape, strict=True)):
                seen.setdefault(
                    base_axis(axis), f"{size} from {spec.name}, dimension {i}"
                )
    lines = [f"  {axis} = {how}" for axis, how in seen.items()]
    for spec, x in zip(signature.inputs, tensors, strict=True):
        if x is not None:
            lines.append(f"  {item(spec)} is {tuple(x.shape)}, {x.dtype}")
    return "\n".join(lines)


def mismatch(
    signature: Signature, tensors: Sequence[Tensor | None], name: str, axis: str
) -> BindingError:
    base = base_axis(axis)
    by, expected, actual = "", 0, 0
    for spec, x in zip(signature.inputs, tensors, strict=True):
        if x is None:
            continue
        for other, size in zip(spec.axes, x.shape, strict=True):
            if base_axis(other) == base and not by:
                by, expected = spec.name, size
            if spec.name == name and other == axis:
                actual = size
    what = f"{axis} = {expected} from {by}, but {name} has {actual}"
    return BindingError(f"{signature.name}: {what}\n{table(signature, tensors)}")


def vector(
    signature: Signature,
    tensors: Sequence[Tensor | None],
    name: str,
    axis: str,
    expected: int,
    actual: int,
) -> BindingError:
    """A param whose length isn't that of its axis: kernels would read past its end."""
    by = "the file"
    for spec, x in zip(signature.inputs, tensors, strict=True):
        if x is not None and axis in map(base_axis, spec.axes):
            by = spec.name
            break
    else:
        others = [s for s in signature.params if axis in map(base_axis, s.axes)]
        if others and others[0].name != name:
            by = others[0].name
    what = f"{axis} = {expected} from {by}, but the param {name} has {actual}"
    return BindingError(f"{signature.name}: {what}\n{table(signature, tensors)}")


def leads(
    signature: Signature,
    tensors: Sequence[Tensor | None],
    spec: InputSpec,
    lead: tuple[int, ...],
    by: str,
    expected: tuple[int, ...],
    class_dim: int,
) -> BindingError:
    batch = signature.fold
    what = f"{batch} = {times(expected)} from {by}, but {spec.name} has {times(lead)}"
    hints = []
    if (*expected, 1) == lead:
        hints.append(f"{spec.name}.squeeze(-1), or {by}.unsqueeze(-1)")
    elif expected == (*lead, 1):
        hints.append(f"{by}.squeeze(-1), or {spec.name}.unsqueeze(-1)")
    elif len(expected) == len(lead) and any(len(s.axes) > 1 for s in signature.inputs):
        own = next((s.axes for s in signature.inputs if s.name == by), ())
        if class_dim == 1:
            hints.append("class_dim=-1 if the classes are the last dimension")
        elif len(own) == 2:
            hints.append(f"class_dim=1 if {own[1]} is dimension 1 of {by}")
    hint = f"\n  pass {hints[0]}" if hints else ""
    return BindingError(f"{signature.name}: {what}{hint}\n{table(signature, tensors)}")


def times(sizes: tuple[int, ...]) -> str:
    return "×".join(map(str, sizes)) if sizes else "1"


def ranks(
    signature: Signature, tensors: Sequence[Tensor | None], name: str
) -> BindingError:
    for spec, x in zip(signature.inputs, tensors, strict=True):
        if x is not None and x.dim() != len(spec.axes) and name in ("", spec.name):
            need = len(spec.axes)
            hint = ""
            if x.dim() == need + 1 and x.shape[-1] == 1:
                hint = f"\n  pass {spec.name}.squeeze(-1)"
            elif spec.axes and (alone := _of_one(signature, tensors, spec.axes[0])):
                hint = f"\n  for one {spec.axes[0]} alone, pass {alone}"
            what = (
                f"{item(spec)} has {need} dimension{'s' if need != 1 else ''}, "
                f"but the tensor has shape {tuple(x.shape)}"
            )
            return BindingError(
                f"{signature.name}: {what}{hint}\n{table(signature, tensors)}"
            )
    return BindingError(
        f"{signature.name}: the shapes don't fit\n{table(signature, tensors)}"
    )


def _of_one(signature: Signature, tensors: Sequence[Tensor | None], axis: str) -> str:
    """What to pass where every tensor over an axis lacks just that; empty if not so."""
    over = [
        (spec, x)
        for spec, x in zip(signature.inputs, tensors, strict=True)
        if x is not None and axis in spec.axes
    ]
    if any(x.dim() != len(spec.axes) - 1 for spec, x in over):
        return ""
    return ", ".join(f"{spec.name}[None]" for spec, _ in over)


def devices(signature: Signature, tensors: Sequence[Tensor | None]) -> ValueError:
    where = ", ".join(
        f"{spec.name} on {x.device}"
        for spec, x in zip(signature.inputs, tensors, strict=True)
        if x is not None
    )
    return ValueError(f"{signature.name}: tensors on different devices: {where}")
