"""Whether a program divides by what is as small as its inputs are: a length, a spread, a range, a standard deviation.

Such a divisor scales with the inputs. Of vectors of 1e-20 the squares are 0 in single precision, of a spread of 1e-40
the reciprocal is infinite; both stand between numbers that are neither. Rows of classes with a softmax are left in
single precision: there twice the time is too much.
"""

from __future__ import annotations

from lossdsl.plan.cost import values_of
from lossdsl.plan.kernel import KernelProgram, Let, Load, Operand, Pick, Reduce, Stmt

_LINEAR = frozenset({"add", "sub", "maximum", "minimum"})
_SAME = frozenset({"neg", "abs", "relu", "sqrt"})
_ADDED = frozenset({"sum", "max", "min"})


def divides_by_small(program: KernelProgram, body: list[Stmt]) -> bool:
    """Whether something is divided by what is made of the inputs by sums, differences, products and roots alone."""
    if rows_of_classes(program, body):
        return False
    constant = {b.name for b in program.buffers if b.role == "param"}
    inputs = {b.name for b in program.buffers if b.role == "in" and b.dtype == "real"}
    scaling: set[Operand] = set()  # what scales with the inputs
    fixed: set[Operand] = set()  # params, sizes and what is made of these
    for s in body:
        match s:
            case Load(buffer=buffer, value=value):
                if buffer in inputs:
                    scaling.add(value.name)
                elif buffer in constant or value.dtype != "real":
                    fixed.add(value.name)
            case Reduce(reduction="count", values=values):
                fixed |= {v.name for v in values}
            case Reduce(reduction=name, values=values, args=args) if name in _ADDED and args[0] in scaling:
                scaling |= {v.name for v in values}
            case Pick(source=source, value=value) if source in scaling:
                scaling.add(value.name)
            case Let(op="div", args=(_, below)) if below in scaling:
                return True
            case Let(op=op, args=args, value=value):
                if op in ("index", "size") or all(not isinstance(a, str) or a in fixed for a in args):
                    fixed.add(value.name)
                elif _scales(op, args, scaling, fixed):
                    scaling.add(value.name)
    return False


def rows_of_classes(program: KernelProgram, body: list[Stmt]) -> bool:
    """Whether there is a softmax over what comes in with an entry for each class of each sample."""
    given = [set(b.axes) for b in program.buffers if b.role == "in" and b.dtype == "real" and len(b.axes) > 1]
    axes = {v.name: set(v.axes) for s in body for v in values_of(s)}
    of = [s.args[0] for s in body if isinstance(s, Reduce) and s.reduction == "logsumexp"]
    return any(axes.get(str(e)) in given for e in of)


def _scales(op: str, args: tuple[Operand, ...], scaling: set[Operand], fixed: set[Operand]) -> bool:
    if op in _SAME:
        return args[0] in scaling
    if op in _LINEAR:
        return all(a in scaling or a == 0 for a in args)
    if op == "select":
        return any(a in scaling for a in args[1:])
    if op in ("mul", "mulz"):
        known = scaling | fixed
        return any(a in scaling for a in args) and all(a in known or not isinstance(a, str) for a in args)
    if op in ("div", "pow"):
        return args[0] in scaling and (args[1] in fixed or not isinstance(args[1], str))
    return False
