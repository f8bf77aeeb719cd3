"""(N, C, d1, …) read where it lies: one kernel call an image, each on views.

The axes of a file are (N, C): further dimensions join N, which copies, since rows of
different images do not lie a stride apart. Within an image they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from lossdsl.runtime.signature import Signature

StepOf = Callable[..., Sequence[Tensor]]


class Images:
    """How many there are, their further dimensions, and which inputs they divide."""

    __slots__ = ("along", "count", "inner")

    def __init__(self, count: int, inner: tuple[int, ...], along: tuple[bool, ...]):
        self.count = count
        self.inner = inner
        self.along = along

    @property
    def rows(self) -> int:
        return self.count * prod(self.inner)

    def views(self, tensors: Sequence[Tensor], i: int) -> list[Tensor]:
        """Image i of the inputs as the file's axes have it; what is left as it is."""
        found = []
        for j, x in enumerate(tensors):
            if j < len(self.along) and self.along[j]:
                found.append(image(x, i, len(self.inner)))
            else:
                found.append(x)
        return found


def image(x: Tensor, i: int, extra: int) -> Tensor:
    """Rows first, then the file's other axis: a view of image i."""
    one = x[i]
    flat = one.flatten(one.dim() - extra)
    return flat.t() if flat.dim() == 2 else flat


def images_of(signature: Signature, inputs: Sequence[Tensor]) -> Images | None:
    """The inputs as images, where each of them can be viewed so; None elsewhere."""
    fold = signature.fold
    if not fold or signature.batch != (fold,):
        return None
    lead: tuple[int, tuple[int, ...]] | None = None
    along = []
    for spec, x in zip(signature.inputs, inputs, strict=True):
        along.append(fold in spec.axes)
        if fold not in spec.axes:
            continue
        own, extra = len(spec.axes), x.dim() - len(spec.axes)
        if spec.axes[0] != fold or own > 2 or extra < 1 or not _flat(x, extra):
            return None
        here = (x.shape[0], tuple(x.shape[own:]))
        if lead is not None and lead != here:
            return None
        lead = here
    if lead is None or lead[0] < 2 or not prod(lead[1]):
        return None
    return Images(*lead, tuple(along))


def _flat(x: Tensor, extra: int) -> bool:
    """Whether the last dimensions can be seen as one, in a result like it, too."""
    return x.is_contiguous() or (
        extra == 2
        and x.dim() == 4
        and x.is_contiguous(memory_format=torch.channels_last)
    )


def by_images(
    images: Images,
    run: StepOf,
    fresh: Callable[[Tensor], Tensor],
    picks: Sequence[int],
    at: Sequence[int],
    seed: Tensor,
) -> Callable[[Sequence[Tensor]], Sequence[Tensor]]:
    """A step over whole tensors from one over the views of an image."""
    extra = len(images.inner)

    def step(given: Sequence[Any]) -> Sequence[Tensor]:
        grads = [fresh(given[j]) for j in at]
        values = []
        for i in range(images.count):
            every = (*images.views(given, i), seed)
            into = [None, *[image(x, i, extra) for x in grads]]
            values.append(run([every[j] for j in picks], into)[0])
        total = torch.stack(values).sum(dtype=torch.float64)
        return (total.to(values[0].dtype), *grads)

    return step
