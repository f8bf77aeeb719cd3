"""The identifier table: every name in generated code comes from here.

Names of a file reach it as buffer names in ASCII; they never become words of Python, of torch, or of the helpers, and
no two things have one name.
"""

from __future__ import annotations

import builtins
import keyword

_RESERVED = frozenset(
    {
        *keyword.kwlist,
        *keyword.softkwlist,
        *dir(builtins),
        *("torch", "Tensor", "math", "inf", "nan", "dtype", "device", "value", "gradient", "second", "both"),
    }
)


class Identifiers:
    """Gives distinct identifiers within one function."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}  # the last number given to a name

    def new(self, wish: str) -> str:
        """`wish` made an identifier that is free: `lambda` → lambda_, a second `m` → m_1."""
        base = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in wish)[:_LONGEST]
        base = base.strip("_") or "x"
        if base[0].isdigit():
            base = f"x{base}"
        if base in _RESERVED:
            base += "_"
        name = base
        while name in self._taken:
            self._counts[base] = self._counts.get(base, 0) + 1
            name = f"{base.rstrip('_')}_{self._counts[base]}"
        self._taken.add(name)
        return name


_LONGEST = 24  # characters of a name, so that every operation fits a line
