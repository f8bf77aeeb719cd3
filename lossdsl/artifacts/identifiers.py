"""The identifier table of a generated module: every name of a file that becomes one of Python goes through here."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Sequence

from lossdsl.plan.names import ascii_name, distinct
from lossdsl.source.python_names import reserved

_MODULE = """
    ACROSS Any COMPILED Compiled EQUATION InputSpec KernelSpec Loss ParamSpec SIGNATURE Signature TILING Tiling
    Tensor aux functional gradient gradient_params second second_params self super torch value
"""
MODULE = frozenset(_MODULE.split())
_WORDS = frozenset({*keyword.kwlist, *keyword.softkwlist, *dir(builtins)})


def identifier(name: str, taken: Iterable[str] = (), words: Iterable[str] = _WORDS) -> str:
    """`name` as an identifier: γ → gamma, lambda → lambda_; distinct from those taken."""
    base = re.sub(r"\W", "_", ascii_name(name), flags=re.ASCII).strip("_") or "x"
    if base[0].isdigit():
        base = f"x{base}"
    if base in words:
        base += "_"
    taken = frozenset(taken)
    if base in taken and f"{base}_" not in taken:
        return f"{base}_"
    return distinct(base, taken)


def arguments(inputs: Sequence[str], params: Sequence[str] = ()) -> dict[str, str]:
    """The identifiers of a loss's inputs and params, by their names in the file."""
    table: dict[str, str] = {}
    for name in (*inputs, *params):
        words = reserved(name not in inputs)
        table[name] = identifier(name, {*words, *table.values()}, ())
    return table


def class_name(name: str, taken: Iterable[str]) -> str:
    """The class of a loss: cross_entropy → CrossEntropy."""
    words = re.split(r"_+", identifier(name).strip("_"))
    joined = "".join(word[:1].upper() + word[1:] for word in words)
    return identifier(joined, taken)
