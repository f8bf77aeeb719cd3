"""A loss in use: as a module in a training step, again and again, from several threads, from the cache."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import lossdsl
from lossdsl import api
from lossdsl.testing.conformance.calling import UsableBackend


class UseTests(UsableBackend):
    def focal(self, **options: Any) -> Any:
        return lossdsl.loss("std/focal", backend=self.backend, device=self.place, **options)

    def batch(self, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        random = torch.Generator().manual_seed(seed)
        logits = torch.randn(20, 6, generator=random, dtype=dtype).to(self.place).requires_grad_()
        target = torch.randint(6, (20,), generator=random)
        target[::5] = -100
        return logits, target.to(self.place)

    def reference(self, logits: Tensor, target: Tensor, gamma: float | Tensor) -> Tensor:
        """Focal loss as torch has it, in float64; what is ignored counts for nothing."""
        there = target != -100
        logp = torch.log_softmax(logits, 1)[there].gather(1, target[there][:, None])
        return (-((1 - logp.exp()) ** gamma) * logp).mean()

    def test_a_training_step(self) -> None:
        """Value and gradient against autograd on the plain formula, at an upstream that isn't 1, twice."""
        logits, target = self.batch()
        other = logits.detach().clone().requires_grad_()
        for factor in (1.0, -2.5):
            value, wanted = self.focal(gamma=2.0)(logits, target), self.reference(other, target, 2.0)
            torch.autograd.backward((factor * value, factor * wanted))
            torch.testing.assert_close(value, wanted, rtol=1e-12, atol=0)
            torch.testing.assert_close(logits.grad, other.grad, rtol=1e-9, atol=1e-15)

    def test_a_gradient_by_a_param(self) -> None:
        logits, target = self.batch()
        gammas = [torch.tensor(1.7, dtype=torch.float64, device=self.place).requires_grad_() for _ in range(2)]
        torch.autograd.backward(
            (self.focal()(logits, target, gamma=gammas[0]), self.reference(logits, target, gammas[1]))
        )
        torch.testing.assert_close(gammas[0].grad, gammas[1].grad, rtol=1e-9, atol=1e-15)

    def test_the_gradient_of_a_gradient(self) -> None:
        found = []
        for loss in (lambda z, y: self.focal(gamma=2.0)(z, y), lambda z, y: self.reference(z, y, 2.0)):
            logits, target = self.batch()
            [gradient] = torch.autograd.grad(loss(logits, target), logits, create_graph=True)
            found.append(torch.autograd.grad((gradient**2).sum(), logits)[0])
        torch.testing.assert_close(*found, rtol=1e-8, atol=1e-14)

    @pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
    def test_reductions(self, reduction: str) -> None:
        logits, target = self.batch()
        rows = self.focal(gamma=2.0, reduction="none")(logits, target)
        wanted = {"none": rows, "sum": rows.sum(), "mean": rows.sum() / (target != -100).sum()}[reduction]
        torch.testing.assert_close(self.focal(gamma=2.0, reduction=reduction)(logits, target), wanted)

    def test_the_same_bits_every_time(self) -> None:
        found = []
        for _ in range(3):
            logits, target = self.batch(dtype=torch.float32)
            value = self.focal(gamma=2.0)(logits, target)
            value.backward()
            found.append((value.detach(), logits.grad))
        assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))

    def test_threads(self) -> None:
        """One module, eight threads at once, each with tensors of its own."""
        loss = self.focal(gamma=2.0)

        def step(seed: int) -> tuple[Tensor, Tensor]:
            logits, target = self.batch(seed)
            value = loss(logits, target)
            value.backward()
            assert logits.grad is not None
            return value.detach(), logits.grad

        alone = [step(seed) for seed in range(32)]
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(step, range(32)))
        for a, b in zip(alone, together, strict=True):
            assert torch.equal(a[0], b[0])
            assert torch.equal(a[1], b[1])

    def test_a_module_from_the_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The second time nothing is compiled, and the text that lies on disk works."""
        monkeypatch.setenv("LOSSDSL_CACHE_DIR", str(tmp_path))
        monkeypatch.setattr(api, "_memory", {})
        first = lossdsl.compile("std/brier", backend=self.backend, device=self.place)
        monkeypatch.setattr(api, "_memory", {})
        monkeypatch.setattr("lossdsl.pipeline.build", lambda *a, **k: pytest.fail("compiled again"))
        again = lossdsl.compile("std/brier", backend=self.backend, device=self.place)
        assert again.text == first.text
        assert again.path is not None
        logits = torch.zeros(2, 4, device=self.place)
        target = torch.tensor([0, 3], device=self.place)
        value = lossdsl.loss("std/brier", backend=self.backend, device=self.place)(logits, target)
        assert value.item() == pytest.approx(0.75)

    def test_a_dtype_without_arithmetic_is_refused(self) -> None:
        logits, target = self.batch()
        with pytest.raises(TypeError, match="complex"):
            self.focal()(logits.detach().to(torch.complex64), target)

    def test_a_tensor_on_another_device_is_refused(self) -> None:
        """By the module, which says what to do; a backend for all devices takes it."""
        logits, target = (x.detach().to("meta") for x in self.batch())
        if "*" in self.spec.devices:
            assert self.focal()(logits, target).device.type == "meta"
            return
        with pytest.raises(ValueError, match=f"built by backend {self.backend} for"):
            self.focal()(logits, target)
