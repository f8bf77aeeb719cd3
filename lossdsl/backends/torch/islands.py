"""Islands: operations along whole axes that are one library call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import TYPE_CHECKING

from lossdsl.backends.flat import Op, Ref
from lossdsl.backends.torch.pointwise import as_tensor
from lossdsl.backends.torch.reading import permuted
from lossdsl.backends.torch.reducing import masked, spread
from lossdsl.backends.torch.spell import ATOM, Text
from lossdsl.source.diagnostic import InternalError

if TYPE_CHECKING:
    from lossdsl.backends.torch.printer import Printer


@dataclass(frozen=True, slots=True)
class _OfMatrix:
    """A function of a matrix as torch has it: the call around the operand, and the places among the island's attributes
    of the axes that it leaves behind the others. In float64, since what is lost in single precision grows with a
    matrix's condition, which its entries don't show: by itself, or where a `helper` of ours is called, in there."""

    call: str
    behind: tuple[int, ...] = ()
    helper: str = ""


OF_MATRICES = {
    "logdet": _OfMatrix("torch.linalg.slogdet({}).logabsdet.to(dtype)"),
    "inverse": _OfMatrix("_inverse({})", (0, 1), helper="_inverse"),
    "transpose_inverse": _OfMatrix("_inverse({}).mT", (0, 1), helper="_inverse"),
    "eigvals": _OfMatrix("torch.linalg.eigvalsh({}).to(dtype)", (2,)),
    "eigvecs": _OfMatrix("torch.linalg.eigh({}).eigenvectors.to(dtype)", (0, 2)),
}


def spelled(p: Printer, op: Op) -> Text:
    """The result of an island."""
    args = [p.settle(a) for a in op.args]
    args = [a if a.tensor else as_tensor(p, a, "real") for a in args]
    if op.name in OF_MATRICES:
        return _matrix(p, args[0], op, OF_MATRICES[op.name])
    match op.name:
        case "contract":
            return _contract(p, args, op.attrs[0])  # type: ignore[arg-type]
        case "cumsum":
            return _cumsum(p, args, op)
        case "order":
            return _order(p, args, op)
        case "solve":
            return _solve(p, args, op)
    raise InternalError(f"the torch backend does not print {op.name} yet")


def _pair(op: Op) -> tuple[str, str]:
    return str(op.attrs[0]), str(op.attrs[1])


def _real(x: Text) -> Text:
    return x if x.dtype == "real" else replace(x, text=f"{x.at(ATOM)}.to(dtype)", binds=ATOM, dtype="real")


def _contract(p: Printer, args: Sequence[Text], over: Sequence[str]) -> Text:
    a, b = (_real(x) for x in args)
    axes = p.order({*a.axes, *b.axes} - set(over))
    letters = dict(zip(p.order({*a.axes, *b.axes}), ascii_lowercase, strict=False))
    if len(over) == 1 and len(a.axes) == len(b.axes) == len(axes) == 2:
        return _matmul(a, b, over[0], axes)
    left, right, out = ("".join(letters[x] for x in axes_) for axes_ in (a.axes, b.axes, axes))
    return Text(f'torch.einsum("{left},{right}->{out}", {a.text}, {b.text})', axes=axes)


def _matmul(a: Text, b: Text, over: str, axes: tuple[str, ...]) -> Text:
    """The product of two matrices; the first factor has the result's first axis."""
    if axes[0] not in a.axes:
        a, b = b, a
    left = a.at(ATOM) + ("" if a.axes[1] == over else ".mT")
    right = b.at(ATOM) + ("" if b.axes[0] == over else ".mT")
    return Text(f"{left} @ {right}", 80, axes=axes)


def _cumsum(p: Printer, args: Sequence[Text], op: Op) -> Text:
    axis = str(op.attrs[0])
    x = spread(p, masked(p, args[0], args[1] if len(args) == 2 else None, "0"), (axis,))
    d = x.axes.index(axis)
    real = x.dtype == "real"
    how = f".cumsum({d}, dtype=torch.float64).to(dtype)" if real else f".cumsum({d})"
    if True in op.attrs[1:]:
        how = f".flip({d}){how}.flip({d})"
    return Text(x.at(ATOM) + how, axes=x.axes, dtype="real" if real else "int")


