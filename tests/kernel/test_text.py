"""The text form of KernelPrograms: parsing undoes printing, and bad text is told by its line."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lossdsl.plan.kernel import (
    Buffer,
    Island,
    KernelProgram,
    Let,
    Load,
    Loop,
    Pick,
    Reduce,
    Scatter,
    Stmt,
    Store,
    Value,
)
from lossdsl.plan.text import KernelTextError, parse_kernel, print_kernel
from tests.kernel.programs import NAMES, program, text

names = st.sampled_from(["a", "x1", "m", "at_y", "γ", "loads", "guarded", "_", "e5", "infer"])
axes = st.lists(st.sampled_from(["N", "C", "N'", "D", "K''"]), max_size=3, unique=True).map(tuple)
some_axes = axes.filter(bool)
constants = st.one_of(st.fractions(), st.floats(allow_nan=False), st.booleans())
operands = st.one_of(names, constants)
dtypes = st.sampled_from(["real", "int", "bool"])
values = st.builds(Value, names, axes, dtypes)
buffer_names = st.one_of(names, names.map(lambda n: f"grad.{n}"), names.map(lambda n: f"@{n}"))
attrs = st.lists(st.one_of(names, st.integers(-5, 5), st.booleans(), some_axes), max_size=3).map(tuple)
arguments = st.lists(operands, min_size=1, max_size=3).map(tuple)
simple: st.SearchStrategy[Stmt] = st.one_of(
    st.builds(Let, values, names, arguments, attrs),
    st.builds(Load, values, buffer_names, st.lists(st.one_of(names, st.just("N'")), max_size=3).map(tuple)),
    st.builds(
        Reduce,
        st.lists(values, min_size=1, max_size=2).map(tuple),
        names,
        some_axes,
        arguments,
        st.one_of(st.none(), operands),
    ),
    st.builds(Scatter, values, st.just("C"), some_axes, operands, names),
    st.builds(lambda v, s, a, n: Pick(v, s, a, (n,) * len(a)), values, names, some_axes, names),
    st.builds(Store, buffer_names, some_axes, operands, st.one_of(st.none(), operands), st.fractions()),
    st.builds(Island, st.lists(values, min_size=1, max_size=2).map(tuple), names, arguments, attrs),
)


def _blocks(inner: st.SearchStrategy[Stmt]) -> st.SearchStrategy[Stmt]:
    body = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Loop, st.sampled_from(["N", "C'"]), body),
        st.builds(Loop, st.sampled_from(["N", "C'"]), body, st.lists(simple, max_size=2).map(tuple), names),
        st.builds(lambda v, a, b, u: Island((v,), "root", a, (0,), b, (u,)), values, arguments, body, values),
    )


statements = st.recursive(simple, _blocks, max_leaves=6)
programs = st.builds(
    KernelProgram,
    st.sampled_from(["focal.value", "x.gradient"]),
    axes,
    st.lists(
        st.builds(Buffer, buffer_names, axes, dtypes, st.sampled_from(["in", "param", "out", "scratch"])), max_size=3
    ).map(tuple),
    st.lists(statements, max_size=4).map(tuple),
)


@pytest.mark.parametrize("name", NAMES)
def test_hand_written_programs_survive(name: str) -> None:
    p = program(name)
    assert parse_kernel(print_kernel(p)) == p


@pytest.mark.parametrize("name", NAMES)
def test_hand_written_programs_are_in_the_printers_form(name: str) -> None:
    lines = [line for line in text(name).splitlines() if not line.startswith("#")]
    assert print_kernel(program(name)).splitlines() == lines


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs)
def test_parsing_undoes_printing(p: KernelProgram) -> None:
    again = parse_kernel(print_kernel(p))
    assert again == p
    assert repr(again) == repr(p)  # 1, 1.0 and true are equal, but not the same


def test_constants_keep_what_they_are() -> None:
    text = "kernel k.value\naxes\nout rows: real\na = add(1/2, 0.5)\nb: bool = eq(true, 1)\n"
    text += "store rows = a where b else -inf\n"
    p = parse_kernel(text)
    assert p.body[0] == Let(Value("a", ()), "add", (Fraction(1, 2), 0.5))
    assert isinstance(p.body[0], Let)
    assert [type(x) for x in p.body[0].args] == [Fraction, float]
    assert print_kernel(p) == text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a = add(1", "line 3: expected ), found the end of the line"),
        ("a[N = add(1)", "line 3: expected ], found ="),
        ("a = add(1) b", "line 3: expected the end of the line, found b"),
        ("for N", "line 3: expected :, found the end of the line"),
        ("  a = add(1)", "line 3: unexpected indent"),
        ("a, b = load x", "line 3: this statement defines one value"),
        ("a = add(1 ? 2)", "line 3: cannot read '? 2)'"),
        ("store x = 1 where a else b", "line 3: expected a constant after else, found b"),
    ],
)
def test_malformed_text_is_told_by_its_line(line: str, message: str) -> None:
    with pytest.raises(KernelTextError) as error:
        parse_kernel(f"kernel k.value\naxes N\n{line}\n")
    assert str(error.value) == message
