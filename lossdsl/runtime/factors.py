"""The factors of a matrix: what it multiplies, and the way back to the operands.

A factor is an operand, or computed from some (normalised, say). The rows' factor is
there a tile at a time, and its cotangent goes on to the operands at once; the columns'
is whole. Where entries can't be computed apart from each other both are whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from lossdsl.runtime.signature import KernelFunction
from lossdsl.runtime.tilespec import SideSpec, StepSpec

BLOCK = 4 << 20  # bytes of a factor that are computed at a time

Entries = tuple[int, int] | Tensor  # from where to where, or numbers
CallStep = Callable[..., Sequence[Tensor]]


@dataclass(frozen=True, slots=True)
class Source:
    """What a factor is computed from: values by name, kernels, and sizes of axes.

    `some`: not all rows are there, so gradients by rows start as 0. `call` runs a step.
    `needed` are the operands that get a gradient.
    """

    values: Mapping[str, Tensor]
    sizes: Mapping[str, int]
    dtype: torch.dtype
    some: bool
    needed: frozenset[str]
    functions: Mapping[str, KernelFunction]
    call: CallStep


def roomy(function: Any) -> bool:
    """Whether a kernel takes memory for its results."""
    return "into" in (getattr(function, "__kwdefaults__", None) or {})


def entries_of(x: Tensor, dim: int, entries: Entries) -> Tensor:
    """Some entries along a dimension: a view where they lie together."""
    if isinstance(entries, Tensor):
        return x.index_select(dim, entries)
    return x.narrow(dim, entries[0], entries[1] - entries[0])


class _Factor:
    """What both kinds have: the side as (entries, features), and its way back."""

    def __init__(
        self, source: Source, side: SideSpec, axes: Sequence[str], over: Sequence[str]
    ) -> None:
        self.source, self.side = source, side
        order = [side.axes.index(a) for a in (*axes, *over)]
        self.order = order
        self.back = [order.index(i) for i in range(len(order))]
        self.dim = order[0]
        self.shape = tuple(source.sizes[a] for a in axes)
        self.inner = tuple(source.sizes[a] for a in over)
        self.per_row = prod(self.shape[1:])
        self.lists = dict(side.through)
        self.grads: dict[str, Tensor] = {}
        self.sparse = False  # whether some entries have no gradient
        self.shared: set[str] = set()  # gradients in the cotangent's memory

    def flat(self, value: Tensor) -> Tensor:
        """A value as (entries, features), in the dtype of the arithmetic."""
        turned = value.permute(self.order)
        return turned.reshape(-1, prod(self.inner)).to(self.source.dtype)

    def restored(self, x: Tensor) -> Tensor:
        """(entries, features) with the dimensions of the value, in their order."""
        return x.reshape(-1, *self.shape[1:], *self.inner).permute(self.back)

    def takes(
        self, step: StepSpec, entries: Entries | None, cotangent: Tensor | None = None
    ) -> list[Tensor]:
        """The arguments of a step for some entries; the cotangent is of these."""
        found = []
        for t in step.takes:
            if cotangent is not None and t.name == self.side.cotangent:
                found.append(cotangent)
                continue
            x = self.source.values[t.name]
            if t.name in self.lists:
                x = x.index_select(t.dim, self.listed(t.name, entries))
            elif t.dim >= 0 and entries is not None:
                x = entries_of(x, t.dim, entries)
            found.append(x)
        return found

    def listed(self, name: str, entries: Entries | None) -> Tensor:
        """At which entries an input is read through its list."""
        numbers = self.source.values[self.lists[name]]
        return numbers if entries is None else entries_of(numbers, 0, entries)

    def value(self, entries: Entries | None) -> Tensor:
        """The side's value, or some of its entries along its first axis."""
        if self.side.forward is None:
            x = self.source.values[self.side.value]
            return x if entries is None else entries_of(x, self.dim, entries)
        step = self.side.forward
        (made,) = self.source.call(step, self.takes(step, entries))
        return made

    def home(self, name: str) -> Tensor:
        """Memory for the gradient by an operand."""
        if name not in self.grads:
            x = self.source.values[name]
            fresh = torch.zeros if self.sparse or name in self.lists else torch.empty
            self.grads[name] = fresh(x.shape, dtype=self.source.dtype, device=x.device)
        return self.grads[name]

    def back_from(self, cotangent: Tensor, entries: Entries | None) -> None:
        """Put the gradients by the operands where they belong, from a cotangent."""
        side, source = self.side, self.source
        if not side.back:
            (name,) = side.inputs
            self._put(name, self.dim, entries, cotangent)
            return
        for group, step in side.back:
            names = side.params if group == "params" else side.inputs
            if not source.needed & set(names):
                continue
            into = self._rooms(step, entries)
            outs = source.call(step, self.takes(step, entries, cotangent), into)
            for give, out, there in zip(step.gives, outs, into, strict=True):
                name = give.name.rpartition(".")[2]
                if give.how == "rows" and there is None:
                    self._put(name, give.dim, entries, out)
                elif there is None:
                    before = self.grads.get(name)
                    self.grads[name] = out if before is None else before + out

    def _rooms(self, step: StepSpec, entries: Entries | None) -> list[Tensor | None]:
        """Where a kernel itself may put its results."""
        function = self.source.functions[step.kernel]
        names = [t.name for t in step.takes]
        over = getattr(function, "over", {})
        rooms: list[Tensor | None] = []
        for i, give in enumerate(step.gives):
            name = give.name.rpartition(".")[2]
            fits = give.how == "rows" and name not in self.lists and roomy(function)
            if name in self.shared:  # its memory is the cotangent's
                fits = fits and i in over and names[over[i]] == self.side.cotangent
            room = None
            if fits and isinstance(entries, tuple):
                room = entries_of(self.home(name), give.dim, entries)
            rooms.append(room)
        return rooms

    def _put(self, name: str, dim: int, entries: Entries | None, x: Tensor) -> None:
        if name in self.lists:
            self.home(name).index_copy_(dim, self.listed(name, entries), x)
        elif entries is None:
            self.grads[name] = x
        elif isinstance(entries, Tensor):
            self.home(name).index_copy_(dim, entries, x)
        else:
            entries_of(self.home(name), dim, entries).copy_(x)


