"""Losses without Triton kernels: the cause and the way out are said, and "auto" takes torch."""

from __future__ import annotations

import os

import pytest

import lossdsl
from lossdsl.api import source_of
from lossdsl.backends.manager import BackendError
from lossdsl.pipeline import middle
from lossdsl.pipeline.printing import chosen
from tests.triton.kernels import REGISTRY

CAUSES = {
    "info/dependent_flow_nll": "a determinant",
    "llm/eisl": "larger than any tensor given",
    "metric/amarx": "larger than any tensor given",
    "metric/dimco": "a product of whole matrices",
    "metric/focal_soft_contrastive": "a product of whole matrices",
    "metric/madacos": "a product of whole matrices",
    "metric/matrix_entropy": "a product of whole matrices",
    "metric/mcr2": "a determinant",
    "metric/recalibrated_contrastive": "a product of whole matrices",
    "metric/softclip": "a product of whole matrices",
    "metric/tsim_diversity": "a product of whole matrices",
    "metric/von_neumann_entropy": "a product of whole matrices",
    "ranking/mw_loss": "a product of whole matrices",
    "std/dmi": "a determinant",
}
FULL = os.environ.get("LOSSDSL_FULL_TESTS") == "1"


@pytest.mark.parametrize("name", CAUSES if FULL else ("metric/madacos", "std/dmi", "llm/eisl"))
def test_no_kernels(name: str) -> None:
    with pytest.raises(BackendError, match=CAUSES[name]) as said:
        lossdsl.loss(name, backend="triton")
    assert 'build it with backend="torch", or "auto"' in str(said.value)
    choice = chosen(middle(source_of(name), REGISTRY), REGISTRY, "cuda")
    assert choice.spec.name == "torch"
    assert f"triton can't print {str(said.value).partition(': ')[2].partition(';')[0]}" in choice.reason
