"""Every diagnostic code, explained: one record each, one file a room, found by scanning this folder.

To add a code, add a record to `CODES` of the room's file. `lossdsl explain E0203` shows it; its example is a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from lossdsl.source.codes.record import ErrorCode

__all__ = ["ErrorCode", "all_codes"]


def all_codes() -> Mapping[str, ErrorCode]:
    """The records of every file of this folder by code, in order. A code that is used twice is an error."""
    found: dict[str, ErrorCode] = {}
    for module in sorted(m.name for m in iter_modules(__path__) if m.name != "record"):
        for code in import_module(f"{__name__}.{module}").CODES:
            if code.code in found:
                raise ValueError(f"diagnostic code {code.code} is recorded twice")
            found[code.code] = code
    return dict(sorted(found.items()))
