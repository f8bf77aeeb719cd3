"""What may be overwritten: nothing that is read in a later turn, or later in the same one."""

from __future__ import annotations

import pytest

from lossdsl.plan.overwrite import overwritable
from lossdsl.plan.text import parse_kernel

HEAD = """kernel k.both
axes N, C
in x[N, C]: real
in y[N]: int
out grad_x[N, C]: real
"""
RIGHT = {
    "before, in the same turn": """for N:
  for C:
    a[N, C] = load x[N, C]
    store grad_x[N, C] = a
""",
    "an earlier sweep": """for N:
  for C:
    a[N, C] = load x[N, C]
    s[N] = reduce sum over C (a)
  for C:
    store grad_x[N, C] = s
""",
    "a pick before the sweep": """for N:
  t[N]: int = load y[N]
  a[N] = load x[N, t]
  for C:
    store grad_x[N, C] = a
""",
    "an earlier loop over the rows": """for N:
  for C:
    a[N, C] = load x[N, C]
    s = reduce sum over N, C (a)
for N:
  for C:
    store grad_x[N, C] = s
""",
}
WRONG = {
    "a pick in the sweep": """for N:
  t[N]: int = load y[N]
  for C:
    a[N] = load x[N, t]
    store grad_x[N, C] = a
""",
    "a later sweep": """for N:
  for C:
    store grad_x[N, C] = 0
  for C:
    a[N, C] = load x[N, C]
    s[N] = reduce sum over C (a)
""",
    "another row": """for N:
  t[N]: int = load y[N]
  for C:
    a[N, C] = load x[t, C]
    store grad_x[N, C] = a
""",
    "a later loop over the rows": """for N:
  for C:
    store grad_x[N, C] = 0
for N:
  for C:
    a[N, C] = load x[N, C]
    s = reduce sum over N, C (a)
""",
    "a whole array": """a[N, C] = load x[N, C]
for N:
  for C:
    store grad_x[N, C] = a
""",
    "no loop": """a[N, C] = load x[N, C]
store grad_x[N, C] = a
""",
}
# In a deeper nest a printer may compute what stands before an inner loop anew for each of its turns.
DEEPER = """kernel k.both
axes N, M, C
in x[N, M, C]: real
in y[N]: int
out grad_x[N, M, C]: real
for N:
  t[N]: int = load y[N]
  for C:
    a[N, C] = load x[N, PLACE, C]
    s[N] = reduce sum over C (a)
  for M:
    for C:
      store grad_x[N, M, C] = s
"""


@pytest.mark.parametrize("case", [*RIGHT, *WRONG])
def test_reads_come_first(case: str) -> None:
    program = parse_kernel(HEAD + {**RIGHT, **WRONG}[case])
    assert overwritable(program) == ({"grad_x": "x"} if case in RIGHT else {})


def test_outer_loops_keep_their_own() -> None:
    assert overwritable(parse_kernel(DEEPER.replace("PLACE", "t"))) == {}


def test_of_two_alike_the_name_says_which() -> None:
    text = "kernel k.both\naxes N\nin x[N]: real\nin z[N]: real\nout NAME[N]: real\nfor N:\n  store NAME[N] = 0\n"
    assert overwritable(parse_kernel(text.replace("NAME", "grad_z"))) == {"grad_z": "z"}
    assert overwritable(parse_kernel(text.replace("NAME", "rows"))) == {}
