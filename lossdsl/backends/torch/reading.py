"""Reading: loads of arguments and picks of values, by axes and by indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lossdsl.backends.flat import Op
from lossdsl.backends.torch.spell import ATOM, Text

if TYPE_CHECKING:
    from lossdsl.backends.torch.printer import Printer


def load(p: Printer, op: Op) -> Text:
    places = tuple(str(x) for x in op.attrs[0])  # type: ignore[union-attr]
    buffer = next(b for b in p.program.buffers if b.name == op.name)
    source = Text(p.arguments[op.name], dtype=buffer.dtype)
    return _gather(p, source, places, [p.settle(a) for a in op.args])


def pick(p: Printer, op: Op) -> Text:
    source = p.settle(op.args[0])
    axes, picked = op.attrs
    names = dict(zip(axes, picked, strict=True))  # type: ignore[arg-type]
    indices = iter([p.settle(a) for a in op.args[1:]])
    found = {str(a): next(indices) for a in axes if names[a] == ""}  # type: ignore[union-attr]
    places = tuple(str(names.get(a, a)) for a in source.axes)
    return _gather(p, source, places, [found[a] for a in source.axes if a in found])


def _gather(p: Printer, source: Text, places: Sequence[str], indices: Sequence[Text]) -> Text:
    """The source with dimension i at places[i]: an axis, or "" for the next of the indices."""
    named = [a for a in places if a]
    if not indices:
        return _diagonals(p, source, places) if len(set(named)) < len(named) else permuted(p, source, places)
    axes = p.order({*named, *(a for i in indices for a in i.axes)})
    if len(places) == 1:
        return Text(f"{source.at(ATOM)}[{_index(indices[0])}]", axes=indices[0].axes, dtype=source.dtype)
    rows = tuple(places[:-1])
    if len(indices) == 1 and places[-1] == "" and indices[0].axes == rows and rows == p.order(rows):
        p.call("_pick")
        return Text(f"_pick({source.text}, {_index(indices[0])})", axes=rows, dtype=source.dtype)
    given = iter(indices)
    parts = []
    for place in places:
        part = p.index(place) if place else next(given)
        if part.dtype == "real":
            part = replace(part, text=_index(part), binds=ATOM)
        parts.append(p.aligned(part, axes).text)
    return Text(f"{source.at(ATOM)}[{', '.join(parts)}]", axes=axes, dtype=source.dtype)


def _index(x: Text, level: int = 0) -> str:
    """An index as int64: whole numbers may be stored as reals."""
    return f"{x.at(ATOM)}.long()" if x.dtype != "int" else x.at(level)


def permuted(p: Printer, source: Text, axes: Sequence[str]) -> Text:
    """The source, whose dimensions are `axes`, with them in the program's order."""
    order = p.order(axes)
    if order == tuple(axes):
        return replace(source, axes=order)
    if len(order) == 2:
        return Text(f"{source.at(ATOM)}.mT", axes=order, dtype=source.dtype)
    places = ", ".join(str(list(axes).index(a)) for a in order)
    return Text(f"{source.at(ATOM)}.permute({places})", axes=order, dtype=source.dtype)


def _diagonals(p: Printer, source: Text, places: Sequence[str]) -> Text:
    """Dimensions that share an axis become one: the diagonal."""
    places = list(places)
    text = source.at(ATOM)
    while len(set(places)) < len(places):
        twice = next(a for a in places if places.count(a) > 1)
        i = places.index(twice)
        j = places.index(twice, i + 1)
        text = f"{text}.diagonal(0, {i}, {j})"
        places = [a for n, a in enumerate(places) if n not in (i, j)] + [twice]
    return permuted(p, Text(text, dtype=source.dtype), places)
