"""Makes typed terms: hash-consed, so that equal terms are one object, with axes, kinds and intervals inferred.

A term that may be absent on purpose is `where(e, m, …)`: e where every m holds. It is pushed outwards through
pointwise operations and picks, and into the masks of reductions, so that later stages meet it only where a mask has
nowhere else to go.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf

from lossdsl.check.typed import Attribute, Term
from lossdsl.check.types import Type, index_kind
from lossdsl.primitives.interval import NONPOSITIVE, REALS, UNIT, Interval, point
from lossdsl.primitives.kinds import result_kind
from lossdsl.registry import Registry
from lossdsl.source.text import Span

MOST_TERMS = 6_000
INDICES = Interval(0.0, inf, False, True)
KEEPING = ("softmax", "log_softmax")


class Exhausted(Exception):
    """The file asks for more than the compiler's bounds allow; `what` says which bound."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


POISON_KIND = "poison"
POISON = Term("poison", (), (), Type(kind=POISON_KIND), Span(0, 0))  # stands for what an error left without a meaning


def is_poison(term: Term) -> bool:
    """Whether the term stands for something that was reported already."""
    return term.type.kind == POISON_KIND


def is_index(kind: str) -> bool:
    """Whether it is the kind `index A` of some axis."""
    return kind.startswith("index ")


def is_whole(kind: str) -> bool:
    """Whether values of the kind are whole numbers that can be calculated with: bool, int, index A."""
    return kind in ("bool", "int") or is_index(kind)


