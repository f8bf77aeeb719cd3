"""The KernelProgram as text, and back: `parse_kernel(print_kernel(p)) == p`, origins apart.

One statement a line, two spaces a loop. Every value shows the axes it varies along, and its dtype unless that is real:

    kernel focal.value
    axes N, C
    in logits[N, C]: real
    in target[N]: int
    param gamma: real
    out rows[N]: real
    for N:
      t[N]: int = load target[N]
      keep[N]: bool = ne(t, -100)
      guard keep
      for C:
        z[N, C] = load logits[N, C]
        m[N], r[N] = reduce logsumexp over C (z) where 1
      zt[N] = load logits[N, t]
      i[C]: int = index[C]
      store rows[N] = zt where keep else 0

What stands before `guard g` is the loop's head. Other statements:

    g[C] = scatter C over N (v) at t              g at c is the sum over N of v where t == c
    s[N, K] = pick s0[C -> pi, N -> N']           a gather from a value
    q[N, N'] = island contract[(D)](x, y)         a library call; tuples in brackets
    t[N] = island root[0](lo, hi, f) bound u[N]:  the statements of f follow, indented

Constants: `3`, `1/2` are exact, `0.5` and `1e-06` floats, `inf`, `-inf`, `nan`, `true`, `false`.
"""

from __future__ import annotations

from fractions import Fraction

from lossdsl.ir.graph import Attr, Scalar
from lossdsl.plan.kernel import (
    Island,
    KernelProgram,
    Let,
    Load,
    Loop,
    Operand,
    Pick,
    Reduce,
    Scatter,
    Stmt,
    Store,
    Value,
)
from lossdsl.plan.textline import KernelTextError
from lossdsl.plan.textparse import parse_kernel
from lossdsl.source.diagnostic import InternalError

__all__ = ["KernelTextError", "parse_kernel", "print_kernel", "show_scalar"]


def print_kernel(p: KernelProgram) -> str:
    """The program as text, which ends in a line break."""
    lines = [f"kernel {p.name}", "axes" + (" " + ", ".join(p.axes) if p.axes else "")]
    lines += [f"{b.role} {b.name}{_axes(b.axes)}: {b.dtype}" for b in p.buffers]
    for s in p.body:
        _statement(s, 0, lines)
    return "\n".join(lines) + "\n"


def show_scalar(x: Scalar) -> str:
    """A constant: exact ones without a point, floats with a point, an exponent or a name."""
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, Fraction | int):
        return str(x)
    return repr(float(x))


def _axes(axes: tuple[str, ...]) -> str:
    return f"[{', '.join(axes)}]" if axes else ""


def _value(v: Value) -> str:
    return v.name + _axes(v.axes) + ("" if v.dtype == "real" else f": {v.dtype}")


def _operand(x: Operand) -> str:
    return x if isinstance(x, str) else show_scalar(x)


def _attr(x: Attr) -> str:
    if isinstance(x, tuple):
        return f"({', '.join(x)})"
    if isinstance(x, str):
        return x
    if isinstance(x, Fraction) and not isinstance(x, bool):
        return f"{x.numerator}/{x.denominator}"
    return show_scalar(x) if isinstance(x, bool | float) else str(x)


def _call(op: str, attrs: tuple[Attr, ...], args: tuple[Operand, ...]) -> str:
    brackets = f"[{', '.join(map(_attr, attrs))}]" if attrs else ""
    return op + brackets + (f"({', '.join(map(_operand, args))})" if args else "")


def _statement(s: Stmt, depth: int, lines: list[str]) -> None:
    pad = "  " * depth
    match s:
        case Loop():
            if s.head and s.guard is None:
                raise InternalError(f"the loop over {s.axis} has a head but no guard")
            lines.append(f"{pad}for {s.axis}:")
            for inner in s.head:
                _statement(inner, depth + 1, lines)
            if s.guard is not None:
                lines.append(f"{pad}  guard {s.guard}")
            for inner in s.body:
                _statement(inner, depth + 1, lines)
        case Let():
            lines.append(f"{pad}{_value(s.value)} = {_call(s.op, s.attrs, s.args)}")
        case Load():
            lines.append(f"{pad}{_value(s.value)} = load {s.buffer}{_axes(s.index)}")
        case Reduce():
            where = "" if s.where is None else f" where {_operand(s.where)}"
            args = ", ".join(map(_operand, s.args))
            results = ", ".join(map(_value, s.values))
            lines.append(f"{pad}{results} = reduce {s.reduction} over {', '.join(s.axes)} ({args}){where}")
        case Scatter():
            over = ", ".join(s.axes)
            lines.append(f"{pad}{_value(s.value)} = scatter {s.axis} over {over} ({_operand(s.arg)}) at {s.index}")
        case Pick():
            pairs = ", ".join(f"{a} -> {i}" for a, i in zip(s.axes, s.index, strict=True))
            lines.append(f"{pad}{_value(s.value)} = pick {s.source}[{pairs}]")
        case Island():
            bound = f" bound {', '.join(map(_value, s.bound))}:" if s.bound else ""
            results = ", ".join(map(_value, s.values))
            lines.append(f"{pad}{results} = island {_call(s.op, s.attrs, s.args)}{bound}")
            for inner in s.body:
                _statement(inner, depth + 1, lines)
        case Store():
            where = "" if s.where is None else f" where {_operand(s.where)} else {show_scalar(s.otherwise)}"
            if s.where is None and s.otherwise != 0:
                where = f" else {show_scalar(s.otherwise)}"
            lines.append(f"{pad}store {s.buffer}{_axes(s.index)} = {_operand(s.value)}{where}")
