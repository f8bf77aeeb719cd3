"""Reductions over axes of whole arrays, and their adjoint, the scatter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lossdsl.backends.flat import Op, Ref
from lossdsl.backends.torch import spell
from lossdsl.backends.torch.lines import WIDTH
from lossdsl.backends.torch.pointwise import as_tensor
from lossdsl.backends.torch.reading import permuted
from lossdsl.backends.torch.spell import ATOM, Text
from lossdsl.check.types import base_axis
from lossdsl.source.diagnostic import InternalError

if TYPE_CHECKING:
    from lossdsl.backends.torch.printer import Printer

_NEUTRAL = {"sum": "0", "count": "0", "prod": "1", "max": '-float("inf")', "min": 'float("inf")'}


def reduce(p: Printer, op: Op, number: int) -> list[Text]:
    over = tuple(str(a) for a in op.attrs[0])  # type: ignore[union-attr]
    x = p.settle(op.args[0])
    mask = p.settle(op.args[1]) if op.masked else None
    if op.name == "count" and mask is not None:
        return [_summed(p, spread(p, mask, over), over)]
    if op.name == "logsumexp":
        return _statistics(p, masked(p, x, mask, '-float("inf")'), over, number)
    if op.name == "ties":
        return _ties(p, x, mask, over, number)
    neutral = _NEUTRAL.get(op.name, '-float("inf")')
    x = spread(p, masked(p, x, mask, neutral), over)
    if op.name == "argmax" and x.dtype == "bool":  # of which torch has none
        x = replace(x, text=f"{x.at(ATOM)}.long()", binds=ATOM, dtype="int")
    dims = _dims(x, over)
    kept = tuple(a for a in x.axes if a not in over)
    match op.name:
        case "sum" | "count":
            return [_summed(p, x, over)]
        case "prod":
            text = x.at(ATOM)
            for d in sorted(dims, reverse=True):
                text += f".prod({d})"
            return [Text(text, axes=kept, dtype="real" if x.dtype == "real" else "int")]
        case "max" | "min":
            return [Text(_extreme(p, op.name, x, over, dims), axes=kept, dtype=x.dtype)]
        case "argmax" if _over_batch(p, over):
            p.call("_argmax")
            return [Text(f"_argmax({x.text}, {dims[0]})", axes=kept, dtype="int")]
        case "argmax":
            return [Text(f"{x.at(ATOM)}.argmax({dims[0]})", axes=kept, dtype="int")]
    raise InternalError(f"the torch backend does not print the reduction {op.name} yet")


def _dims(x: Text, over: Sequence[str]) -> list[int]:
    """The dimensions of some axes, the last one as -1."""
    places = [x.axes.index(a) for a in over]
    return [i - len(x.axes) if i == len(x.axes) - 1 else i for i in places]


def _dim_text(dims: Sequence[int]) -> str:
    return str(dims[0]) if len(dims) == 1 else f"({', '.join(map(str, dims))})"


def _summed(p: Printer, x: Text, over: Sequence[str]) -> Text:
    dims = _dim_text(_dims(x, over))
    kept = tuple(a for a in x.axes if a not in over)
    if x.dtype != "real":
        return Text(f"{x.at(ATOM)}.sum({dims})", axes=kept, dtype="int")
    p.call("_sum")
    return Text(f"_sum({x.text}, {dims})", axes=kept)


def _over_batch(p: Printer, over: Sequence[str]) -> bool:
    """Whether one of the axes may be empty."""
    return any(base_axis(a) == base_axis(p.program.axes[0]) for a in over)


def _extreme(p: Printer, name: str, x: Text, over: Sequence[str], dims: Sequence[int]) -> str:
    """amax or amin; over the batch, which may be empty, by the helper."""
    if not _over_batch(p, over):
        return f"{x.at(ATOM)}.a{name}({_dim_text(dims)})"
    p.call(f"_a{name}")
    text = x.text
    for d in sorted([d % len(x.axes) for d in dims], reverse=True):
        text = f"_a{name}({text}, {d})"
    return text


def masked(p: Printer, x: Text, mask: Text | None, neutral: str) -> Text:
    """The operand with a reduction's neutral element where the mask does not hold."""
    if mask is None:
        return x
    axes = p.order({*x.axes, *mask.axes})
    a, c = p.aligned(x, axes), p.aligned(mask, axes)
    dtype = "int" if x.dtype == "bool" else x.dtype
    if "inf" in neutral and dtype == "int":
        a = replace(a, text=f"{a.at(ATOM)}.to(dtype)", binds=ATOM)
        dtype = "real"
    if not a.tensor and dtype == "real":
        a = as_tensor(p, a, "real")
    return Text(f"torch.where({c.text}, {a.text}, {neutral})", axes=axes, dtype=dtype)


