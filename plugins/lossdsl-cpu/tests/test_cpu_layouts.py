"""Strides, dtypes, hostile rows and numbers of threads: what a kernel gives must not depend on how its tensors lie."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cpu_harness import arguments, compiled, error, interpreted, program

from lossdsl.registry import Registry

SHAPES = [(5, 7), (16, 64), (33, 10), (40, 65), (17, 100), (3, 2049), (2, 5000)]


def cross_entropy(n: int, c: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> dict[str, Any]:
    torch.manual_seed(seed)
    target = torch.randint(c, (n,))
    target[2::7] = -100
    return {
        "logits": (torch.randn(n, c) * 4).to(dtype),
        "target": target,
        "ignore_index": -100,
        "@rows": torch.rand(n) + 0.5,
    }


def layouts(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The same matrix, lying in other ways."""
    n, c = x.shape
    wide = torch.full((2 * n, 3 * c), float("nan"), dtype=x.dtype)
    wide[::2, 1::3] = x
    return {
        "transposed": x.t().contiguous().t(),
        "apart": wide[::2, 1::3],
        "within": torch.cat([x, x], 1)[:, :c],
        "backwards": x.flip(1).flip(1),
    }


def run(name: str, given: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    p = program(name)
    return compiled(p)(*arguments(p, given))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_strides(shape: tuple[int, int]) -> None:
    given = cross_entropy(*shape)
    plain = run("cross_entropy_gradient", given)[0]
    for lie, x in layouts(given["logits"]).items():
        moved = {**given, "logits": x, "target": torch.stack([given["target"]] * 2, 1)[:, 1]}
        found = run("cross_entropy_gradient", moved)[0]
        assert found.shape == plain.shape
        torch.testing.assert_close(found, plain, rtol=3e-6, atol=1e-12, msg=lambda m, lie=lie: f"{lie}: {m}")


def test_a_seed_without_memory_of_its_own() -> None:
    given = cross_entropy(20, 10)
    one = {**given, "@rows": torch.full((20,), 0.25)}
    shared = {**given, "@rows": torch.tensor(0.25).expand(20)}
    assert torch.equal(run("cross_entropy_gradient", one)[0], run("cross_entropy_gradient", shared)[0])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["cross_entropy_value", "cross_entropy_gradient", "cross_entropy_both"])
def test_float32_against_the_interpreter(name: str, shape: tuple[int, int], registry: Registry) -> None:
    given = cross_entropy(*shape)
    if name.endswith("both"):
        given["@rows"] = 0.75
    p = program(name)
    wanted = interpreted(p, registry, given)
    for b, x in zip((b for b in p.buffers if b.role == "out"), run(name, given), strict=True):
        assert error(x, wanted[b.name]) < 6e-6, b.name


