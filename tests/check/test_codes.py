"""Each code's example produces it; a wrong file gives all its mistakes, each once."""

from __future__ import annotations

from inspect import getfile
from pathlib import Path

import pytest

from lossdsl.check.terms import Terms
from lossdsl.source.codes import all_codes
from tests.check.helpers import codes, findings

OURS = {c: r for c, r in all_codes().items() if c[1:3] in ("02", "03", "04") or c.startswith("W05")}


@pytest.mark.parametrize("code", sorted(OURS))
def test_the_example_of_a_code_produces_it(code: str) -> None:
    record = OURS[code]
    found = findings(record.example)
    assert code in {d.code for d in found}
    assert all(d.severity == ("warning" if code.startswith("W") else "error") for d in found)
    for d in found:
        for label in d.labels:
            assert 0 <= label.span.start < label.span.end <= len(record.example)


def test_every_code_that_the_checker_uses_is_recorded() -> None:
    folder = Path(getfile(Terms)).parent
    text = "".join(p.read_text() for p in folder.glob("*.py"))
    used = {c for c in (text[i + 1 : i + 6] for i in range(len(text)) if text[i] == '"') if _is_code(c)}
    assert used == set(OURS)


def _is_code(text: str) -> bool:
    return len(text) == 5 and text[0] in "EW" and text[1:].isdigit()


def test_all_mistakes_of_a_file_in_one_run_and_none_that_follow_from_another() -> None:
    text = (
        "loss wrong\n"
        "input logits[N, C]\n"
        "input target[N]: index C\n"
        "param t = 2 in (0, 1)\n"
        "a = softmax(logit) + mse_loss(logits, 0)\n"
        "b = a[target] * sum[K](a)\n"
        "c = if logits then b else 0\n"
        "return c + a * b + clampp(c, 0, 1)\n"
    )
    assert codes(text) == ["E0405", "E0201", "E0208", "E0203", "E0401", "E0202"]