def spread(p: Printer, x: Text, over: Sequence[str]) -> Text:
    """The operand with every axis that is reduced: one that it lacks counts all the same."""
    missing = [a for a in over if a not in x.axes]
    if not missing:
        return x
    axes = p.order({*x.axes, *missing})
    x = x if x.tensor else as_tensor(p, x, x.dtype)
    sizes = ", ".join(p.size(a) if a in missing else "-1" for a in axes)
    return Text(f"{p.aligned(x, axes).at(ATOM)}.expand({sizes})", axes=axes, dtype=x.dtype)


def _statistics(p: Printer, x: Text, over: Sequence[str], number: int) -> list[Text]:
    """m and rest of a log-sum-exp, and exp(z - m) where the program wants it too."""
    p.call("_softmax_parts")
    x = spread(p, x, over)
    x = x if x.dtype == "real" else replace(x, text=f"{x.at(ATOM)}.to(dtype)", binds=ATOM, dtype="real")
    kept = tuple(a for a in x.axes if a not in over)
    shared = p.shares.get(number)
    op = p.flat.ops[number]
    p.comment(op.origin)
    names = [p.names.new(p.wish(op, i)) if p.uses.get(Ref(number, i)) else "_" for i, v in enumerate(op.values)]
    e = "_"
    if shared is not None:
        e = p.names.new(p.wish(p.flat.ops[shared], 0))
        p.texts[Ref(shared)] = Text(e, axes=p.flat.ops[shared].values[0].axes)
    operand = _rows_last(p, x, over)
    if len(operand.text) + sum(len(n) for n in (*names, e)) + 30 > WIDTH:
        operand = p.named(operand, "z")
    p.line(f"{names[0]}, {names[1]}, {e} = _softmax_parts({operand.text})")
    return [Text(n, axes=kept) for n in names]


def _rows_last(p: Printer, x: Text, over: Sequence[str]) -> Text:
    """The reduced dimensions as one, the last."""
    places = [x.axes.index(a) for a in over]
    count = len(places)
    if places != [len(x.axes) - 1] and not x.text.isidentifier():
        x = p.named(x, "z")
    text = x.at(ATOM)
    if sorted(places) != list(range(len(x.axes) - count, len(x.axes))):
        last = ", ".join(str(i) for i in range(-count, 0))
        text += f".movedim({places[0]}, -1)" if count == 1 else f".movedim(({', '.join(map(str, places))}), ({last}))"
    elif count == 1:
        return x
    if count > 1:
        text += f".flatten(-{count})"
    return replace(x, text=text, binds=ATOM)


def _ties(p: Printer, x: Text, mask: Text | None, over: Sequence[str], number: int) -> list[Text]:
    """The maximum, and how many of the entries attain it."""
    x = spread(p, masked(p, x, mask, '-float("inf")'), over)
    x = x if x.text.isidentifier() else p.named(x, "x")
    kept = tuple(a for a in x.axes if a not in over)
    m = Text(_extreme(p, "max", x, over, _dims(x, over)), axes=kept, dtype=x.dtype)
    m = p.named(m, p.wish(p.flat.ops[number], 0))
    attained = Text(f"{x.text} == {p.aligned(m, x.axes).text}", spell.COMPARE, x.axes, "bool")
    if mask is not None:
        shown = p.aligned(mask, x.axes)
        attained = Text(f"{shown.at(spell.AND)} & {attained.at(spell.AND + 1)}", spell.AND, x.axes, "bool")
    return [m, _summed(p, attained, over)]


def scatter(p: Printer, op: Op) -> Text:
    """The values added up by index: the result's last dimension is the scattered axis, moved to its place."""
    axis = str(op.attrs[0])
    over = tuple(str(a) for a in op.attrs[1])  # type: ignore[union-attr]
    arg, index = (p.settle(a) for a in op.args)
    kept = tuple(a for a in op.values[0].axes if a != axis)
    if not over:
        axes = p.order({*kept, axis})
        test = f"{p.aligned(p.index(axis), axes).text} == {p.aligned(index, axes).text}"
        value = p.aligned(arg, axes)
        value = value if value.tensor else as_tensor(p, value, "real")
        return Text(f"torch.where({test}, {value.text}, 0)", axes=axes)
    p.call("_put")
    flat_axes = (*kept, *over)
    texts = []
    for x in (index, arg):
        x = x if x.tensor else as_tensor(p, x, "real")
        x = _laid_out(p, x, flat_axes)
        texts.append(x.text if len(over) == 1 else f"{x.at(ATOM)}.flatten(-{len(over)})")
    result = Text(f"_put({texts[0]}, {texts[1]}, {p.size(axis)})", axes=(*kept, axis))
    return permuted(p, result, (*kept, axis))


def _laid_out(p: Printer, x: Text, axes: Sequence[str]) -> Text:
    """The operand with exactly these dimensions, in this order."""
    x = spread(p, x, axes)
    if x.axes != tuple(axes):
        places = ", ".join(str(x.axes.index(a)) for a in axes)
        x = Text(f"{x.at(ATOM)}.permute({places})", axes=tuple(axes), dtype=x.dtype)
    return x
