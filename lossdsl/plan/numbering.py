"""Value numbering of a row loop: which values of its sweeps are computed alike, and need computing only once.

A value's key is its operation with the keys of its arguments; loads of what nothing writes are alike by buffer and
index. exp(x - m) is known where m is the maximum of a log-sum-exp over x: the sum has computed it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lossdsl.plan.kernel import Let, Load, Operand, Reduce


@dataclass(slots=True)
class Numbering:
    """Keys as small numbers. `fixed` are the buffers that nothing writes, `costs` says which operations do.

    made_of  what each key stands for: (operation, attrs, arguments' keys…)
    costly   keys that take a costly operation, their own or an argument's
    axes     the axes along which each key varies
    sums     the key of a log-sum-exp's maximum -> that of its operand
    """

    fixed: frozenset[str]
    costs: Callable[[str], bool]
    made_of: list[tuple[object, ...]] = field(default_factory=list)
    costly: set[int] = field(default_factory=set)
    axes: dict[int, tuple[str, ...]] = field(default_factory=dict)
    sums: dict[int, int] = field(default_factory=dict)
    _table: dict[tuple[object, ...], int] = field(default_factory=dict)
    _of: dict[str, int] = field(default_factory=dict)

    def key(self, x: Operand) -> int:
        """The key of an operand; a name that was not defined is like no other."""
        if not isinstance(x, str):
            return self._intern(("constant", repr(x)))
        if x not in self._of:
            self._of[x] = self._intern(("value", x))
        return self._of[x]

    def define(self, s: Let | Load) -> int:
        """Number the value of a statement."""
        if isinstance(s, Let):
            args = [self.key(a) for a in s.args]
            k = self._intern((s.op, s.attrs, *args))
            if self.costs(s.op) or any(a in self.costly for a in args):
                self.costly.add(k)
        else:
            changes = () if s.buffer in self.fixed else (s.value.name,)
            k = self._intern(("load", s.buffer, *changes, *(self.key(i) for i in s.index)))
        self._of[s.value.name] = k
        self.axes[k] = s.value.axes
        return k

    def reduce(self, s: Reduce) -> None:
        """Note a log-sum-exp whose exponentials can be taken over: one without a mask."""
        if s.reduction == "logsumexp" and s.where is None and len(s.values) == 2:
            self.sums[self.key(s.values[0].name)] = self.key(s.args[0])

    def arguments(self, k: int) -> list[int]:
        """The keys of a key's arguments; none for what is no operation."""
        op, *rest = self.made_of[k]
        return [] if op in ("constant", "value", "load") else [x for x in rest[1:] if isinstance(x, int)]

    def exponential(self, k: int) -> int | None:
        """The key of the maximum m, where k is exp(x - m) of a log-sum-exp over x."""
        if self.made_of[k][0] != "exp":
            return None
        [inner] = self.arguments(k)
        if self.made_of[inner][0] != "sub":
            return None
        x, m = self.arguments(inner)
        return m if self.sums.get(m, -1) == x else None

    def _intern(self, k: tuple[object, ...]) -> int:
        found = self._table.setdefault(k, len(self.made_of))
        if found == len(self.made_of):
            self.made_of.append(k)
        return found
