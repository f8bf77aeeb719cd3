"""Whether a program takes from each other what may be alike: slopes of two sigmoids, or the directions of two vectors.

Slopes σ(u)·σ(-u) of two numbers near each other, or both near 0, and x/|x| - y/|y| of nearly parallel vectors are each
known to their last places, and so their differences to none. Rows of classes stay in single precision: there twice the
time is too much.
"""

from __future__ import annotations

from lossdsl.plan.cost import values_of
from lossdsl.plan.kernel import KernelProgram, Let, Operand, Reduce, Stmt

_SIGNED = frozenset({"add", "sub"})
_PRODUCTS = frozenset({"mul", "mulz", "neg", "select"})


def slopes_apart(program: KernelProgram, body: list[Stmt]) -> bool:
    """Whether slopes of two sigmoids are added or subtracted, in a program of one number a sample."""
    if len(program.axes) > 1:
        return False
    of: dict[Operand, frozenset[str]] = {}  # the sigmoids that a product has as factors
    for s in body:
        if not isinstance(s, Let):
            continue
        if s.op == "sigmoid":
            of[s.value.name] = frozenset({s.value.name})
        elif s.op in _SIGNED and _differ(of, s.args, 2):
            return True
        elif s.op in _PRODUCTS:
            of[s.value.name] = _of(of, s.args)
    return False


def directions_apart(program: KernelProgram, body: list[Stmt]) -> bool:
    """Whether entries of two vectors, each over its own length, are added or subtracted."""
    sums = {s.values[0].name for s in body if isinstance(s, Reduce) and s.reduction == "sum"}
    axes = {v.name: len(v.axes) for s in body for v in values_of(s)}
    lengths: dict[Operand, frozenset[str]] = {}  # what is made of a root of a sum
    over: dict[Operand, frozenset[str]] = {}  # what is divided by that
    for s in body:
        if not isinstance(s, Let) or s.value.dtype != "real":
            continue
        name = s.value.name
        if s.op == "sqrt" and s.args[0] in sums:
            lengths[name] = frozenset({name})
        elif s.op == "div" and s.args[1] in lengths:
            over[name] = lengths[s.args[1]]
        elif s.op in _SIGNED and _differ(over, s.args, 1) and all(axes[str(a)] > 1 for a in s.args):
            return True
        elif s.op in _PRODUCTS:
            over[name] = _of(over, s.args)
            if _of(lengths, s.args):
                lengths[name] = _of(lengths, s.args)
    return False


def _of(made: dict[Operand, frozenset[str]], args: tuple[Operand, ...]) -> frozenset[str]:
    return frozenset[str]().union(*(made.get(a, frozenset()) for a in args))


def _differ(made: dict[Operand, frozenset[str]], args: tuple[Operand, ...], least: int) -> bool:
    """Whether both are made of at least so many, and not of the same."""
    x, y = (made.get(a, frozenset()) for a in args)
    return min(len(x), len(y)) >= least and x != y
