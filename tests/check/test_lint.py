"""Warnings come where they help, and nowhere else."""

from __future__ import annotations

import re

import pytest

from lossdsl.check.names import SPECIAL
from lossdsl.check.prelude import prelude
from lossdsl.syntax.foreign import FUNCTIONS, VALUES
from tests.check.helpers import STANDARD, codes, findings, registry

LOGITS = "loss t\ninput logits[N, C]\ninput target[N]: index C\n"
ROWS = "loss t\ninput x[N, D]\n"

# A warning's code for each text, or none.
TEXTS = {
    "log of a softmax": (LOGITS + "return -log(softmax(logits)[target])", []),
    "log of its complement": (LOGITS + "return -log(1 - softmax(logits)[target])", []),
    "log of a sum of exponentials": (ROWS + "return log(sum[D](exp(x)))", []),
    "log of a mixture": (ROWS + "return -sum[D](log((softmax(x) + softmax(2 * x)) / 2))", []),
    "log of an input": ("loss t\ninput x[N]\nreturn log(x)", ["W0501"]),
    "log of a positive input": ("loss t\ninput x[N] in (0, inf)\nreturn log(x)", []),
    "log of a relu": ("loss t\ninput x[N]\nreturn log(relu(x))", ["W0501"]),
    "log of one more than a relu": ("loss t\ninput x[N]\nreturn log(1 + relu(x))", []),
    "a whole power": (ROWS + "return sum[D](x^3)", []),
    "a power of a probability": (LOGITS + "param q = 0.7 in (0, 1]\nreturn softmax(logits)[target]^q", []),
    "a root of a square": (ROWS + "param q = 0.5 in (0, 1]\nreturn sum[D](x^2)^q", ["W0502"]),
    "a root of what has no gradient": ("loss t\ninput x[N]\ninput w[N]: fixed in [0, 1]\nreturn x * sqrt(w)", []),
    "a norm": (ROWS + "return norm[D](x) + dist[D](x, 1)", []),
    "a small constant": (ROWS + "return sum[D](x) / (sum[D](x^2) + 1e-7)", []),
    "a tiny constant": (ROWS + "return sum[D](x) / (sum[D](x^2) + 1e-9)", ["W0503"]),
    "an input for a size": ("loss t\ninput x[N]\ninput w[K]: fixed\nreturn x / size(K)", []),
    "a param that sizes an axis": ("loss t\ninput x[N]\nparam k: int = 2\naxis K = k\nreturn sum[K](x * K)", []),
    "an unused def": ("loss t\ninput x[N]\ndef f(y) = y\nreturn x", ["W0505"]),
    "an output": ("loss t\ninput x[N]\ny = 2 * x\noutput y\nreturn x", []),
    "an unused value": ("loss t\ninput x[N]\ny = 2 * x\nreturn x", ["W0505"]),
    "smoothing": (ROWS + "return -mean[D](log_softmax(x))", []),
    "masked smoothing": (
        LOGITS + "input m[N, C]: bool\nreturn -mean[C](log_softmax[C](logits where m) where m) - logits[target]",
        [],
    ),
    "a difference of means": ("loss t\ninput x[N]\nreturn mean[N](x^2) - mean[N](x)^2", []),
    "a factor outside": ("loss t\ninput x[N]\nparam k = 2\nreturn k * sum[N](x)", ["W0507"]),
    "a mean of classes": (LOGITS + "return -mean[C](sum[N](logits)) + 0 * mean[N](logits[target])", []),
    "scores that only order": ("loss t\ninput x[N, C], s[N, C]\nreturn x[argmax[C](s)]", ["W0508"]),
    "scores that also count": ("loss t\ninput s[N, C]\nreturn s[argmax[C](s)]", []),
    "an even power by a param": ("loss t\ninput x[N]\nparam p: int = 2\nreturn x^p", []),
}


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_warnings(name: str) -> None:
    text, expected = TEXTS[name]
    assert codes(text + "\n") == expected


@pytest.mark.parametrize("name", sorted(p.stem for p in STANDARD.glob("*.loss")))
def test_the_standard_pack_draws_no_warning(name: str) -> None:
    found = findings((STANDARD / f"{name}.loss").read_text(encoding="utf-8"))
    assert [d.message for d in found] == []


def test_a_comment_silences_one_code() -> None:
    text = "loss t\ninput x[N], y[N]\nreturn log(x)\n"
    assert codes(text) == ["W0505", "W0501"]
    assert codes(text + "# lossdsl: ignore W0501\n") == ["W0505"]
    assert codes(text + "# lossdsl: ignore W0501, W0505\n") == []


@pytest.mark.parametrize("fix", sorted({*FUNCTIONS.values(), *VALUES.values()}))
def test_what_a_habit_is_answered_with_exists(fix: str) -> None:
    known = {*SPECIAL, *prelude(), *registry().reductions, *registry().primitives}
    known |= {f.name for f in registry().losses.values()} | {"if", "in"}
    for code in re.findall(r"`([^`]*)`", fix):
        called = re.findall(r"([a-z_]\w*)(?:\[[^][]*\])?\(", code)
        assert set(called) <= known, code
