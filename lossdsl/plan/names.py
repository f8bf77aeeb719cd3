"""Names of buffers: what a leaf, a seed or an output of the graph is called in a KernelProgram.

They are ASCII identifiers, so that every backend can print them; γ becomes gamma. What is no word of the target
language is the backend's own affair.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

from lossdsl.check.types import base_axis
from lossdsl.plan.kernel import KernelProgram


def ascii_name(name: str) -> str:
    """`name` with every letter outside ASCII spelled out: γ → gamma, π₁ → pi1, ж → zhe."""
    return "".join(c if c.isascii() else _spelled(c) for c in name)


def _spelled(char: str) -> str:
    plain = unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
    if plain.isalnum():
        return plain
    words = unicodedata.name(char, "").split()
    if "LETTER" in words and len(words) > words.index("LETTER") + 1:
        word = words[words.index("LETTER") + 1]
        if word.isascii() and word.isalpha():
            return word.lower() if char == char.lower() else word.capitalize()
    return f"u{ord(char):x}"


def buffer_name(name: str) -> str:
    """The buffer of a leaf or an output: `@rows` → seed_rows, `@ignore_index` → ignore_index, `grad.x` → grad_x."""
    if name in ("@rows", "@weight") or name.startswith("@grad."):
        name = "seed_" + name[1:]
    name = name.replace("@rows", "seed_rows").replace("@weight", "seed_weight")
    return re.sub(r"\W", "_", ascii_name(name.replace("@", "")), flags=re.ASCII)


def buffer_names(names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Distinct buffer names, in order: one that is taken, or that would be spelled alike, gets a number."""
    found: dict[str, str] = {}
    taken = set(taken)
    for name in names:
        found[name] = distinct(buffer_name(name), taken | set(found.values()))
    return found


def axis_name(axis: str) -> str:
    """An axis as part of an identifier: N → n, N' → n1."""
    base = base_axis(axis)
    copies = len(axis) - len(base)
    return ascii_name(base).lower() + (str(copies) if copies else "")


def free_axes(program: KernelProgram) -> tuple[str, ...]:
    """The axes whose size no argument shows: an emitted function takes it by the keyword `size_argument(axis)`."""
    shown = {base_axis(a) for b in program.buffers if b.role in ("in", "param") for a in b.axes}
    bases = dict.fromkeys(base_axis(a) for a in program.axes)
    return tuple(a for a in bases if a not in shown)


def size_argument(axis: str) -> str:
    """The keyword of an emitted function for the size of an axis: K → size_k."""
    return f"size_{axis_name(axis)}"


def axis_sizes(program: KernelProgram, names: Mapping[str, str]) -> dict[str, str]:
    """For each axis the Python text of its extent: of an argument's shape, else the keyword.

    `names` are what the function calls the buffers. An axis and its copies have one extent.
    """
    found: dict[str, str] = {}
    for b in program.buffers:
        if b.role in ("in", "param"):
            for d, axis in enumerate(b.axes):
                found.setdefault(axis, f"{names[b.name]}.shape[{d}]")
    shown = {base_axis(a): text for a, text in reversed(found.items())}
    for axis in program.axes:
        base = base_axis(axis)
        found.setdefault(axis, shown.get(base, size_argument(base)))
    return found


def distinct(base: str, taken: Iterable[str]) -> str:
    """`base`, or the first of base_1, base_2, … that is not taken."""
    taken = set(taken)
    name, count = base, 0
    while name in taken:
        count += 1
        name = f"{base}_{count}"
    return name
