"""Did you mean …?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches

SEVERAL = 8  # names that are near, of which the likeliest is chosen


def closest(name: str, known: Iterable[str], fits: Callable[[str], bool] | None = None) -> str | None:
    """The known name that `name` is most likely a slip of, or None if none is near.

    Names that differ in case or underscores alone come first, then in a `loss` before or behind, then by edit distance,
    those that fit before others, then those whose beginning it is.
    """
    candidates = list(dict.fromkeys(known))
    for alike in (_plain, _core):
        for candidate in candidates:
            if candidate != name and alike(candidate) == alike(name) != "":
                return candidate
    spelt = {c: c for c in candidates if c != name}
    if "los" in name:  # mse_los is a slip of mse_loss, which is mse
        spelt = {f"{c}_loss": c for c in spelt} | spelt
    near = get_close_matches(name, spelt, SEVERAL, 0.67)
    if near:
        fitting = [c for c in near if fits is None or fits(spelt[c])] if len(near) > 1 else near
        return spelt[min(fitting or near, key=lambda c: edits(name, c))]  # of equals the most similar as a whole
    longer = [c for c in candidates if len(name) >= 3 and c.startswith(name)]
    return min(longer, key=len) if longer else None


def _plain(name: str) -> str:
    return name.replace("_", "").casefold()


def _core(name: str) -> str:
    return _plain(name).removeprefix("loss").removesuffix("loss")


def edits(a: str, b: str) -> int:
    """How many letters are put in, left out, replaced, or swapped with the next (Damerau and Levenshtein)."""
    rows = [list(range(len(b) + 1))]
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            row.append(min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (x != y)))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                row[-1] = min(row[-1], rows[-2][j - 2] + 1)
        rows.append(row)
    return rows[-1][-1]
