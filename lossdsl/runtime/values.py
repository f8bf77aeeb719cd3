"""Checks that read values: indices in range, always; all the rest with `check=True`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lossdsl.runtime.binding import Bound
from lossdsl.runtime.signature import Bounds, InputSpec, Signature, base_axis


def interval_text(bounds: Bounds) -> str:
    """An interval as the language writes it."""
    low, high, low_open, high_open = bounds
    return f"{'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"


def inside(bounds: Bounds, x: float) -> bool:
    """Whether a number lies in the interval (NaN lies in none)."""
    low, high, low_open, high_open = bounds
    return (low < x or (low == x and not low_open)) and (
        x < high or (x == high and not high_open)
    )


def check_indices(signature: Signature, bound: Bound, ignore: int | None) -> None:
    """Raise IndexError for an index outside its axis that isn't `ignore`."""
    for spec, x in zip(signature.inputs, bound.tensors, strict=True):
        if not spec.kind.startswith("index ") or x.dtype == torch.bool:
            continue
        size = bound.sizes.get(base_axis(spec.target))
        if size is None or not x.numel():
            continue
        low, high = torch.aminmax(x)
        if int(low) >= 0 and int(high) < size:
            continue
        bad = outside(x, size, ignore)
        if bad.any():
            raise _out_of_range(signature, bound, spec, x, bad, size)


def kept_rows(signature: Signature, bound: Bound, ignore: int) -> Tensor | None:
    """Which rows stay where a prob is given as class indices, some of them ignored.

    None if all do. IndexError for an index that is no class.
    """
    keep: Tensor | None = None
    for i, x in bound.labels.items():
        spec = signature.inputs[i]
        size = bound.sizes[base_axis(spec.target)]
        bad = outside(x, size, ignore)
        if bad.any():
            raise _out_of_range(signature, bound, spec, x, bad, size)
        ignored = x == ignore
        if ignored.any():
            if x.dim() != 1:
                raise ValueError(
                    f"{signature.name}: {spec.name} holds ignored indices: "
                    "pass probabilities, with an axis `where` in the file"
                )
            keep = ~ignored if keep is None else keep & ~ignored
    return keep


def refuse_ignored(signature: Signature, bound: Bound, ignore: int | Tensor) -> None:
    """RuntimeError, when a compiled graph runs, for an ignored label: there a loss of a
    whole batch can't do without its row. On a device the loss is NaN: an error of its
    kernels would end the process's use of it.
    """
    for i, x in bound.labels.items():
        if x.device.type == "cpu":
            torch._assert_async(
                (x != ignore).all(),
                f"{signature.name}: {signature.inputs[i].name} holds ignored labels, "
                "which a loss of a whole batch leaves out only outside torch.compile: "
                "leave their rows out before, or pass probabilities",
            )


def labels_are_rows(signature: Signature, bound: Bound) -> bool:
    """Whether each label is a row's, which then may be left out of the sum."""
    own = {a for i in bound.labels for a in signature.inputs[i].axes}
    targets = {signature.inputs[i].target for i in bound.labels}
    return own - targets <= set(signature.batch)


def neutral_rows(
    signature: Signature, bound: Bound, ignore: int | Tensor
) -> tuple[list[Tensor], Tensor]:
    """Inputs that are harmless in rows whose label is ignored, and which rows stay.

    `kept_rows` for where values can't be looked at: under a trace, on a device.
    An index that is no class stays NaN in its row.
    """
    tensors = list(bound.tensors)
    there: Tensor | None = None
    for i, labels in bound.labels.items():
        target = signature.inputs[i].target
        own = tuple(a for a in signature.inputs[i].axes if a != target)
        ignored = labels == ignore
        for at, spec in enumerate(signature.inputs):
            if set(own) <= set(spec.axes):
                rows = _along(spec.axes, own, ignored)
                tensors[at] = tensors[at].masked_fill(rows, _harmless(spec, bound))
        keep = _along(signature.batch, own, ~ignored)
        there = keep if there is None else there & keep
    assert there is not None
    return tensors, there


def _harmless(spec: InputSpec, bound: Bound) -> float:
    """What an input may be in a row that is not looked at."""
    if spec.kind.startswith("prob"):
        return 1 / max(bound.sizes[base_axis(spec.target)], 1)
    return 0.0 if spec.kind.startswith("index") else 0.5


