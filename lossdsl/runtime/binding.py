"""Arguments to axes: what a call may pass, and what an error says of one it may not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lossdsl.runtime.extents import extent
from lossdsl.runtime.mismatch import devices, item, leads, mismatch, ranks, vector
from lossdsl.runtime.reduction import check_class_dim
from lossdsl.runtime.signature import InputSpec, Signature, base_axis


class Bound:
    """Tensors that fit: one an input, sizes by axis, the dimensions that N folds.

    `labels` are the class indices given for a prob, by the place of the input.
    """

    __slots__ = ("folded", "labels", "sizes", "tensors")

    def __init__(
        self,
        tensors: list[Tensor],
        sizes: dict[str, int],
        folded: tuple[int, ...] | None,
        labels: dict[int, Tensor],
    ) -> None:
        self.tensors = tensors
        self.sizes = sizes
        self.folded = folded
        self.labels = labels

    def unfold(self, x: Tensor, axes: tuple[str, ...], batch: str) -> Tensor:
        """Give a result back the dimensions that its batch axis took in."""
        if self.folded is None or batch not in axes:
            return x
        at = axes.index(batch)
        return x.reshape(x.shape[:at] + self.folded + x.shape[at + 1 :])


def bind(
    signature: Signature,
    given: Sequence[Any],
    params: Mapping[str, Tensor],
    class_dim: int = 1,
) -> Bound:
    """Check and convert the call's arguments, in the order of `signature.inputs`.

    Raises TypeError for a wrong type or dtype and BindingError for a wrong shape.
    """
    specs = signature.inputs
    tensors = _convert(signature, given)
    folded = None
    labels: dict[int, Tensor] = {}
    for spec, x in zip(specs, tensors, strict=True):
        if x is not None and x.dim() != len(spec.axes):
            tensors, folded = _fold(signature, tensors, class_dim)
            labels = _one_hot(signature, tensors)
            break
    else:
        if class_dim not in (1, -1):
            tensors, folded = _fold(signature, tensors, class_dim)
    sizes: dict[str, int] = {}
    device = None
    for spec, x in zip(specs, tensors, strict=True):
        if x is None:
            continue
        for axis, size in zip(spec.axes, x.shape, strict=True):
            if sizes.setdefault(base_axis(axis), size) != size:
                raise mismatch(signature, tensors, spec.name, axis)
        if spec.axes:
            if device is None:
                device = x.device
            elif x.device != device:
                raise devices(signature, tensors)
    _fill_sizes(signature, sizes, params)
    for name, axis, size in lengths(signature, params):
        if sizes.setdefault(axis, size) != size:
            raise vector(signature, tensors, name, axis, sizes[axis], size)
    for i, (spec, x) in enumerate(zip(specs, tensors, strict=True)):
        if x is None:
            tensors[i] = _default(signature, spec, tensors, sizes, params)
    return Bound(tensors, sizes, folded, labels)  # type: ignore[arg-type]


def lengths(
    signature: Signature, params: Mapping[str, Tensor]
) -> list[tuple[str, str, int]]:
    """The params that are vectors: name, axis, and how many numbers each holds."""
    return [
        (spec.name, base_axis(axis), params[spec.name].shape[i])
        for spec in signature.params
        for i, axis in enumerate(spec.axes)
    ]


def _fill_sizes(
    signature: Signature, sizes: dict[str, int], params: Mapping[str, Tensor]
) -> None:
    """Add the axes that no argument shows; one may be sized by another before it."""
    for axis, source in signature.sizes:
        if axis in sizes:
            continue
        try:
            value = extent(source, sizes, params)
        except KeyError as error:
            unknown = str(error.args[0])
            raise TypeError(
                f"{signature.name}: axis {axis} depends on {unknown}, "
                "and no argument says how long that is"
            ) from None
        if not (value >= 0 and float(value).is_integer()):
            raise ValueError(f"{signature.name}: axis {axis} can't be {value} long")
        sizes[axis] = int(value)


# --- types and dtypes -----------------------------------------------------------------


UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


def _convert(signature: Signature, given: Sequence[Any]) -> list[Tensor | None]:
    """Each argument as a tensor of a dtype that its kind allows."""
    tensors: list[Tensor | None] = []
    for spec, x in zip(signature.inputs, given, strict=True):
        if x is None:
            if not spec.optional:
                raise TypeError(f"{signature.name}: {spec.name} is missing")
            tensors.append(None)
            continue
        if not isinstance(x, Tensor):
            if spec.axes or not isinstance(x, bool | int | float):
                raise TypeError(
                    f"{signature.name}: {item(spec)} is a tensor, "
                    f"not {type(x).__name__}: pass torch.as_tensor({spec.name})"
                )
            real = spec.kind == "real"
            x = torch.tensor(
                x, dtype=compute_dtype(tensors) if real else None, device="cpu"
            )
        tensors.append(_kind(signature, spec, x))
    if any(x is not None and not x.is_floating_point() for x in tensors):
        _soften(signature, tensors)
    return tensors


def _kind(signature: Signature, spec: InputSpec, x: Tensor) -> Tensor:
    name, kind = f"{signature.name}: {spec.name}", spec.kind
    if x.is_complex():
        raise TypeError(f"{name} is complex; losses are of real numbers")
    if x.is_nested or x.layout is not torch.strided:
        layout = "nested" if x.is_nested else str(x.layout).removeprefix("torch.")
        how = "to_padded_tensor(0.0)" if x.is_nested else "to_dense()"
        raise TypeError(f"{name} is {layout}, not strided: pass {spec.name}.{how}")
    if x.dtype in UNSIGNED:
        how = "float()" if kind == "real" or kind.startswith("prob") else "long()"
        raise TypeError(
            f"{name} is {str(x.dtype).removeprefix('torch.')}, of which torch can do "
            f"little: pass {spec.name}.{how}"
        )
    x = x.resolve_neg()  # kernels read memory, which a view of -x shares with x
    if not x.is_floating_point():
        return x != 0 if kind == "bool" and x.dtype != torch.bool else x
    if kind == "real" or kind.startswith("prob"):
        return x
    if kind == "bool":
        raise TypeError(
            f"{name} is true or false, but the tensor is {x.dtype}: "
            f"pass {spec.name} > 0, or whatever condition is meant"
        )
    what = "class indices" if kind.startswith("index") else "integers"
    raise TypeError(
        f"{name} holds {what}, but the tensor is {x.dtype}: "
        f"pass {spec.name}.long()"
        + (
            f", or {spec.name}.argmax(-1) if it holds probabilities"
            if kind.startswith("index")
            else ""
        )
    )


def _soften(signature: Signature, tensors: list[Tensor | None]) -> None:
    """Integers where reals are read: fine beside a real tensor; one-hot for a prob."""
    for i, (spec, x) in enumerate(zip(signature.inputs, tensors, strict=True)):
        if x is None or x.is_floating_point():
            continue
        if spec.kind == "real" or spec.kind.startswith("prob"):
            real = [y for y in tensors if y is not None and y.is_floating_point()]
            if not real:
                raise TypeError(
                    f"{signature.name}: {spec.name} holds real numbers, but the tensor "
                    f"is {x.dtype}: pass {spec.name}.float()"
                )
            if spec.kind == "real" or x.dim() == real[0].dim():
                tensors[i] = x.to(compute_dtype(tensors))


def compute_dtype(tensors: Sequence[Tensor | None]) -> torch.dtype:
    """float64 if any tensor is, else float32, whatever half dtype comes in."""
    for x in tensors:
        if x is not None and x.dtype == torch.float64:
            return torch.float64
    return torch.float32


# --- shapes ---------------------------------------------------------------------------


def _fold(
    signature: Signature, tensors: list[Tensor | None], class_dim: int
) -> tuple[list[Tensor | None], tuple[int, ...] | None]:
    """Extra dimensions join the batch axis: (N, C, d1, …) becomes (N·d1·…, C)."""
    specs = signature.inputs
    check_class_dim(class_dim)
    batch = signature.fold
    if not batch:
        raise ranks(signature, tensors, "")
    folded: tuple[int, ...] | None = None
    by = ""
    result: list[Tensor | None] = []
    for spec, x in zip(specs, tensors, strict=True):
        if x is None or batch not in spec.axes:
            if x is not None and x.dim() != len(spec.axes):
                raise ranks(signature, tensors, spec.name)
            result.append(x)
            continue
        own = len(spec.axes) - 1
        extra = x.dim() - own
        hot = spec.kind.startswith("prob") and not x.is_floating_point()
        if hot:
            own, extra = 0, x.dim()
        if extra < 0 or (extra == 0 and own):
            raise ranks(signature, tensors, spec.name)
        at = spec.axes.index(batch)
        if own and class_dim == 1 and extra > 1:
            # (N, C, d1, …): d1, … stand behind the axes of the file
            x = x.movedim(tuple(range(own + 1, x.dim())), tuple(range(1, extra)))
            at = 0
        elif own and at and extra > 1:
            raise ranks(signature, tensors, spec.name)
        lead = tuple(x.shape[at : at + extra])
        if folded is None:
            folded, by = lead, spec.name
        elif folded != lead:
            raise leads(signature, tensors, spec, lead, by, folded, class_dim)
        result.append(x.reshape((*x.shape[:at], -1, *x.shape[at + extra :])))
        if x.numel() == 0:  # -1 is ambiguous there
            rows = 1
            for d in lead:
                rows *= d
            result[-1] = x.reshape((*x.shape[:at], rows, *x.shape[at + extra :]))
    if folded is not None and len(folded) == 1:
        folded = None
    return result, folded


def _one_hot(signature: Signature, tensors: list[Tensor | None]) -> dict[int, Tensor]:
    """Put one-hot rows where a prob is given as class indices; these indices.

    An index that is no class is NaN in its row.
    """
    labels: dict[int, Tensor] = {}
    for i, (spec, x) in enumerate(zip(signature.inputs, tensors, strict=True)):
        if x is None or x.is_floating_point() or not spec.kind.startswith("prob"):
            continue
        classes = None
        for other, y in zip(signature.inputs, tensors, strict=True):
            if y is None or other is spec or spec.target not in other.axes:
                continue
            if y.dim() == len(other.axes):
                classes = y.shape[other.axes.index(spec.target)]
                break
        if classes is None or len(spec.axes) != x.dim() + 1:
            raise ranks(signature, tensors, spec.name)
        at = spec.axes.index(spec.target)
        index = torch.arange(classes, device=x.device)
        index = index.reshape((-1,) + (1,) * (x.dim() - at))
        wide = x.long().unsqueeze(at)
        hot = (wide == index).to(compute_dtype(tensors))
        nan = hot.new_full((), float("nan"))
        labels[i] = x
        tensors[i] = torch.where((wide < 0) | (wide >= classes), nan, hot)
    return labels


def _default(
    signature: Signature,
    spec: InputSpec,
    tensors: Sequence[Tensor | None],
    sizes: Mapping[str, int],
    params: Mapping[str, Tensor],
) -> Tensor:
    """What an input that isn't passed holds: its default, or a fresh draw."""
    shape = []
    for axis in spec.axes:
        if base_axis(axis) not in sizes:
            raise TypeError(
                f"{signature.name}: {item(spec)} is missing, "
                f"and no other argument says how long {axis} is"
            )
        shape.append(sizes[base_axis(axis)])
    first = next((x for x in tensors if x is not None and x.dim()), None)
    device = None if first is None else first.device
    real = spec.kind == "real" or spec.kind.startswith("prob")
    dtype = compute_dtype(tensors) if real else torch.int64
    if spec.kind == "bool":
        dtype = torch.bool
    if spec.draw is not None:
        x = torch.empty(shape, dtype=dtype, device=device)
        if spec.draw == "normal":
            return x.normal_()
        if spec.draw == "gumbel":
            return x.exponential_().log_().neg_()
        return x.uniform_()
    if spec.computed:  # the kernels read their own default in its place
        return torch.zeros((), dtype=dtype, device=device).expand(shape)
    if isinstance(spec.default, str):
        return params[spec.default].to(device, dtype).expand(shape)
    assert spec.default is not None
    return torch.full((), spec.default, dtype=dtype, device=device).expand(shape)
