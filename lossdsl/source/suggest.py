"""Did you mean …?"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` is most likely a slip of, or None if none is near.

    Names that differ in case or underscores alone come first, then those whose beginning it is, then by edit distance.
    """
    candidates = list(dict.fromkeys(known))
    plain = name.replace("_", "").casefold()
    for candidate in candidates:
        if candidate != name and candidate.replace("_", "").casefold() == plain:
            return candidate
    near = get_close_matches(name, [c for c in candidates if c != name], 1, 0.67)
    if near:
        return near[0]
    longer = [c for c in candidates if len(name) >= 3 and c.startswith(name)]
    return min(longer, key=len) if longer else None