def _along(axes: Sequence[str], own: Sequence[str], x: Tensor) -> Tensor:
    """What has the axes `own` as it stands to what has `axes`, which are more."""
    x = x.permute(sorted(range(len(own)), key=lambda i: axes.index(own[i])))
    for i, axis in enumerate(axes):
        if axis not in own:
            x = x.unsqueeze(i)
    return x


def outside(x: Tensor, size: int, ignore: int | Tensor | None) -> Tensor:
    """Where an index lies outside 0..size-1 and isn't the ignored one."""
    bad = (x < 0) | (x >= size)
    return bad if ignore is None else bad & (x != ignore)


def poison(
    signature: Signature, bound: Bound, ignore: Tensor | None, dtype: torch.dtype
) -> Tensor | None:
    """NaN where a row holds an index outside its axis, else 1; None without indices."""
    result: Tensor | None = None
    for spec, x in zip(signature.inputs, bound.tensors, strict=True):
        size = bound.sizes.get(base_axis(spec.target))
        if not spec.kind.startswith("index ") or size is None or x.dtype == torch.bool:
            continue
        bad = outside(x, size, ignore)
        inner = [i for i, a in enumerate(spec.axes) if a not in signature.batch]
        if inner:
            bad = bad.any(dim=inner) if x.dim() > 1 else bad.any()
        own = [a for a in spec.axes if a in signature.batch]
        bad = _along(signature.batch, own, bad)
        one = torch.ones((), dtype=dtype, device=x.device)
        factor = torch.where(bad, one * float("nan"), one)
        result = factor if result is None else result * factor
    return result


def _out_of_range(
    signature: Signature,
    bound: Bound,
    spec: InputSpec,
    x: Tensor,
    bad: Tensor,
    size: int,
) -> IndexError:
    first = bad.reshape(-1).nonzero()[0, 0].cpu()
    shape = tuple(x.shape)
    if bound.folded is not None:
        own = [a for a in spec.axes if a != spec.target or len(spec.axes) == x.dim()]
        at = own.index(signature.fold)
        shape = shape[:at] + bound.folded + shape[at + 1 :]
    place = ", ".join(str(int(i)) for i in torch.unravel_index(first, shape))
    axis = base_axis(spec.target)
    by = next(
        (
            s.name
            for s in signature.inputs
            if s is not spec and axis in map(base_axis, s.axes)
        ),
        axis,
    )
    what = "rows" if axis in signature.batch else "classes"
    return IndexError(
        f"{signature.name}: {spec.name}[{place}] = {int(x.reshape(-1)[int(first)])}, "
        f"but {by} has {size} {what} (0..{size - 1})"
    )


def check_values(
    signature: Signature, tensors: Sequence[Tensor], given: Sequence[Any]
) -> None:
    """Scan the inputs for what the file assumes of them; ValueError names the place."""
    for spec, x, own in zip(signature.inputs, tensors, given, strict=True):
        if (
            not x.is_floating_point()
            or not x.numel()
            or (spec.computed and own is None)
        ):
            continue
        x = x.detach()
        prob = spec.kind.startswith("prob")
        bounds = spec.bounds or ((0.0, 1.0, False, False) if prob else None)
        bad = x.isnan() | (x == torch.inf)
        if not signature.batch or bounds is None:
            _raise(signature, spec, x, bad, "is not a finite number or -inf")
        if bounds is not None:
            low, high, low_open, high_open = bounds
            bad = (x <= low if low_open else x < low) | (
                x >= high if high_open else x > high
            )
            _raise(
                signature,
                spec,
                x,
                bad | x.isnan(),
                f"is not in {interval_text(bounds)}",
            )
        if prob:
            total = x.double().sum(spec.axes.index(spec.target))
            bad = (total - 1).abs() > 100 * torch.finfo(x.dtype).eps ** 0.5 * 0.1
            _raise(signature, spec, total, bad, f"is the sum over {spec.target}, not 1")


def _raise(
    signature: Signature, spec: InputSpec, x: Tensor, bad: Tensor, what: str
) -> None:
    if bad.any():
        place = [int(i) for i in bad.nonzero()[0]]
        at = f"[{', '.join(map(str, place))}]" if place else ""
        raise ValueError(
            f"{signature.name}: {spec.name}{at} = {float(x[tuple(place)]):g} {what}"
        )
