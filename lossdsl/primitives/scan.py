"""The built-in primitives, found by looking into this folder: a file with a RECORD is a primitive of that name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

import lossdsl.primitives as folder
from lossdsl.primitives.record import Primitive
from lossdsl.primitives.table import TABLE


@cache
def declared_primitives() -> Mapping[str, Primitive]:
    """Every built-in record as its file says it, in alphabetical order."""
    found: dict[str, Primitive] = {}
    for module in pkgutil.iter_modules(folder.__path__):
        record = getattr(importlib.import_module(f"{folder.__name__}.{module.name}"), "RECORD", None)
        if isinstance(record, Primitive):
            found[record.name] = record
    return MappingProxyType(found)


@cache
def load_primitives() -> Mapping[str, Primitive]:
    """Every built-in primitive by its name, in alphabetical order.

    Where a record leaves its partial derivatives to sympy they are filled in from the generated table; those that have
    no derivative (comparisons, floor) keep None.
    """
    return MappingProxyType({name: with_table(record) for name, record in declared_primitives().items()})


def with_table(record: Primitive) -> Primitive:
    """The record with its derivatives filled in from the generated table, if they are there."""
    if record.partials is None and record.name in TABLE:
        return replace(record, partials=TABLE[record.name])
    return record


def floor_of(primitives: Mapping[str, Primitive]) -> frozenset[str]:
    """The names that every backend must spell itself: those without an expansion."""
    return frozenset(name for name, record in primitives.items() if record.expand is None)
