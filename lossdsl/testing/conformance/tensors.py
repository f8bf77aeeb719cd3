"""Dtypes, strides, ignored rows, empty batches: what a function gives must not depend on how its tensors lie."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from lossdsl.backends.api import Buffer, KernelProgram
from lossdsl.testing.conformance.calling import (
    LOSSES,
    Arrays,
    UsableBackend,
    call,
    drawn,
    interpreted,
    rounded,
    tensor,
)

SHAPES = ((5, 7), (33, 10), (16, 64), (40, 65), (17, 100), (3, 2049))
FUNCTIONS = ("value", "gradient")


def layouts(x: Tensor) -> dict[str, Tensor]:
    """The same matrix, lying in other ways."""
    n, c = x.shape
    apart = torch.full((2 * n, 3 * c), float("nan"), dtype=x.dtype, device=x.device)
    apart[::2, 1::3] = x
    shifted = torch.full((n * c + 1,), float("nan"), dtype=x.dtype, device=x.device)
    shifted[1:] = x.reshape(-1)
    return {
        "transposed": x.t().contiguous().t(),
        "every second row, every third column": apart[::2, 1::3],
        "columns of a wider one": torch.cat([x, x], 1)[:, :c],
        "not at the start of its memory": shifted[1:].view(n, c),
        "one row many times": x[:1].expand(n, c),
        "one number many times": x[:1, :1].expand(n, c),
    }


class TensorTests(UsableBackend):
    def cross_entropy(self, name: str, n: int, c: int, seed: int = 0) -> tuple[KernelProgram, Arrays]:
        """Tensors for a function of cross-entropy, in single, every third row ignored."""
        kernel = self.built("cross_entropy").kernels[name]
        given = drawn(kernel.graph, kernel.program, seed, ignored=True, N=n, C=c)
        given = rounded(kernel.program, given, torch.float32)
        return kernel.program, {
            b.name: tensor(b, given[b.name], self.place, torch.float32) for b in _ins(kernel.program)
        }

    def results(
        self, name: str, program: KernelProgram, given: Arrays, dtype: torch.dtype = torch.float32
    ) -> list[Tensor]:
        return call(getattr(self.built("cross_entropy").module, name), program, given, self.place, dtype)

    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_strides_change_nothing(self, name: str, shape: tuple[int, int]) -> None:
        program, given = self.cross_entropy(name, *shape)
        for lie, x in layouts(given["logits"]).items():
            target = torch.stack([given["target"]] * 2, 1)[:, 1]
            plain = self.results(name, program, {**given, "logits": x.contiguous()})
            moved = self.results(name, program, {**given, "logits": x, "target": target})
            for a, b in zip(plain, moved, strict=True):
                torch.testing.assert_close(b, a, rtol=3e-6, atol=1e-12, msg=lie)

    def test_a_seed_without_memory_of_its_own(self) -> None:
        """`sum().backward()` and `mean().backward()` pass a number that is expanded."""
        program, given = self.cross_entropy("gradient", 20, 10)
        one = torch.full((20,), 0.25, device=self.place)
        shared = torch.tensor(0.25, device=self.place).expand(20)
        found = [self.results("gradient", program, {**given, "seed_rows": x})[0] for x in (one, shared)]
        assert torch.equal(*found)

    @pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
    def test_indices_of_any_width(self, dtype: torch.dtype) -> None:
        program, given = self.cross_entropy("value", 30, 12)
        ignored = 100 if dtype == torch.uint8 else -100
        target = torch.where(given["target"] < 0, ignored, given["target"])
        given |= {"target": target, "ignore_index": torch.tensor(ignored, device=self.place)}
        wanted = self.results("value", program, given)
        for a, b in zip(wanted, self.results("value", program, {**given, "target": target.to(dtype)}), strict=True):
            assert torch.equal(a, b)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
    @pytest.mark.parametrize("shape", SHAPES[:2] + SHAPES[-1:], ids=str)
    def test_halves_are_rounded_once(self, dtype: torch.dtype, shape: tuple[int, int]) -> None:
        """Arithmetic in float32: the value is float32's, the gradient the half nearest to float32's."""
        for name in FUNCTIONS:
            program, given = self.cross_entropy(name, *shape)
            half = {**given, "logits": given["logits"].to(dtype)}
            found = self.results(name, program, half, dtype)
            wanted = self.results(name, program, {**half, "logits": half["logits"].float()})
            for a, b in zip(found, wanted, strict=True):
                assert a.dtype == (torch.float32 if name == "value" else dtype)
                assert torch.equal(a, b.to(a.dtype))

    def test_double_where_any_tensor_is(self) -> None:
        kernel = self.built("kd_kl").kernels["value"]
        given = drawn(kernel.graph, kernel.program, N=5, C=7)
        reals = [b.name for b in kernel.program.buffers if b.role == "in" and b.dtype == "real"]
        mixed = {**given, reals[0]: torch.as_tensor(given[reals[0]]).float()}
        found = call(self.built("kd_kl").module.value, kernel.program, mixed, self.place)
        assert found[0].dtype == torch.float64
        wanted = interpreted(kernel.program, mixed)
        np.testing.assert_allclose(found[0].cpu().numpy(), wanted["rows"], rtol=1e-11)

    @pytest.mark.parametrize("c", [3, 100])
    def test_ignored_rows_may_hold_anything(self, c: int) -> None:
        """NaN in a row that is ignored reaches nothing; its value and gradient are 0 exactly."""
        for name in FUNCTIONS:
            program, given = self.cross_entropy(name, 20, c)
            ignored = given["target"] == -100
            assert ignored.any()
            spoiled = given["logits"].clone()
            spoiled[ignored] = float("nan")
            for a, b in zip(
                self.results(name, program, given),
                self.results(name, program, {**given, "logits": spoiled}),
                strict=True,
            ):
                assert torch.equal(a, b)
                assert not b[ignored].any()

    @pytest.mark.parametrize("c", [3, 100])
    def test_nan_reaches_its_row_alone(self, c: int) -> None:
        program, given = self.cross_entropy("gradient", 20, c)
        given["logits"][0, 1] = float("nan")
        given["target"][0] = 2
        gradient = self.results("gradient", program, given)[0]
        assert gradient[0].isnan().all()
        assert gradient[1:].isfinite().all()

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize(("n", "c"), [(0, 4), (4, 1), (1, 1)])
    def test_no_rows_and_one_class(self, loss: str, n: int, c: int) -> None:
        made = self.built(loss)
        for kernel in self.kernels(loss):
            given = drawn(kernel.graph, kernel.program, N=n, C=c)
            found = self.run(kernel, made.module, given)
            wanted = interpreted(kernel.program, given)
            for b, x in zip((b for b in kernel.program.buffers if b.role == "out"), found, strict=True):
                assert tuple(x.shape) == wanted[b.name].shape
                np.testing.assert_allclose(x.cpu().numpy(), wanted[b.name], rtol=1e-9, atol=1e-14)

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_arguments_stay_as_they_are_and_results_are_fresh(self, name: str) -> None:
        """A later call doesn't write into what an earlier one returned."""
        program, given = self.cross_entropy(name, 20, 10)
        before = {k: x.clone() for k, x in given.items()}
        first = self.results(name, program, given)
        kept = [x.clone() for x in first]
        other = self.cross_entropy(name, 20, 10, seed=1)[1]
        second = self.results(name, program, other)
        assert all(torch.equal(given[k], x) for k, x in before.items())
        assert all(torch.equal(x, y) for x, y in zip(first, kept, strict=True))
        memory = {x.untyped_storage().data_ptr() for x in (*first, *given.values()) if x.numel()}
        assert not memory & {x.untyped_storage().data_ptr() for x in second}


def _ins(program: KernelProgram) -> list[Buffer]:
    return [b for b in program.buffers if b.role in ("in", "param")]
