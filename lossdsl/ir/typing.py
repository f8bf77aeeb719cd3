"""The type of a node from those of its arguments."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter, pi
from typing import TYPE_CHECKING

from lossdsl.check.types import Type, index_kind
from lossdsl.ir.graph import Attr, is_whole
from lossdsl.primitives.interval import NONNEGATIVE, REALS, Interval, point
from lossdsl.source.diagnostic import InternalError

if TYPE_CHECKING:
    from lossdsl.ir.builder import Builder

NO_AXES: frozenset[str] = frozenset()
PI = Fraction(pi)  # what `pi` is written as; no other number of a file is this double


def join_kinds(a: str, b: str) -> str:
    """The smallest kind that holds both: bool ⊂ int ⊂ real, index C ⊂ int."""
    if a == b:
        return a
    for kind in ("label", "real", "int"):
        if kind in (a, b):
            return kind
    return "int"


def infer(builder: Builder, op: str, args: tuple[int, ...], attrs: tuple[Attr, ...]) -> Type:
    """InternalError for an operation that does not exist."""
    types = [builder.type(a) for a in args]
    axes = NO_AXES.union(*(t.axes for t in types))
    if op in builder.registry.primitives:
        return _primitive(builder, op, types, axes)
    match op:
        case "const":
            return _constant(attrs[0])
        case "index":
            axis = str(attrs[0])
            return Type(frozenset({axis}), index_kind(axis), Interval(0, inf, False, True))
        case "size":
            return Type(NO_AXES, "int", Interval(0, inf, False, True))
        case "reduce":
            return _reduce(builder, str(attrs[0]), _names(attrs[1]), types, axes)
        case "logp":
            own = types[0].interval  # of finite entries it is finite; a masked one may exceed the others' log-sum
            interval = Interval(-inf, 0.0 if len(args) == 1 else inf, own.finite, own.finite and len(args) > 1)
            return Type(axes, "real", interval.or_none(own.nan or not own.finite))
        case "cumsum":
            interval = REALS.or_none(_no_sum(types[0].interval))  # it counts up, even of ones
            return Type(axes | {str(attrs[0])}, join_kinds("int", types[0].kind), interval)
        case "order":
            source, target = str(attrs[0]), str(attrs[1])
            return Type(axes - {source} | {target}, index_kind(source), NONNEGATIVE)
        case "pick":
            indices = NO_AXES.union(*(t.axes for t in types[1:]))
            return Type((types[0].axes - set(_names(attrs[0]))) | indices, types[0].kind, types[0].interval)
        case "scatter":
            interval = REALS.or_none(_no_sum(types[0].interval))
            return Type(axes - set(_names(attrs[1])) | {str(attrs[0])}, "real", interval)
        case "detach":
            return types[0]
        case "root":
            interval = types[0].interval.hull(types[1].interval)
            return Type(axes, "real", interval.or_none(types[2].interval.nan))
        case "logdet":
            return Type(axes - {str(a) for a in attrs}, "real", REALS.or_none())
        case "inverse" | "transpose_inverse":
            return Type(axes, "real", REALS.or_none())
        case "solve":
            return Type((types[1].axes | types[0].axes) - {str(attrs[0])}, "real", REALS.or_none())
        case "eigvals":
            return Type(axes - {str(attrs[0]), str(attrs[1])} | {str(attrs[2])}, "real", REALS)
        case "eigvecs":
            return Type(axes - {str(attrs[1])} | {str(attrs[2])}, "real", Interval(-1, 1))
    raise InternalError(f"the graph has no operation {op!r}")


def _names(attr: Attr) -> tuple[str, ...]:
    if not isinstance(attr, tuple):
        raise InternalError(f"{attr!r} should be a tuple of axes")
    return attr


def _constant(value: Attr) -> Type:
    if isinstance(value, bool):
        return Type(NO_AXES, "bool", Interval(float(value), float(value)))
    if value == PI:
        return Type(NO_AXES, "real", Interval(pi, nextafter(pi, inf), True, True))
    whole = isinstance(value, Fraction) and is_whole(value)
    return Type(NO_AXES, "int" if whole else "real", point(value))  # type: ignore[arg-type]


def _primitive(builder: Builder, op: str, types: list[Type], axes: frozenset[str]) -> Type:
    record = builder.registry.primitives[op]
    if len(types) != record.arity:
        raise InternalError(f"{op} takes {record.arity} arguments, not {len(types)}")
    if record.kind in ("same", "number"):
        values = types[1:] if op == "select" else types
        kind = values[0].kind
        for t in values[1:]:
            kind = join_kinds(kind, t.kind)
        if record.kind == "number" and kind != "real":
            kind = "int"  # true + true is 2, and a sum of indices is none
    else:
        kind = record.kind
    return Type(axes, kind, record.enclosure(*(t.interval for t in types)))


def _reduce(builder: Builder, name: str, over: tuple[str, ...], types: list[Type], axes: frozenset[str]) -> Type:
    record = builder.registry.reductions[name]
    kind = types[0].kind if record.kind in ("same", "number") else record.kind
    if record.kind == "number" and kind != "real":
        kind = "int"
    if name == "argmax":
        kind = index_kind(over[0])
    own = types[0].interval
    interval = record.range(own) if record.range else REALS
    none = own.nan or (name == "sum" and _no_sum(own)) or (name == "logsumexp" and inf in own)
    return Type(axes - set(over), kind, interval.or_none(none and kind in ("real", "number")))


def _no_sum(x: Interval) -> bool:
    """Whether a sum of such terms may be none."""
    return x.nan or (inf in x and -inf in x)
