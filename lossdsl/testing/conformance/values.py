"""Values, gradients and second derivatives of row-wise losses against the interpreter of KernelPrograms."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lossdsl.testing.conformance.calling import (
    LOSSES,
    UsableBackend,
    call,
    check,
    drawn,
    interpreted,
    rounded,
)

SHAPES = ({"N": 5, "C": 7}, {"N": 33, "C": 10}, {"N": 18, "C": 100}, {"N": 2, "C": 4099})

# In double both sides round: a sum of a few thousand terms loses up to three digits of sixteen.
DOUBLE = 1e-11
# In single, sums of thousands of terms and powers of small bases: 1.2e-7 times some tens.
SINGLE = 1e-5
# What entries are compared with at least, as a part of the largest one. q·(log q - log p - kl) of a row of 4 099 has
# logarithms near -12, each known to 5e-7: 1.5e-6 of q, where the largest entry is 5 q. So much is 3e-7 of that one.
FLOORS = {10: 1e-2, 100: 1e-2, 4099: 3e-2}

HOSTILE = {
    "confident": [17.0, 0.0],
    "sure": [90.0, 0.0, -3.0],
    "wrong and sure": [-90.0, 0.0, -3.0],
    "far off": [1e6 + 1, 1e6, 1e6 - 2],
    "ties": [3.0, 3.0, 3.0, 3.0],
    "a class ruled out": [2.0, -np.inf, 1.0],
    "only one class left": [2.0, -np.inf, -np.inf],
    "one class": [5.0],
    "huge": [3e38, -3e38, 1.0],
    "tiny": [1e-42, 0.0, -1e-42],
    "a later maximum": [float(i % 97) / 10 for i in range(3000)] + [30.0, 29.0],
}


class ValueTests(UsableBackend):
    @pytest.mark.parametrize("loss", LOSSES)
    def test_every_function_in_double(self, loss: str) -> None:
        """Value, gradient by inputs and by params, both in one visit, and the Hessian times a vector."""
        made = self.built(loss)
        for i, sizes in enumerate(SHAPES):
            for kernel in self.kernels(loss):
                given = drawn(kernel.graph, kernel.program, seed=i, ignored=True, **sizes)
                found = self.run(kernel, made.module, given)
                check(kernel.program, found, interpreted(kernel.program, given), DOUBLE)

    @pytest.mark.parametrize("loss", LOSSES)
    def test_value_and_gradient_in_single(self, loss: str) -> None:
        """Against float64 at the same numbers."""
        made = self.built(loss)
        for i, sizes in enumerate(SHAPES[1:]):
            for name in ("value", "gradient"):
                kernel = made.kernels[name]
                given = drawn(kernel.graph, kernel.program, seed=i, ignored=True, **sizes)
                given = rounded(kernel.program, given, torch.float32)
                found = call(getattr(made.module, name), kernel.program, given, self.place, torch.float32)
                assert all(x.dtype == torch.float32 for x in found)
                check(kernel.program, found, interpreted(kernel.program, given), SINGLE, floor=FLOORS[sizes["C"]])

    @pytest.mark.parametrize("padding", [0, 70])
    @pytest.mark.parametrize("row", HOSTILE)
    def test_hostile_rows_against_fifty_digits(self, row: str, padding: int) -> None:
        """In single, entry by entry: 4e-6 of each, or the spacing of denormal numbers. Classes that are ruled out make
        a narrow row wide and change nothing."""
        logits = torch.tensor([[*HOSTILE[row], *[-np.inf] * padding]], dtype=torch.float32)
        made = self.built("cross_entropy")
        for name in ("value", "gradient"):
            program = made.kernels[name].program
            given = {
                "logits": logits,
                "target": np.array([0]),
                "ignore_index": np.array(-100),
                "seed_rows": torch.ones(1),
            }
            found = call(getattr(made.module, name), program, given, self.place, torch.float32)
            wanted = interpreted(program, given, "mpmath")
            for b, x in zip((b for b in program.buffers if b.role == "out"), found, strict=True):
                exact = np.array([float(v) for v in wanted[b.name].reshape(-1)])
                gap = np.abs(x.cpu().double().numpy().reshape(-1) - exact)
                assert (gap <= 4e-6 * np.abs(exact) + 2e-45).all(), f"{name}: {x} where {exact} is right"

    def test_the_gradient_of_a_confident_row_keeps_its_digits(self) -> None:
        """1 - p is S/(1 + S) with S the others' share, not what is left of 1 - 0.99999994."""
        made = self.built("cross_entropy")
        program = made.kernels["gradient"].program
        logits = torch.tensor([[17.0, 0.0]])
        given = {"logits": logits, "target": np.array([0]), "ignore_index": np.array(-100), "seed_rows": torch.ones(1)}
        [gradient] = call(made.module.gradient, program, given, self.place, torch.float32)
        assert gradient[0, 0].item() == pytest.approx(-4.1399375e-08, rel=3e-7)
        assert gradient[0, 1].item() == pytest.approx(4.1399375e-08, rel=3e-7)
