"""A tile's rows of a matrix product into one reused buffer, and back to its factors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lossdsl.runtime.factors import Columns, Entries, Rows, Source
from lossdsl.runtime.tilespec import MatrixSpec

NEAR = 1 / 64  # of |a|² + |b|²: squared distances below it are taken of differences
PAIRS = 1 << 20  # numbers of near pairs' differences at a time


class Matrix:
    """A matrix during one call: its factors, and what is near in the last tile."""

    def __init__(self, source: Source, spec: MatrixSpec) -> None:
        self.spec = spec
        self.right = Columns(source, spec.right, spec.columns, spec.over)
        one = spec.left.cotangent == spec.right.cotangent
        kept = self.right if one else None  # both factors are one value
        self.left = Rows(source, spec.left, spec.rows, spec.over, kept)
        self.bias: Columns | None = None
        if spec.bias is not None:
            self.bias = Columns(source, spec.bias, spec.columns, ())
        self.made: Entries | None = None  # the rows of the last tile
        self.near: tuple[Tensor, Tensor] | None = None
        self.right_norms: Tensor | None = None
        if spec.kind == "sqdist":
            self.right_norms = self.right.entries.square().sum(1)

    @property
    def columns(self) -> int:
        """Entries of one row of the tiled axis: its inner rows times the columns."""
        return self.left.per_row * len(self.right.entries)

    def tile(self, entries: Entries, room: Tensor) -> Tensor:
        """Some rows of the matrix, computed into `room`."""
        self.made = entries
        x, y = self.left.take(entries), self.right.entries
        z = room[: len(x) * len(y)].view(len(x), len(y))
        if self.spec.kind == "sqdist":
            self._distances(x, y, z)
        elif self.bias is None:
            torch.mm(x, y.t(), out=z)
        else:
            torch.addmm(self.bias.entries[:, 0], x, y.t(), out=z)
        return z.view(-1, *self.left.shape[1:], *self.right.shape)

    def _distances(self, x: Tensor, y: Tensor, z: Tensor) -> None:
        """|x|² + |y|² - 2x·y, and Σ (x - y)² where that would cancel."""
        assert self.right_norms is not None
        scale = x.square().sum(1)[:, None] + self.right_norms
        torch.mm(x, y.t(), out=z)
        z.mul_(-2).add_(scale)
        i, j = (z < scale.mul_(NEAR)).nonzero(as_tuple=True)
        self.near = (i, j)
        block = max(1, PAIRS // max(1, x.shape[1]))
        for k in range(0, len(i), block):
            p, q = i[k : k + block], j[k : k + block]
            z[p, q] = (x[p] - y[q]).square().sum(1)

    def factors(self, entries: Entries) -> list[Tensor]:
        """What a kernel that multiplies takes for some rows: both factors, and the bias
        if there is one."""
        self.made = entries
        found = [self.left.take(entries), self.right.entries]
        return found if self.bias is None else [*found, self.bias.entries[:, 0]]

    def receive(self, entries: Entries, given: Sequence[Tensor | None]) -> None:
        """Take in the cotangents of the factors, and of the bias, as far as they are
        there: from all rows at once."""
        left, right, *bias = given
        if right is not None:
            self.right.cotangent, self.right.first = right, False
        for x in bias:
            if x is not None and self.bias is not None:
                self.bias.cotangent, self.bias.first = x[:, None], False
        if left is not None:
            room = self.left.room(entries)
            room.copy_(left)
            self.left.settle(entries, room)

    def give(self, entries: Entries, cotangent: Tensor, wanted: set[str]) -> None:
        """Take in the cotangent of some rows: what `wanted` says of the factors.

        The first tile's overwrites what is in the columns' memory.
        """
        if self.made is not entries:  # a cotangent that doesn't depend on the entries
            self.left.take(entries)
            self.near = None
        x, y = self.left.last, self.right.entries
        g = cotangent.reshape(len(x), len(y))
        if "bias" in wanted and self.bias is not None:
            sums = torch.mv(g.t(), g.new_ones(len(x)))[:, None]
            if self.bias.first:
                self.bias.room().copy_(sums)
            else:
                self.bias.room().add_(sums)
            self.bias.first = False
        if self.spec.kind == "sqdist":
            self._give_distances(entries, x, y, g, wanted)
            return
        if "right" in wanted:
            right = self.right.room()
            if self.right.first:
                torch.mm(g.t(), x, out=right)
            else:
                right.addmm_(g.t(), x)
            self.right.first = False
        if "left" in wanted:
            room = self.left.room(entries)
            torch.mm(g, y, out=room)
            self.left.settle(entries, room)

    def _give_distances(
        self, entries: Entries, x: Tensor, y: Tensor, g: Tensor, wanted: set[str]
    ) -> None:
        """d (x - y)² = 2(x - y)·(dx - dy): near pairs by themselves, others as sums."""
        none = torch.empty(0, dtype=torch.int64, device=g.device)
        i, j = self.near or (none, none)
        near = g[i, j]
        g = g.index_put((i, j), g.new_zeros(())) if len(i) else g
        left = right = None
        if "right" in wanted:
            right = self.right.room()
            right = right.zero_() if self.right.first else right
            right.addmm_(g.t(), x, alpha=-2).addcmul_(g.sum(0)[:, None], y, value=2)
            self.right.first = False
        if "left" in wanted:
            left = self.left.room(entries)
            torch.mm(g, y, out=left)
            left.neg_().addcmul_(g.sum(1, keepdim=True), x).mul_(2)
        block = max(1, PAIRS // max(1, x.shape[1]))
        for k in range(0, len(i), block):
            p, q = i[k : k + block], j[k : k + block]
            part = (x[p] - y[q]).mul_(2 * near[k : k + block, None])
            if left is not None:
                left.index_add_(0, p, part)
            if right is not None:
                right.index_add_(0, q, part, alpha=-1)
        if left is not None:
            self.left.settle(entries, left)

    def gradients(self, wanted: set[str]) -> list[tuple[str, Tensor]]:
        """The gradients by operands that the factors hang on, by name."""
        found: list[tuple[str, Tensor]] = []
        sides: Sequence[tuple[str, Rows | Columns | None]] = (
            ("left", self.left),
            ("right", self.right),
            ("bias", self.bias),
        )
        for word, side in sides:
            if word in wanted and side is not None:
                found += side.gradients()
        return found
