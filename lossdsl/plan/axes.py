"""The axes that an attribute of a node names."""

from __future__ import annotations

from lossdsl.ir.graph import Attr
from lossdsl.source.diagnostic import InternalError


def axes_of(attr: Attr) -> tuple[str, ...]:
    if isinstance(attr, tuple):
        return attr
    if isinstance(attr, str):
        return (attr,)
    raise InternalError(f"{attr!r} should name axes")
