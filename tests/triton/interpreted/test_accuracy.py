"""Losses on the Triton backend, interpreted and rounded as devices do, against their equations at 110 digits: the bars
of `lossdsl/accuracy/measure.py` hold there as on every other backend. A sample here, all in `make test-all`."""

from __future__ import annotations

import random

import pytest

import lossdsl
from lossdsl.accuracy.table import accuracy, in_words
from lossdsl.api import registry
from tests.losses import FULL
from tests.std.test_library_accuracy import ALL, excused


@pytest.mark.parametrize("name", ALL if FULL else ["llm/dpo", *random.Random(8).sample(ALL, 2)])
def test_every_number_keeps_to_its_bar(name: str) -> None:
    dtypes = ("float32", "bfloat16") if FULL else ("float32",)
    found = accuracy(lossdsl.load(name).checked, registry(), ["triton"], dtypes, by_hand=False)
    assert found.ok or excused(name, found), in_words(found)