def _order(p: Printer, args: Sequence[Text], op: Op) -> Text:
    axis, rank, down = str(op.attrs[0]), str(op.attrs[1]), op.attrs[2]
    key = args[0]
    axes = p.order({*key.axes, *(args[1].axes if len(args) == 2 else ())})
    last = (*(a for a in axes if a != axis), axis)
    key = _laid(p, key, last)
    p.call("_order")
    present = _laid(p, args[1], last).text if len(args) == 2 else "None"
    text = f"_order({key.text}, {p.size(rank)}, {down}, {present})"
    return permuted(p, Text(text, dtype="int"), (*last[:-1], rank))


def _laid(p: Printer, x: Text, axes: tuple[str, ...]) -> Text:
    """The operand with these dimensions in this order; those it lacks have size 1."""
    missing = tuple(a for a in axes if a not in x.axes)
    if missing:
        x = p.aligned(x, p.order(axes))
        lead = sum(1 for a in p.order(axes)[: p.order(axes).index(x.axes[0])]) if x.axes else 0
        marks = ["None"] * lead + ["..."] if lead else []
        full = f"{x.at(ATOM)}[{', '.join(marks)}]" if marks else x.text
        x = Text(full, axes=p.order(axes), dtype=x.dtype)
    if x.axes != axes:
        places = ", ".join(str(x.axes.index(a)) for a in axes)
        x = Text(f"{x.at(ATOM)}.permute({places})", axes=axes, dtype=x.dtype)
    return x


def _matrix(p: Printer, x: Text, op: Op, function: _OfMatrix) -> Text:
    """A function of the matrices in an operand."""
    matrix = _pair(op)
    rest = tuple(a for a in x.axes if a not in matrix)
    laid = _laid(p, _real(x), (*rest, *matrix))
    if function.helper:
        p.call(function.helper)
    text = function.call.format(laid.text if function.helper else f"{laid.at(ATOM)}.double()")
    return permuted(p, Text(text), (*rest, *(str(op.attrs[i]) for i in function.behind)))


def _solve(p: Printer, args: Sequence[Text], op: Op) -> Text:
    """x with Σ a[N, N'] x[N'] = b[N]: along the second axis."""
    rows, columns = _pair(op)
    m, b = (_real(x) for x in args)
    rest = tuple(a for a in m.axes if a not in (rows, columns))
    extra = tuple(a for a in b.axes if a != rows and a not in rest)
    outer = p.order({*rest, *(a for a in b.axes if a in rest)})
    left = _laid(p, m, (*outer, rows, columns))
    p.call("_solve")
    if len(extra) > 1:
        raise InternalError("solve with several right sides along two axes is not printed yet")
    if extra:
        right = _laid(p, b, (*outer, rows, *extra))
        return permuted(p, Text(f"_solve({left.text}, {right.text})"), (*outer, columns, *extra))
    right = _laid(p, b, (*outer, rows))
    text = f"_solve({left.text}, {right.at(ATOM)}[..., None]).squeeze(-1)"
    return permuted(p, Text(text), (*outer, columns))


def root(p: Printer, op: Op) -> Text:
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
        ends.append(spread(p, end_, axes).text)
    p.comment(op.origin)
    name, unknown = p.names.new("f"), p.names.new(p.flat.ops[start].values[0].name)
    p.texts[Ref(start)] = Text(unknown, axes=p.flat.ops[start].values[0].axes)
    outside, p.lines = p.lines, []
    for i in range(start + 1, end):
        p.op(i)
    result = p.text(op.args[2])
    result = result if result.axes == axes else spread(p, result, axes)
    inner, p.lines = p.lines, outside
    p.lines += ["", f"    def {name}({unknown}: Tensor) -> Tensor:"]
    p.lines += [f"    {line}" for line in [*inner, f"    return {result.text}"]]
    p.lines.append("")
    p.call("_root")
    return Text(f"_root({name}, {', '.join(ends)})", axes=axes)
