"""What `verify` accepts and refuses."""

from __future__ import annotations

import pytest

from lossdsl.plan.text import parse_kernel
from lossdsl.plan.verify import verify
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import InternalError
from tests.kernel.programs import NAMES, program, text

HEAD = "kernel k.value\naxes N, C\nin z[N, C]: real\nin y[N]: int\nout rows[N]: real\n"
ROWS = "store rows[N] = 0\n"


@pytest.mark.parametrize("name", NAMES)
def test_hand_written_programs_are_legal(name: str, registry: Registry) -> None:
    verify(program(name), registry)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "nothing is stored to rows"),
        (ROWS + ROWS, "rows is stored twice"),
        ("a = exp(b)\n" + ROWS, "b is not defined"),
        ("for C:\n  a[N, C] = load z[N, C]\nb[N, C] = exp(a)\n" + ROWS, "a is not visible here"),
        (
            "for C:\n  a[N, C] = load z[N, C]\n  s[N] = reduce sum over C (a)\n  b[N] = exp(s)\n" + ROWS,
            "s is not visible here",
        ),
        ("a[N] = load z[N, C]\n" + ROWS, "a is declared with [N] but varies along [N, C]"),
        ("a = exp(1)\na = exp(2)\n" + ROWS, "a is defined twice"),
        ("a = explode(1)\n" + ROWS, "no primitive is called explode"),
        ("a = exp(1, 2)\n" + ROWS, "exp takes 1 arguments"),
        ("a = eq(1, 2)\n" + ROWS, "a is declared real but is bool"),
        ("a[N]: int = load y[N]\nb[N] = load z[N, a]\nc[C] = load z[b, C]\n" + ROWS, "b is declared real but is int"),
        ("a[C] = load z[C, C]\n" + ROWS, "z is loaded at C where it has N"),
        ("for N:\n  for N:\n    a = exp(1)\n" + ROWS, "the loop over N stands in another over N"),
        ("for N:\n  for C:\n    store rows[N] = 1\n", "rows would be stored anew for every C"),
        ("a[N, C] = load z[N, C]\nstore rows[N] = a\n", "rows would be stored anew for every C"),
        ("a[N, C] = load z[N, C]\ns[N] = reduce most over C (a)\n" + ROWS, "no reduction is called most"),
        ("a[N] = load rows[N]\n" + ROWS, "rows is loaded before it is stored"),
        ("for C:\n  a[N, C] = load z[N, C]\n  b[N, C] = island cumsum[C](a)\n" + ROWS, "b works along C"),
        ("a[N, C] = load z[N, C]\nb[N, C] = island sorted[C](a)\n" + ROWS, "no island is called sorted"),
        ("a = exp(1)\n" + "x.y = exp(a)\n" + ROWS, "x.y is not an identifier"),
    ],
)
def test_illegal_programs(body: str, message: str, registry: Registry) -> None:
    with pytest.raises(InternalError) as error:
        verify(parse_kernel(HEAD + body), registry)
    assert message in str(error.value)


def test_a_reduction_over_an_outer_loop_is_an_array_after_it(registry: Registry) -> None:
    body = "for N:\n  for C:\n    a[N, C] = load z[N, C]\n    s[C] = reduce sum over N (a)\nb[C] = exp(s)\n" + ROWS
    verify(parse_kernel(HEAD + body), registry)


def test_scratch_of_another_turn_is_not_there_yet(registry: Registry) -> None:
    p = text("batch_hard_gradient").replace("far_n[N] = load stat.far[N]", "far_n[N] = load stat.far[N]")
    verify(parse_kernel(p), registry)
    lines = HEAD.replace("axes N, C", "axes N, N', C") + "scratch s[N]: real\n"
    body = "for N:\n  store s[N] = 1\n  for N':\n    b[N'] = load s[N']\n" + ROWS
    with pytest.raises(InternalError, match="at another N than this turn"):
        verify(parse_kernel(lines + body), registry)
