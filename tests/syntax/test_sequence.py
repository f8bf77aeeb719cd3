"""The fewest statements are blamed for a wrong order."""

from __future__ import annotations

import pytest

from lossdsl.source.diagnostic import DiagnosticError
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse

STATEMENTS = {
    "d": '"""Doc."""', "c": 'cite "x"', "t": "tags a", "i": "input x[N]", "p": "param a = 1", "a": "y = x",
    "f": "def g(z) = z", "o": "output y", "r": "return x", "m": "claim loss >= 0", "e": "example x = [1] gives 1",
}  # fmt: skip

# The statements after the head, and the numbers of those that are blamed.
ORDERS = {
    "dctipafaormeme": "",
    "ira": "2",
    "iraaa": "1",
    "riaaa": "0",
    "aipr": "0",
    "iapr": "2",
    "iarmo": "4",
    "imara": "14",
    "idar": "1",
    "cdir": "1",
    "tcdir": "12",
    "miar": "0",
    "iroa": "23",
    "irme": "",
    "rr": "1",
    "irar": "23",
    "ddir": "1",
    "iiaiiiar": "2",
}


@pytest.mark.parametrize("order", ORDERS)
def test_blame(order: str) -> None:
    lines = ["loss l", *(STATEMENTS[letter] for letter in order)]
    source = Source("o.loss", "\n".join(lines) + "\n")
    if not ORDERS[order]:
        parse(source)
        return
    with pytest.raises(DiagnosticError) as caught:
        parse(source)
    found = caught.value.diagnostics
    assert {d.code for d in found} == {"E0114"}
    assert "".join(str(source.position(d.labels[0].span.start)[0] - 2) for d in found) == ORDERS[order]
