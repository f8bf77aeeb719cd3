"""A tile's rows of a matrix product into one reused buffer, and back to its factors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from lossdsl.runtime.tilespec import MatrixSpec, SideSpec

NEAR = 1 / 64  # of |a|² + |b|²: squared distances below it are taken of differences


class Factor:
    """One side of a matrix as (entries, features), in the dtype of the arithmetic."""

    def __init__(
        self,
        side: SideSpec,
        axes: Sequence[str],
        over: Sequence[str],
        value: Tensor,
        dtype: torch.dtype,
    ) -> None:
        order = [side.axes.index(a) for a in (*axes, *over)]
        turned = value.permute(order)
        self.shape = tuple(turned.shape)  # (axes…, features…)
        self.back = [order.index(i) for i in range(len(order))]
        features = prod(self.shape[len(axes) :])
        self.entries = turned.reshape(-1, features).to(dtype)
        self.per_row = prod(self.shape[1 : len(axes)])

    def like(self) -> Tensor:
        """Memory for the cotangent, as (entries, features)."""
        return torch.empty_like(self.entries, memory_format=torch.contiguous_format)

    def restored(self, x: Tensor) -> Tensor:
        """(entries, features) with the dimensions of the value, in their order."""
        return x.reshape(self.shape).permute(self.back)


class Matrix:
    """A matrix during one call: its factors, its buffer, and the cotangents so far."""

    def __init__(
        self,
        spec: MatrixSpec,
        left: Tensor,
        right: Tensor,
        bias: Tensor | None,
        dtype: torch.dtype,
        picked: Tensor | None,
    ) -> None:
        self.spec = spec
        self.left = Factor(spec.left, spec.rows, spec.over, left, dtype)
        self.right = Factor(spec.right, spec.columns, spec.over, right, dtype)
        self.bias = None if bias is None else bias.to(dtype).reshape(-1)
        self.picked: Tensor | None = None  # the entries that are there, if not all are
        if picked is not None:
            per = torch.arange(self.left.per_row, device=picked.device)
            self.picked = (picked[:, None] * self.left.per_row + per).reshape(-1)
        self.cotangents: dict[str, Tensor] = {}
        self.first = True
        self.near: tuple[Tensor, Tensor] | None = None
        if spec.kind == "sqdist":
            self.left_norms = self.left.entries.square().sum(1)
            self.right_norms = self.right.entries.square().sum(1)

    @property
    def one_value(self) -> bool:
        """Whether both factors are one value, whose cotangents add up."""
        return self.spec.left.cotangent == self.spec.right.cotangent

    @property
    def columns(self) -> int:
        """Entries of one row of the tiled axis: its inner rows times the columns."""
        return self.left.per_row * len(self.right.entries)

    def rows(self, start: int, stop: int) -> Tensor:
        """The left factor's entries of a tile."""
        per = self.left.per_row
        if self.picked is not None:
            return self.left.entries[self.picked[start * per : stop * per]]
        return self.left.entries[start * per : stop * per]

    def tile(self, start: int, stop: int, room: Tensor) -> Tensor:
        """Rows start..stop of the matrix, computed into `room`."""
        x, y = self.rows(start, stop), self.right.entries
        z = room[: len(x) * len(y)].view(len(x), len(y))
        if self.spec.kind == "sqdist":
            self._distances(x, y, z, start)
        elif self.bias is None:
            torch.mm(x, y.t(), out=z)
        else:
            torch.addmm(self.bias, x, y.t(), out=z)
        shape = (stop - start, *self.left.shape[1 : len(self.spec.rows)])
        return z.view(*shape, *self.right.shape[: len(self.spec.columns)])

    def _distances(self, x: Tensor, y: Tensor, z: Tensor, start: int) -> None:
        """|x|² + |y|² - 2x·y, and Σ (x - y)² where that would cancel."""
        at = start * self.left.per_row
        norms = self.left_norms[at : at + len(x)]
        if self.picked is not None:
            norms = self.left_norms[self.picked[at : at + len(x)]]
        scale = norms[:, None] + self.right_norms
        torch.mm(x, y.t(), out=z)
        z.mul_(-2).add_(scale)
        i, j = (z < scale.mul_(NEAR)).nonzero(as_tuple=True)
        self.near = (i, j)
        block = max(1, (1 << 20) // max(1, x.shape[1]))
        for k in range(0, len(i), block):
            p, q = i[k : k + block], j[k : k + block]
            z[p, q] = (x[p] - y[q]).square().sum(1)

    def give(self, start: int, stop: int, cotangent: Tensor, wanted: set[str]) -> None:
        """Take in the cotangent of a tile: what `wanted` says of left, right, bias."""
        x, y = self.rows(start, stop), self.right.entries
        g = cotangent.reshape(len(x), len(y))
        if self.spec.kind == "sqdist":
            self._give_distances(x, y, g, start, stop, wanted)
            self.first = False
            return
        if "left" in wanted:
            torch.mm(g, y, out=self._left(start, stop))
        if "right" in wanted:
            right = self._right()
            if self.first:
                torch.mm(g.t(), x, out=right)
            else:
                right.addmm_(g.t(), x)
        if "bias" in wanted:
            sums = torch.mv(g.t(), g.new_ones(len(x)))
            self._add("bias", sums)
        self.first = False

    def _give_distances(
        self,
        x: Tensor,
        y: Tensor,
        g: Tensor,
        start: int,
        stop: int,
        wanted: set[str],
    ) -> None:
        """d (x - y)² = 2(x - y)·(dx - dy): near pairs by themselves, others as sums."""
        assert self.near is not None
        i, j = self.near
        near = g[i, j]
        g = g.index_put((i, j), g.new_zeros(())) if len(i) else g
        left = right = None
        if "left" in wanted:
            left = self._left(start, stop)
            torch.mm(g, y, out=left)
            left.neg_().addcmul_(g.sum(1, keepdim=True), x).mul_(2)
        if "right" in wanted:
            right = self._right()
            right = right.zero_() if self.first else right
            right.addmm_(g.t(), x, alpha=-2).addcmul_(g.sum(0)[:, None], y, value=2)
        block = max(1, (1 << 20) // max(1, x.shape[1]))
        for k in range(0, len(i), block):
            p, q = i[k : k + block], j[k : k + block]
            part = (x[p] - y[q]).mul_(2 * near[k : k + block, None])
            if left is not None:
                left.index_add_(0, p, part)
            if right is not None:
                right.index_add_(0, q, part, alpha=-1)

    def _left(self, start: int, stop: int) -> Tensor:
        if "left" not in self.cotangents:
            count = len(self.left.entries)
            if self.picked is not None:
                count = len(self.picked)
            shape = (count, self.left.entries.shape[1])
            self.cotangents["left"] = self.left.entries.new_empty(shape)
        per = self.left.per_row
        return self.cotangents["left"][start * per : stop * per]

    def _right(self) -> Tensor:
        if self.first:
            self.cotangents["right"] = self.right.like()
        return self.cotangents["right"]

    def _add(self, name: str, part: Tensor) -> Tensor:
        if self.first:
            self.cotangents[name] = part
        else:
            self.cotangents[name] += part
        return self.cotangents[name]

    def finished(self, name: str) -> Tensor:
        """A cotangent with its value's dimensions; rows that are not there have 0."""
        x = self.cotangents[name]
        if name == "bias":
            return x
        if name == "right":
            return self.right.restored(x)
        if self.picked is not None:
            whole = x.new_zeros(self.left.entries.shape)
            x = whole.index_copy_(0, self.picked, x)
        return self.left.restored(x)
