"""Every code has a record, every record of a malformed text an example that produces it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lossdsl
from lossdsl.source.codes import all_codes
from lossdsl.source.diagnostic import DiagnosticError
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse

SYNTAX = [code for code in all_codes() if code.startswith("E01")]
PACKAGE = Path(lossdsl.__file__).parent


@pytest.mark.parametrize("code", SYNTAX)
def test_example_produces_its_code_and_no_other(code: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        parse(Source("example.loss", all_codes()[code].example))
    assert {d.code for d in caught.value.diagnostics} - ({"E0132"} if code == "E0140" else set()) == {code}


@pytest.mark.parametrize("code", all_codes())
def test_record_is_whole(code: str) -> None:
    record = all_codes()[code]
    assert re.fullmatch(r"[EW]\d{4}", code)
    assert all(text.strip() for text in (record.title, record.reason, record.example, record.fix))
    assert not record.title.endswith(".")


def test_every_code_raised_by_the_syntax_has_a_record() -> None:
    raised = {
        code
        for path in (PACKAGE / "syntax").glob("*.py")
        for code in re.findall(r'"(E\d{4})"', path.read_text(encoding="utf-8"))
    }
    assert raised == set(SYNTAX)