class Terms:
    """The table of all terms of one check."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._table: dict[tuple[object, ...], Term] = {}
        self.inlined = False  # whether terms are made from text that isn't the file's own
        self.own: set[int] = set()  # ids of those that the file's own text makes

    def make(self, op: str, args: Sequence[Term], attrs: tuple[Attribute, ...], type: Type, span: Span) -> Term:
        """The one term of this operation; poison if an argument is."""
        if any(is_poison(a) for a in args):
            return POISON
        key = (op, tuple(id(a) for a in args), attrs, tuple(repr(a) for a in attrs), type.kind, type.axes)
        found = self._table.get(key)
        if found is None:
            if len(self._table) >= MOST_TERMS:
                raise Exhausted(f"the loss written out has more than {MOST_TERMS} terms")
            found = self._table[key] = Term(op, tuple(args), attrs, type, span)
        if not self.inlined:
            self.own.add(id(found))
        return found

    # --- leaves -------------------------------------------------------------------------------------------------

    def const(self, value: Fraction | float | int | bool, span: Span) -> Term:
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "real"
        return self.make("const", (), (value,), Type(kind=kind, interval=point(value)), span)

    def leaf(self, name: str, axes: Sequence[str], kind: str, interval: Interval, span: Span) -> Term:
        return self.make("leaf", (), (name,), Type(frozenset(axes), kind, interval), span)

    def index(self, axis: str, span: Span) -> Term:
        return self.make("index", (), (axis,), Type(frozenset({axis}), index_kind(axis), INDICES), span)

    def size(self, axis: str, span: Span) -> Term:
        return self.make("size", (), (axis,), Type(kind="int", interval=INDICES), span)

    # --- operations -----------------------------------------------------------------------------------------------

    def where(self, value: Term, masks: Sequence[Term], span: Span) -> Term:
        """`value` where all masks hold, absent elsewhere."""
        if value.op == "where":
            masks = (*value.args[1:], *masks)
            value = value.args[0]
        distinct = tuple(dict.fromkeys(masks))
        if not distinct:
            return value
        axes = value.type.axes.union(*(m.type.axes for m in distinct))
        return self.make("where", (value, *distinct), (), Type(axes, value.type.kind, value.type.interval), span)

    def apply(self, name: str, args: Sequence[Term], span: Span) -> Term:
        """A primitive of the registry; the caller has checked number and kinds of the arguments."""
        if any(is_poison(a) for a in args):
            return POISON
        strip = args[:1] if name == "select" else args
        masks = tuple(m for a in strip if a.op == "where" for m in a.args[1:])
        if masks:
            bare = [a.args[0] if a.op == "where" and a in strip else a for a in args]
            return self.where(self.apply(name, bare, span), masks, span)
        record = self.registry.primitives[name]
        axes = frozenset[str]().union(*(a.type.axes for a in args))
        kind = result_kind(record, [a.type.kind for a in args])
        if kind == "bool" and name in ("add", "sub", "mul", "neg"):
            kind = "int"
        interval = record.enclosure(*(a.type.interval for a in args))
        return self.make(name, args, (), Type(axes, kind, interval), span)

    def both(self, masks: Sequence[Term], span: Span) -> Term | None:
        """The conjunction of masks; None for no masks."""
        result: Term | None = None
        for mask in dict.fromkeys(masks):
            result = mask if result is None else self.apply("and", (result, mask), span)
        return result

    def _masked(self, axes: frozenset[str], body: Term, mask: Term | None) -> tuple[Term, list[Term], list[Term]]:
        """The bare body, the masks that vary along `axes` (an explicit one always counts), and those that don't."""
        inner: list[Term] = []
        outer: list[Term] = []
        if body.op == "where":
            for m in body.args[1:]:
                (inner if m.type.axes & axes else outer).append(m)
            body = body.args[0]
        if mask is not None:
            inner.extend(mask.args if mask.op == "where" else (mask,))  # a mask that isn't there is false
        return body, inner, outer

    def reduce(self, name: str, axes: Sequence[str], body: Term, mask: Term | None, span: Span) -> Term:
        """A reduction of the registry over `axes`, which body or mask has."""
        if is_poison(body) or (mask is not None and is_poison(mask)):
            return POISON
        body, inner, outer = self._masked(frozenset(axes), body, mask)
        condition = self.both(inner, span)
        args = (body,) if condition is None else (body, condition)
        record = self.registry.reductions[name]
        kind = body.type.kind if record.kind == "same" else record.kind
        if kind == "number":
            kind = "real" if body.type.kind == "real" else "int"
        if name == "argmax":
            kind = index_kind(axes[0])
        interval = record.range(body.type.interval) if record.range else REALS
        if condition is not None and name in ("sum", "prod", "max", "min", "logsumexp"):
            interval = interval.hull(Interval(record.empty, record.empty))
        left = frozenset[str]().union(*(a.type.axes for a in args)) - frozenset(axes)
        term = self.make("reduce", args, (name, tuple(axes)), Type(left, kind, interval), span)
        return self.where(term, outer, span) if outer else term

    def keep(self, name: str, axis: str, body: Term, mask: Term | None, span: Span) -> Term:
        """softmax, log_softmax or cumsum along `axis`."""
        if is_poison(body) or (mask is not None and is_poison(mask)):
            return POISON
        absent = body.args[1:] if body.op == "where" else ()
        body, inner, _ = self._masked(frozenset({axis}), body, mask)
        condition = self.both(inner, span)
        args = (body,) if condition is None else (body, condition)
        axes = frozenset[str]().union(*(a.type.axes for a in args))
        if name == "cumsum":
            low = body.type.interval.low
            interval = Interval(0.0) if low >= 0 else REALS
            kind = "real" if body.type.kind == "real" else "int"
            absent = (*absent, mask) if mask is not None else absent
        else:
            interval, kind = (UNIT if name == "softmax" else NONPOSITIVE), "real"
        term = self.make(name, args, (axis,), Type(axes, kind, interval), span)
        return self.where(term, absent, span) if absent else term

    def order(self, axis: str, to: str, down: bool, key: Term, mask: Term | None, span: Span) -> Term:
        """The entries of `axis` in the order of key, as indices along the new axis `to`."""
        if is_poison(key) or (mask is not None and is_poison(mask)):
            return POISON
        key, inner, outer = self._masked(frozenset({axis}), key, mask)
        condition = self.both(inner, span)
        args = (key,) if condition is None else (key, condition)
        axes = frozenset[str]().union(*(a.type.axes for a in args)) - {axis} | {to}
        term = self.make("order", args, (axis, to, down), Type(axes, index_kind(axis), INDICES), span)
        return self.where(term, outer, span) if outer else term

    def pick(self, value: Term, pairs: Sequence[tuple[str, Term]], span: Span) -> Term:
        """`value` with the index of each axis replaced, all at once; it has all these axes."""
        if is_poison(value) or any(is_poison(i) for _, i in pairs):
            return POISON
        masks: list[Term] = []
        if value.op == "where":
            for m in value.args[1:]:
                own = [(a, i) for a, i in pairs if a in m.type.axes]
                masks.append(self.pick(m, own, span) if own else m)
            value = value.args[0]
            pairs = [(a, i) for a, i in pairs if a in value.type.axes]
        bare: list[tuple[str, Term]] = []
        for axis, i in pairs:
            if i.op == "where":
                masks.extend(i.args[1:])
                i = i.args[0]
            if not (i.op == "index" and i.attrs == (axis,)):
                bare.append((axis, i))
        term = value
        if bare:
            replaced = tuple(a for a, _ in bare)
            axes = (value.type.axes - set(replaced)).union(*(i.type.axes for _, i in bare))
            type = Type(axes, value.type.kind, value.type.interval)
            term = self.make("pick", (value, *(i for _, i in bare)), (replaced,), type, span)
        return self.where(term, masks, span) if masks else term

    def detach(self, value: Term, span: Span) -> Term:
        if value.op == "where":
            return self.where(self.detach(value.args[0], span), value.args[1:], span)
        return self.make("detach", (value,), (), value.type, span)

    def fill(self, value: Term, axes: Sequence[str], span: Span) -> Term:
        """The same value, varying along `axes` too: what a default or a number is for an input that has axes."""
        for axis in axes:
            if axis not in value.type.axes and not is_poison(value):
                always = self.apply("ge", (self.index(axis, span), self.const(0, span)), span)
                value = self.apply("select", (always, value, value), span)
        return value