class Columns(_Factor):
    """The factor that every tile needs all of."""

    def __init__(
        self, source: Source, side: SideSpec, axes: Sequence[str], over: Sequence[str]
    ) -> None:
        super().__init__(source, side, axes, over)
        self.first = True
        self.cotangent: Tensor | None = None
        self._entries: Tensor | None = None

    @property
    def entries(self) -> Tensor:
        """All entries, as (entries, features)."""
        if self._entries is None:
            self._entries = self._whole()
        return self._entries

    def _whole(self) -> Tensor:
        if not self.side.through:
            return self.flat(self.value(None))
        found: Tensor | None = None
        for start, stop in self.blocks():
            part = self.flat(self.value((start, stop)))
            if found is None:
                found = part.new_empty(self.shape[0] * self.per_row, part.shape[1])
            found[start * self.per_row : stop * self.per_row] = part
        return self.flat(self.value(None)) if found is None else found

    def blocks(self) -> list[tuple[int, int]]:
        """Parts of the first axis."""
        row = self.per_row * prod(self.inner) * self.source.dtype.itemsize
        step, total = max(1, BLOCK // max(1, row)), self.shape[0]
        return [(s, min(s + step, total)) for s in range(0, total, step)]

    def room(self) -> Tensor:
        """The cotangent's memory; what is in it at `first` means nothing."""
        if self.cotangent is None:
            like = self.entries
            self.cotangent = torch.empty_like(
                like, memory_format=torch.contiguous_format
            )
        return self.cotangent

    def gradients(self) -> list[tuple[str, Tensor]]:
        """The gradients by the operands; afterwards nothing else is there."""
        x = self.cotangent
        assert x is not None
        self._entries = self.cotangent = None
        if not self.side.back or not self.side.apart:
            self.back_from(self.restored(x), None)
            return list(self.grads.items())
        value = self.restored(x)
        if len(self.side.inputs) == 1 and not self.lists:  # over the cotangent itself
            (name,) = self.side.inputs
            if self.source.values[name].shape == value.shape:
                self.grads[name] = value
                self.shared.add(name)
        for start, stop in self.blocks():
            self.back_from(entries_of(value, self.dim, (start, stop)), (start, stop))
        return list(self.grads.items())


class Rows(_Factor):
    """The factor of which a tile needs its own rows alone.

    `kept`: the columns, where both factors are one value.
    """

    def __init__(
        self,
        source: Source,
        side: SideSpec,
        axes: Sequence[str],
        over: Sequence[str],
        kept: Columns | None,
    ) -> None:
        super().__init__(source, side, axes, over)
        self.sparse = source.some
        self.kept = kept
        self.whole: Columns | None = None  # where entries can't be computed apart
        if kept is None and side.forward is not None and not side.apart:
            self.whole = Columns(source, side, axes, over)
        self.last = torch.empty((), device="cpu")
        self.spare: Tensor | None = None

    def take(self, entries: Entries) -> Tensor:
        """The entries of some rows as (entries, features)."""
        there = self.kept or self.whole
        if there is None:
            self.last = self.flat(self.value(entries))
        else:
            self.last = entries_of(there.entries, 0, self._inner(entries))
        return self.last

    def _inner(self, entries: Entries) -> Entries:
        """The entries that rows hold."""
        if not isinstance(entries, Tensor):
            return entries[0] * self.per_row, entries[1] * self.per_row
        inner = torch.arange(self.per_row, device=entries.device)
        return (entries[:, None] * self.per_row + inner).reshape(-1)

    def room(self, entries: Entries) -> Tensor:
        """Memory for the cotangent of some rows, as (entries, features)."""
        if self._straight(entries):
            (name,) = self.side.inputs
            return entries_of(self.flat(self.home(name)), 0, self._inner(entries))
        count = len(self.last)
        if self.spare is None or len(self.spare) < count:
            self.spare = self.last.new_empty(self.last.shape)
        return self.spare[:count]

    def _straight(self, entries: Entries) -> bool:
        """Whether the cotangent is a gradient, and may be written where that lies."""
        plain = self.kept is None and not self.side.back
        in_order = self.order == sorted(self.order)
        return plain and in_order and not isinstance(entries, Tensor)

    def settle(self, entries: Entries, room: Tensor) -> None:
        """The cotangent of some rows lies in `room`."""
        there = self.kept or self.whole
        if there is not None:
            if there.first:
                there.room().zero_()
                there.first = False
            inner = self._inner(entries)
            if isinstance(inner, Tensor):
                there.room().index_add_(0, inner, room)
            else:
                entries_of(there.room(), 0, inner).add_(room)
        elif not self._straight(entries):
            self.back_from(self.restored(room), entries)

    def gradients(self) -> list[tuple[str, Tensor]]:
        """The gradients by the operands; those of one value are the columns'."""
        if self.whole is not None:
            return self.whole.gradients()
        return list(self.grads.items())
