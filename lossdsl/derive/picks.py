"""Adjoints of reading: a pick scatters its cotangent back to where it read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lossdsl.derive.reverse import Tape


def pick_adjoint(tape: Tape, n: int, parts: list[int]) -> None:
    """Entry a of e receives the cotangents of all places that read it.

    The cotangent's axes that e knows nothing of are summed over. A renaming moves the cotangent back without a sum;
    an index whose axes e keeps anyway reads once, which is a put (a selection); any other is a `scatter`, since
    indices may repeat.
    """
    b = tape.builder
    node = b[n]
    source, *indices = node.args
    axes = node.attrs[0]
    assert isinstance(axes, tuple)
    ct = parts[0]
    for part in parts[1:]:
        ct = b.node("add", [ct, part])
    kept = b.type(source).axes - set(axes)
    # Axes of the result that e also has, but at another place, step aside first: s[N -> N', N' -> N].
    clash = {a: b.index(b.fresh_axis(a)) for a in axes if a in node.type.axes}
    ct = b.pick(ct, clash)
    result_axes = (node.type.axes - set(clash)) | {str(b[i].attrs[0]) for i in clash.values()}
    pending = [(a, b.pick(i, clash)) for a, i in zip(axes, indices, strict=True)]
    summed = result_axes - kept
    puts: list[tuple[str, int]] = []
    for axis, index in pending:
        name = str(b[index].attrs[0]) if b[index].op == "index" else ""
        if name in summed:
            back = {name: b.index(axis)}
            ct = b.pick(ct, back)
            puts = [(a, b.pick(i, back)) for a, i in puts]
            pending = [(a, b.pick(i, back) if a != axis else i) for a, i in pending]
            summed = summed - {name}
        else:
            puts.append((axis, index))
    puts = [(a, dict(pending)[a]) for a, _ in puts]
    for axis in (a for a in b.axes if a in summed - b.type(ct).axes and not any(a in b.type(i).axes for _, i in puts)):
        ct = b.node("mul", [b.size(axis), ct])
        summed = summed - {axis}
    over = tuple(a for a in b.axes if a in summed)
    if not over:
        for axis, index in puts:
            ct = b.node("select", [b.node("eq", [b.index(axis), index]), ct, b.const(0)])
    elif len(puts) == 1:
        ct = b.node("scatter", [ct, puts[0][1]], (puts[0][0], over))
    else:
        hit = b.const(True)
        for axis, index in puts:
            hit = b.node("and", [hit, b.node("eq", [b.index(axis), index])])
        ct = b.reduce("sum", over, b.node("select", [hit, ct, b.const(0)]))
    tape.give(source, ct)


def scatter_adjoint(tape: Tape, n: int, parts: list[int]) -> None:
    """The adjoint of a scatter is the pick at the same places."""
    b = tape.builder
    node = b[n]
    axis, over = str(node.attrs[0]), node.attrs[1]
    ct = parts[0]
    for part in parts[1:]:
        ct = b.node("add", [ct, part])
    value, index = node.args
    assert isinstance(over, tuple)
    tape.spread(value, b.type(value).axes | b.type(index).axes, b.pick(ct, {axis: index}))
