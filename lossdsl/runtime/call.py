"""One call of a loss, but for its operands: its options and their reduction."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lossdsl.runtime.kernels import Compiled
from lossdsl.runtime.reduction import Denominator, reduce


class Call:
    """All of one call but its operands."""

    __slots__ = (
        "aux",
        "compiled",
        "denominator",
        "empty",
        "free",
        "memory",
        "poison",
        "reduction",
        "route",
        "seeds",
        "sizes",
        "there",
        "valid",
        "whole",
    )

    def __init__(
        self,
        compiled: Compiled,
        sizes: tuple[int, ...],
        reduction: str,
        denominator: Denominator,
        empty: str,
        aux: bool,
        free: bool,
        poison: Tensor | None,
        whole: bool = False,
        memory: int = 64 << 20,
        there: Tensor | None = None,
    ) -> None:
        self.compiled = compiled
        self.there = there  # the rows whose label isn't the ignored one
        self.memory = memory  # bytes that tiles of a matrix may take
        self.whole = whole  # no row is ignored, and every weight is 1
        self.sizes = sizes
        self.reduction = reduction
        self.denominator = denominator
        self.empty = empty
        self.aux = aux
        self.free = free  # params came with the call
        self.poison = poison  # NaN in rows that index outside their axis
        self.route = compiled.aux if aux else compiled.value
        self.seeds: tuple[float, Tensor] | None = None  # the last upstream of a row
        # whether the value depends on the weights by its denominator
        self.valid = (
            reduction == "mean"
            and isinstance(denominator, str)
            and denominator == "valid"
        )

    def finish(self, outs: Sequence[Tensor]) -> tuple[Tensor, Tensor | float]:
        """Reduce the rows: the value, and d(value)/d(row)."""
        route = self.route
        rows = outs[route.rows]
        weight = None if route.weight is None else outs[route.weight]
        if self.poison is not None:
            rows = rows * self.poison
        if not self.compiled.signature.batch:
            return rows, 1.0
        by = self.denominator
        if self.there is not None:
            rows = torch.where(self.there, rows, 0)
            counted = self.there.expand(rows.shape)
            weight = counted if weight is None else torch.where(counted, weight, 0)
            if by == "elements":
                by = counted.sum()
        return reduce(rows, weight, self.reduction, by, self.empty)

    def settle(self, outs: Sequence[Tensor]) -> tuple[Tensor, Tensor | float]:
        """`finish` for a plain call: on the CPU numbers are quicker than tensors."""
        route = self.route
        rows = outs[route.rows]
        if (
            self.poison is not None
            or self.reduction == "none"
            or rows.device.type != "cpu"
            or not self.compiled.signature.batch
        ):
            return self.finish(outs)
        weight = None if route.weight is None else outs[route.weight]
        by = self.divide(rows.numel(), None if self.whole else weight)
        return self.divided(rows, by), by

    def divide(self, count: int, weight: Tensor | None) -> float:
        """What the sum of rows is multiplied by."""
        if self.reduction == "sum":
            return 1.0
        by: float = count
        if self.valid:
            if weight is not None:
                by = weight.sum(dtype=torch.float64).item()
        elif not isinstance(self.denominator, str):
            by = float(self.denominator)
        if by == 0:
            return 0.0 if self.empty == "zero" else float("nan")
        return 1.0 / by

    def seed(self, scale: float) -> Tensor:
        """The upstream of every row as a tensor, kept for the next call."""
        kept = self.seeds
        if kept is None or kept[0] != scale:
            with torch.inference_mode(False):
                kept = self.seeds = (
                    scale,
                    torch.tensor(scale, dtype=torch.float64, device="cpu"),
                )
        return kept[1]

    def divided(self, rows: Tensor, scale: float) -> Tensor:
        """The reduced value."""
        total = rows.sum(dtype=torch.float64).item()
        value = total * scale if scale else 0.0
        return torch.tensor(value, dtype=rows.dtype, device="cpu")
