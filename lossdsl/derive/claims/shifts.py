"""How a value moves when the same number is added to all entries of a row: shift invariance, for any number of classes.

Adding c to a leaf moves a node by k·c, where k does not read the leaf: 1 for the leaf itself, 1/T for logits over a
temperature, 0 for a softmax. Wherever every operation's arguments move as it needs, the whole does; the unknown of a
root moves with its bounds if its equation then stays where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from lossdsl.ir.builder import Builder

_COMPARES = ("lt", "le", "gt", "ge", "eq", "ne")
_TOGETHER = ("maximum", "minimum", "clip", "logaddexp")  # f(x + c, y + c) = f(x, y) + c


def shift_of(b: Builder, n: int, leaf: int, batch: Sequence[str]) -> int | None:
    """The node k of which n moves by k·c when c is added to the leaf; None where no such k was found.

    c varies along the batch axes that the leaf has: nothing that reads another row may move.
    """
    axes = frozenset(batch) & b.type(leaf).axes
    return _Shifts(b, leaf, axes).of(n)


def invariant(b: Builder, n: int, leaf: int, batch: Sequence[str]) -> bool:
    """Whether adding a number to a row of the leaf changes nothing in n."""
    k = shift_of(b, n, leaf, batch)
    return k is not None and b.value(k) == 0


def _finite(b: Builder, n: int) -> bool:
    """Whether it is never infinite; an axis of which something is read has entries, so its size has a logarithm."""
    node = b[n]
    if node.op == "log" and b[node.args[0]].op == "size":
        return True
    return b.type(n).interval.finite or (node.op in ("mul", "neg") and all(_finite(b, a) for a in node.args))


@dataclass(slots=True)
class _Shifts:
    b: Builder
    leaf: int
    batch: frozenset[str]
    found: dict[int, int | None] = field(default_factory=dict)
    unknowns: dict[int, int] = field(default_factory=dict)  # root -> how its unknown moves

    def of(self, n: int) -> int | None:
        if n not in self.found:
            self.found[n] = self.one() if n == self.leaf else self.by_operation(n)
        return self.found[n]

    def one(self) -> int:
        return self.b.const(1)

    def zero(self) -> int:
        return self.b.const(0)

    def still(self, n: int) -> bool:
        """Whether it doesn't move at all."""
        k = self.of(n)
        return k is not None and self.b.value(k) == 0

    def common(self, nodes: Sequence[int]) -> int | None:
        """The one k with which all of them move."""
        ks = {self.of(n) for n in nodes}
        return ks.pop() if len(ks) == 1 else None

    def uniform(self, n: int, axes: object) -> int | None:
        """k, if it is the same along the axes and for all that is met there."""
        k = self.of(n)
        assert isinstance(axes, tuple)
        if k is None or (self.b.value(k) != 0 and (self.b.type(k).axes | self.batch) & set(axes)):
            return None
        return k

    def by_operation(self, n: int) -> int | None:
        b, node = self.b, self.b[n]
        args = node.args
        if not args and node.op != "var":
            return self.zero()
        if node.op == "var":
            return self.unknowns.get(int(node.attrs[0]), self.zero())  # type: ignore[arg-type]
        if node.op == "root":
            return self.root(n)
        if all(self.still(a) for a in args):
            return self.zero()
        match node.op:
            case "sub" if self.common(args) is not None:
                return self.zero()
            case "add" | "sub" | "neg":
                ks = [self.of(a) for a in args]
                known = [k for k in ks if k is not None]
                return b.node(node.op, known) if len(known) == len(args) else None
            case "mul":
                for x, y in (args, args[::-1]):
                    k = self.of(y)
                    if k is not None and self.still(x) and not self.reads(x) and _finite(b, x):
                        return b.node("mul", [x, k])
            case "div":
                k = self.of(args[0])
                zero = 0.0 in b.type(args[1]).interval  # infinities move nowhere
                if k is not None and self.still(args[1]) and not self.reads(args[1]) and not zero:
                    return b.node("div", [k, args[1]])
            case "select":
                return self.select(args)
            case "detach":
                return self.of(args[0])
            case "logp":
                k = self.uniform(args[0], node.attrs[0])
                return self.zero() if k is not None and all(map(self.still, args[1:])) else None
            case "order":
                k = self.uniform(args[0], (str(node.attrs[0]),))
                return self.zero() if k is not None and all(map(self.still, args[1:])) else None
            case "pick":
                return self.pick(n)
            case "reduce":
                return self.reduce(n)
        if node.op in _COMPARES:
            return self.zero() if self.common(args) is not None else None
        return self.common(args) if node.op in _TOGETHER else None

    def reads(self, n: int) -> bool:
        from lossdsl.derive.claims.by_rules import depends

        return depends(self.b, n, [self.leaf])

    def select(self, args: Sequence[int]) -> int | None:
        condition, yes, no = args
        if self.guarded(condition, yes, no):
            return self.of(yes)
        ks = self.of(yes), self.of(no)
        if not self.still(condition) or ks[0] is None or ks[1] is None:
            return None
        if ks[0] == ks[1]:
            return ks[0]
        return None if self.reads(condition) else self.b.node("select", [condition, ks[0], ks[1]])

    def guarded(self, condition: int, yes: int, no: int) -> bool:
        """Whether this is a largest or smallest entry, or 0 where it is infinite: of a row that doesn't move then."""
        b, test, entry = self.b, self.b[condition], self.b[yes]
        if b.value(no) != 0 or test.op != "lt" or b.value(test.args[1]) != inf or b[test.args[0]].op != "abs":
            return False
        whole = entry.op == "reduce" and entry.attrs[0] in ("max", "min") and len(entry.args) == 1
        return whole and b[test.args[0]].args == (yes,)  # under a mask that holds nowhere it is infinite, and stays 0

    def pick(self, n: int) -> int | None:
        """An entry moves as it did where it was; that of another row moves by another number."""
        node = self.b[n]
        axes = node.attrs[0]
        assert isinstance(axes, tuple)
        k = self.of(node.args[0])
        if k is None or not all(map(self.still, node.args[1:])):
            return None
        if self.b.value(k) == 0:
            return k
        return None if self.batch & set(axes) else self.b.pick(k, dict(zip(axes, node.args[1:], strict=True)))

    def reduce(self, n: int) -> int | None:
        b, node = self.b, self.b[n]
        name, axes = node.attrs
        assert isinstance(axes, tuple)
        if not all(map(self.still, node.args[1:])):
            return None
        if name == "sum":
            k = self.of(node.args[0])
            return None if k is None or self.batch & set(axes) else b.reduce("sum", axes, k, *node.args[1:])
        k = self.uniform(node.args[0], axes)
        if name == "argmax":
            return self.zero() if k is not None else None
        return k if name in ("max", "min", "logsumexp") else None

    def root(self, n: int) -> int | None:
        node = self.b[n]
        low, high, equation = node.args
        k, number = self.common((low, high)), int(node.attrs[0])  # type: ignore[arg-type]
        if k is None:
            return None
        inner = _Shifts(self.b, self.leaf, self.batch, unknowns={**self.unknowns, number: k})
        return k if inner.still(equation) else None
