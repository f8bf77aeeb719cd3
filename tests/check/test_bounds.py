"""Any file is answered in bounded time, with a CheckedLoss or with diagnostics."""

from __future__ import annotations

import time

import pytest

from tests.check.helpers import codes

HEAD = "loss t\ninput x[N, C]\ninput y[N]: index C\n"
LARGE = {
    "defs that double": HEAD
    + "def f0(v) = exp(v)\n"
    + "".join(f"def f{i}(v) = f{i - 1}(2 * v) + f{i - 1}(2 * v + 1)\n" for i in range(1, 30))
    + "return sum[C](f29(x))\n",
    "defs in a long row": HEAD
    + "def f0(v) = v\n"
    + "".join(f"def f{i}(v) = f{i - 1}(v) + 1\n" for i in range(1, 300))
    + "return sum[C](f299(x))\n",
    "a vector": HEAD + f"return sum[C](poly(x, [{', '.join('1' * 65)}]))\n",
}


@pytest.mark.parametrize("name", sorted(LARGE))
def test_too_large(name: str) -> None:
    before = time.monotonic()
    assert codes(LARGE[name]) == ["E0410"]
    assert time.monotonic() - before < 5


def test_a_name_used_often_is_one_term() -> None:
    text = (
        HEAD
        + "a0 = sum[C](x)\n"
        + "".join(f"a{i} = a{i - 1} * a{i - 1}\n" for i in range(1, 100))
        + "return a99 + x[y]\n"
    )
    assert codes(text) == []


def test_a_long_sum() -> None:
    assert codes(HEAD + "return sum[C](" + " + ".join(["x"] * 90) + ") + x[y]\n") == []


def test_many_mistakes() -> None:
    text = HEAD + "".join(f"a{i} = foo{i}(bar{i})\n" for i in range(500)) + "return x[y]\n"
    before = time.monotonic()
    assert len(codes(text)) == 1000
    assert time.monotonic() - before < 5