HOSTILE = {
    "confident": [[17.0, 0.0]],
    "sure": [[90.0, 0.0, -3.0]],
    "far off": [[1e6 + 1, 1e6, 1e6 - 2]],
    "ties": [[3.0, 3.0, 3.0, 3.0]],
    "a class ruled out": [[2.0, float("-inf"), 1.0]],
    "only one class left": [[2.0, float("-inf"), float("-inf")]],
    "one class": [[5.0]],
    "huge": [[3e38, -3e38, 1.0]],
    "tiny": [[1e-42, 0.0, -1e-42]],
    "a later maximum": [[float(i % 97) / 10 for i in range(3000)] + [30.0, 29.0]],
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("wide", [False, True], ids=["lanes", "along"])
def test_hostile_rows_against_fifty_digits(case: str, wide: bool, registry: Registry) -> None:
    """Elementwise, in units of the last place where the result is normal; classes of probability 0 pad a narrow row."""
    row = HOSTILE[case]
    if wide and len(row[0]) < 65:
        row = [row[0] + [float("-inf")] * 70]
    given = {"logits": torch.tensor(row), "target": torch.tensor([0]), "ignore_index": -100, "@rows": torch.ones(1)}
    for name in ("cross_entropy_value", "cross_entropy_gradient"):
        p = program(name)
        found = run(name, given)
        wanted = interpreted(p, registry, given, "mpmath")
        for b, x in zip((b for b in p.buffers if b.role == "out"), found, strict=True):
            exact = torch.tensor([float(v) for v in wanted[b.name].reshape(-1)], dtype=torch.float64)
            gap = (x.double().reshape(-1) - exact).abs()
            assert bool((gap <= 4e-6 * exact.abs() + 2e-45).all()), (name, x, exact)


def test_the_gradient_of_a_confident_row_keeps_its_digits() -> None:
    given = {"logits": torch.tensor([[17.0, 0.0]]), "target": torch.tensor([0]), "ignore_index": -100}
    value = run("cross_entropy_value", given)[0]
    gradient = run("cross_entropy_gradient", {**given, "@rows": torch.ones(1)})[0]
    assert value.item() == pytest.approx(4.1399376e-08, rel=3e-7)
    assert gradient[0, 0].item() == pytest.approx(-4.1399375e-08, rel=3e-7)
    assert gradient[0, 1].item() == pytest.approx(4.1399375e-08, rel=3e-7)


@pytest.mark.parametrize("c", [3, 100])
def test_ignored_rows_may_hold_anything(c: int) -> None:
    given = cross_entropy(20, c)
    spoiled = {**given, "logits": given["logits"].clone()}
    spoiled["logits"][2::7] = float("nan")
    for name in ("cross_entropy_value", "cross_entropy_gradient"):
        for x, y in zip(run(name, given), run(name, spoiled), strict=True):
            assert torch.equal(x, y)
            assert torch.equal(y[2::7], torch.zeros_like(y[2::7]))


@pytest.mark.parametrize("c", [3, 100])
def test_nan_reaches_its_row_alone(c: int) -> None:
    given = cross_entropy(20, c)
    given["logits"][0, 1] = float("nan")
    given["target"][0] = 2
    gradient = run("cross_entropy_gradient", given)[0]
    assert gradient[0].isnan().all()
    assert gradient[1:].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_halves_are_rounded_once(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    """Arithmetic in float32, the value float32, the gradient the nearest half or its neighbour."""
    given = cross_entropy(*shape, dtype)
    value = run("cross_entropy_value", given)[0]
    gradient = run("cross_entropy_gradient", given)[0]
    full = {**given, "logits": given["logits"].float()}
    assert value.dtype == torch.float32
    assert gradient.dtype == dtype
    assert torch.equal(value, run("cross_entropy_value", full)[0])
    assert torch.equal(gradient, run("cross_entropy_gradient", full)[0].to(dtype))


@pytest.mark.parametrize("name", ["cross_entropy_value", "cross_entropy_gradient", "dice_value", "dice_gradient"])
@pytest.mark.parametrize("shape", [(70_000, 3), (900, 100), (40, 5000)], ids=str)
def test_the_number_of_threads_changes_no_bit(name: str, shape: tuple[int, int]) -> None:
    given = cross_entropy(*shape)
    given |= {"smooth": 0.5, "@rows": torch.ones(shape[0]) if name.startswith("cross") else 0.7}
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3, 7):
            torch.set_num_threads(threads)
            found.append(run(name, given))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        for x, y in zip(found[0], other, strict=True):
            assert torch.equal(x, y)


def test_integers_of_any_size() -> None:
    given = cross_entropy(30, 12)
    wanted = run("cross_entropy_value", given)[0]
    for dtype in (torch.int32, torch.int16, torch.int8):
        assert torch.equal(run("cross_entropy_value", {**given, "target": given["target"].to(dtype)})[0], wanted)


def test_a_tensor_elsewhere_is_refused() -> None:
    given = cross_entropy(4, 3)
    with pytest.raises(TypeError, match="built for the CPU, but a tensor is on meta"):
        run("cross_entropy_value", {**given, "logits": given["logits"].to("meta")})


def test_a_dtype_without_a_kernel_is_named() -> None:
    given = cross_entropy(4, 3)
    with pytest.raises(TypeError, match=r"logits: no kernel for torch\.complex64"):
        run("cross_entropy_value", {**given, "logits": given["logits"].to(torch.complex64)})
