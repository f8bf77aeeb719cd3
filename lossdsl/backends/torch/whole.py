"""Operations that are more than pointwise: loads, picks, reductions, scatters, islands, and the form of outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lossdsl.backends.api import Buffer
from lossdsl.backends.torch import spell
from lossdsl.backends.torch.spell import ATOM, Text
from lossdsl.backends.torch.ssa import Flat, Op, Ref, Stored
from lossdsl.check.types import base_axis
from lossdsl.source.diagnostic import InternalError

if TYPE_CHECKING:
    from lossdsl.backends.torch.printer import Printer

_NEUTRAL = {"sum": "0", "count": "0", "prod": "1", "max": '-float("inf")', "min": 'float("inf")'}


def spelled(p: Printer, op: Op, number: int) -> list[Text]:
    """The results of an operation."""
    match op.what:
        case "load":
            return [_load(p, op)]
        case "pick":
            return [_pick(p, op)]
        case "reduce":
            return _reduce(p, op, number)
        case "scatter":
            return [_scatter(p, op)]
        case "root":
            return [_root(p, op)]
        case "island":
            from lossdsl.backends.torch import islands

            return [islands.spelled(p, op)]
    raise InternalError(f"the torch backend does not print {op.what} yet")


def as_tensor(p: Printer, x: Text, dtype: str) -> Text:
    """A Python number as a 0-d tensor."""
    kind = {"real": "dtype", "int": "torch.int64", "bool": "torch.bool"}[dtype]
    return p.constant(f"torch.full((), {x.text}, dtype={kind}, device={p.device})", dtype)


# --- reading --------------------------------------------------------------------------------------------------------


def _load(p: Printer, op: Op) -> Text:
    places = tuple(str(x) for x in op.attrs[0])  # type: ignore[union-attr]
    buffer = next(b for b in p.program.buffers if b.name == op.name)
    source = Text(p.arguments[op.name], dtype=buffer.dtype)
    return _gather(p, source, places, [p.settle(a) for a in op.args])


def _pick(p: Printer, op: Op) -> Text:
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


# --- reductions -----------------------------------------------------------------------------------------------------


def is_last(flat: Flat, op: Op) -> bool:
    """Whether a reduction runs over the one last axis of its operand."""
    operand = op.args[0]
    over = op.attrs[0]
    if not isinstance(operand, Ref) or not isinstance(over, tuple):
        return False
    return len(over) == 1 and flat.ops[operand.op].values[operand.result].axes[-1:] == over


def _reduce(p: Printer, op: Op, number: int) -> list[Text]:
    over = tuple(str(a) for a in op.attrs[0])  # type: ignore[union-attr]
    x = p.settle(op.args[0])
    mask = p.settle(op.args[1]) if op.masked else None
    if op.name == "count" and mask is not None:
        return [_summed(p, _spread(p, mask, over), over)]
    if op.name == "logsumexp":
        return _statistics(p, masked(p, x, mask, '-float("inf")'), over, number)
    if op.name == "ties":
        return _ties(p, x, mask, over, number)
    neutral = _NEUTRAL.get(op.name, '-float("inf")')
    x = _spread(p, masked(p, x, mask, neutral), over)
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


def _spread(p: Printer, x: Text, over: Sequence[str]) -> Text:
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
    x = _spread(p, x, over)
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
    if len(operand.text) + sum(len(n) for n in (*names, e)) + 30 > 88:
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
    x = _spread(p, masked(p, x, mask, '-float("inf")'), over)
    x = x if x.text.isidentifier() else p.named(x, "x")
    kept = tuple(a for a in x.axes if a not in over)
    m = Text(_extreme(p, "max", x, over, _dims(x, over)), axes=kept, dtype=x.dtype)
    m = p.named(m, p.wish(p.flat.ops[number], 0))
    attained = Text(f"{x.text} == {p.aligned(m, x.axes).text}", spell.COMPARE, x.axes, "bool")
    if mask is not None:
        shown = p.aligned(mask, x.axes)
        attained = Text(f"{shown.at(spell.AND)} & {attained.at(spell.AND + 1)}", spell.AND, x.axes, "bool")
    return [m, _summed(p, attained, over)]


def _scatter(p: Printer, op: Op) -> Text:
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
        x = _laid_out(p, x, flat_axes, expand=x is not index)
        texts.append(x.text)
    result = Text(f"_put({texts[0]}, {texts[1]}, {p.size(axis)})", axes=(*kept, axis))
    return permuted(p, result, (*kept, axis))


def _laid_out(p: Printer, x: Text, axes: Sequence[str], expand: bool) -> Text:
    """The operand with exactly these dimensions, in this order, all but the kept ones flattened into the last."""
    x = _spread(p, x, axes)
    if x.axes != tuple(axes):
        places = ", ".join(str(x.axes.index(a)) for a in axes)
        x = Text(f"{x.at(ATOM)}.permute({places})", axes=tuple(axes), dtype=x.dtype)
    return x


def _root(p: Printer, op: Op) -> Text:
    """A function of the unknown within the function, and its zero."""
    axes = op.values[0].axes
    start, end = (int(x) for x in op.attrs)  # type: ignore[arg-type]
    for i in range(start, end):
        for a in p.flat.ops[i].args:
            if isinstance(a, Ref) and not start <= a.op < end:
                p.settle(a)
    ends = []
    for a in op.args[:2]:
        end_ = p.settle(a)
        end_ = end_ if end_.tensor else as_tensor(p, end_, "real")
        end_ = end_ if end_.dtype == "real" else replace(end_, text=f"{end_.at(ATOM)}.to(dtype)", binds=ATOM)
        ends.append(_spread(p, end_, axes).text)
    p.comment(op.origin)
    name, unknown = p.names.new("f"), p.names.new(p.flat.ops[start].values[0].name)
    p.texts[Ref(start)] = Text(unknown, axes=p.flat.ops[start].values[0].axes)
    outside, p.lines = p.lines, []
    for i in range(start + 1, end):
        p.op(i)
    result = p.text(op.args[2])
    result = result if result.axes == axes else _spread(p, result, axes)
    inner, p.lines = p.lines, outside
    p.lines += ["", f"    def {name}({unknown}: Tensor) -> Tensor:"]
    p.lines += [f"    {line}" for line in [*inner, f"    return {result.text}"]]
    p.lines.append("")
    p.call("_root")
    return Text(f"_root({name}, {', '.join(ends)})", axes=axes)


# --- outputs --------------------------------------------------------------------------------------------------------


def as_output(p: Printer, s: Stored, value: Text, given: Buffer | None) -> str:
    """A name for the output, with the dimensions of its buffer in their order."""
    text = value
    if not text.tensor:
        text = as_tensor(p, text, s.buffer.dtype)
    target = "real" if s.buffer.dtype == "real" else s.buffer.dtype
    if target == "real" and text.dtype != "real":
        text = replace(text, text=f"{text.at(ATOM)}.to(dtype)", binds=ATOM, dtype="real")
    elif target == "int" and text.dtype == "real":
        text = replace(text, text=f"{text.at(ATOM)}.long()", binds=ATOM, dtype="int")
    missing = [a for a in s.index if a not in text.axes]
    axes = p.order(s.index)
    if missing:
        sizes = ", ".join(p.size(a) if a in missing else "-1" for a in axes)
        text = replace(text, text=f"{p.aligned(text, axes).at(ATOM)}.expand({sizes})", binds=ATOM, axes=axes)
    if axes != s.index:
        places = ", ".join(str(axes.index(a)) for a in s.index)
        text = replace(text, text=f"{text.at(ATOM)}.permute({places})", binds=ATOM)
    room = 88 - 8 - len(s.buffer.name) - len(".to()")
    if given is not None:
        if len(text.at(ATOM)) + len(p.converted[given.name].text) > room:
            text = p.named(text, s.buffer.name)
        text = replace(text, text=f"{text.at(ATOM)}.to({p.converted[given.name].text})", binds=ATOM)
    if text.text.isidentifier():
        return text.text
    origin = p.flat.ops[s.value.op].origin if isinstance(s.value, Ref) else None
    p.comment(origin)
    name = p.names.new(s.buffer.name)
    p.line(f"{name} = {text.text}")
    return name
