"""What a reduction is: one record in one file of this folder.

A state is a tuple of values; the functions are written over a namespace as in `primitives/record.py`. `merge` is
associative, so that a plan may split a range over blocks, threads, chunks or ranks; a test checks the law for every
record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """One reduction over an axis.

    init     the state of nothing, a tuple of numbers (the neutral element of merge)
    update   (f, state, x) -> state with one more entry; of argmax, x is the pair (value, index)
    merge    (f, state, state) -> the state of both ranges; of argmax and ties it doesn't depend on their order
    finish   (f, state) -> the results (one value; for logsumexp (m, rest), for ties (max, number attaining it))
    empty    the value over nothing, as the language gives it
    adjoint  (f, x, result, cotangent, reduce) -> the cotangent of an entry x that is present; `f` is the builder's
             namespace, `x` the body, and `reduce(name, e)` reduces e over the same axes and mask (the number of ties)
    kind     of the value: "same", "real", "int", "bool", or "number" (real if the body is, else int)
    range    (interval of the body) -> interval of the value, over any number of entries, none included
    public   whether the language offers it by this name
    """

    name: str
    doc: str
    init: tuple[float, ...]
    update: Callable[..., tuple[Any, ...]]
    merge: Callable[..., tuple[Any, ...]]
    finish: Callable[..., tuple[Any, ...]]
    empty: float
    adjoint: Callable[..., Any] | None
    kind: str = "real"
    range: Callable[..., Any] | None = None
    public: bool = True
