"""The built-in reductions, found by looking into this folder: a file with a RECORD is a reduction of that name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import lossdsl.reductions as folder
from lossdsl.reductions.record import Reduction


@cache
def load_reductions() -> Mapping[str, Reduction]:
    """Every built-in reduction by its name, in alphabetical order."""
    found: dict[str, Reduction] = {}
    for module in pkgutil.iter_modules(folder.__path__):
        record = getattr(importlib.import_module(f"{folder.__name__}.{module.name}"), "RECORD", None)
        if isinstance(record, Reduction):
            found[record.name] = record
    return MappingProxyType(found)
