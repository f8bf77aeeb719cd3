"""Every record says what the others' rooms rely on."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import lossdsl.primitives
from lossdsl.check.types import Type
from lossdsl.derive.derive import derive
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Leaf
from lossdsl.primitives.kinds import result_kind
from lossdsl.primitives.record import Primitive
from lossdsl.primitives.scan import floor_of, load_primitives
from lossdsl.registry import base_registry

PRIMITIVES = load_primitives()
DIFFERENTIABLE = [name for name, record in PRIMITIVES.items() if record.partials is not None]


def test_a_file_holds_the_record_of_its_name() -> None:
    found = set()
    for module in pkgutil.iter_modules(lossdsl.primitives.__path__):
        record = getattr(importlib.import_module(f"lossdsl.primitives.{module.name}"), "RECORD", None)
        assert record is None or record.name == module.name
        found |= {record.name} if isinstance(record, Primitive) else set()
    assert found == set(PRIMITIVES)


@pytest.mark.parametrize("name", PRIMITIVES)
def test_the_fields_fit_together(name: str) -> None:
    record = PRIMITIVES[name]
    assert record.doc
    assert record.samples
    assert all(len(point) == record.arity for point in record.samples)
    assert len(record.domain) in (0, record.arity)
    for point in record.samples:
        assert all(x in domain for x, domain in zip(point, record.domain, strict=False))
    assert record.kind in ("real", "bool", "int", "same", "number")
    assert record.argument_kind in ("real", "bool", "int")
    assert record.commutative <= (record.arity == 2)


def test_the_floor_is_what_every_backend_spells() -> None:
    assert floor_of(PRIMITIVES) == {
        *("add", "sub", "mul", "div", "neg", "pow", "abs", "exp", "log", "sqrt", "sin", "cos", "atan", "erf", "lgamma"),
        *("floor", "round", "minimum", "maximum", "select"),
        *("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not"),
    }


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_differentiates_twice(name: str) -> None:
    """The set is closed under differentiation, but for the fourth derivative of lgamma."""
    b = Builder(base_registry(), name, (), ())
    kinds = ["bool" if name == "select" and i == 0 else "real" for i in range(PRIMITIVES[name].arity)]
    leaves = [
        b.leaf(Leaf(f"x{i}", (), Type(frozenset(), kind), "input", kind == "real")) for i, kind in enumerate(kinds)
    ]
    joint = derive(b.graph({"rows": b.node(name, leaves)}), base_registry())
    assert bool(joint.second_missing) == (name == "trigamma")


@pytest.mark.parametrize(
    ("name", "kinds", "expected"),
    [
        ("add", ("bool", "bool"), "int"),
        ("add", ("int", "real"), "real"),
        ("add", ("index C", "index C"), "int"),
        ("minimum", ("bool", "bool"), "bool"),
        ("select", ("bool", "index C", "index C"), "index C"),
        ("select", ("bool", "index C", "index D"), "int"),
        ("select", ("bool", "int", "real"), "real"),
        ("div", ("int", "int"), "real"),
        ("lt", ("real", "int"), "bool"),
        ("floor", ("real",), "int"),
    ],
)
def test_kinds(name: str, kinds: tuple[str, ...], expected: str) -> None:
    assert result_kind(PRIMITIVES[name], kinds) == expected
