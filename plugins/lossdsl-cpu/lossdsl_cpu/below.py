"""Values that are known not to exceed another: the maximum of all of them, in whatever loop it was taken.

exp(x) - exp(y) takes two exponentials where either may be the larger one. Below a maximum y it is
exp(y)·(exp(x - y) - 1), and exp(y), which the whole range shares, is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lossdsl.backends.api import (
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
from lossdsl_cpu.scope import subtree


@dataclass(slots=True)
class Keys:
    """Values as numbers: the same one where the same is computed of the same, an array kept between loops included.

    maxima  the key of a maximum -> the key of what it is the maximum of
    """

    fixed: frozenset[str]
    of: dict[str, int] = field(default_factory=dict)
    table: dict[tuple[object, ...], int] = field(default_factory=dict)
    kept: dict[tuple[str, tuple[str, ...]], int] = field(default_factory=dict)
    maxima: dict[int, int] = field(default_factory=dict)

    def key(self, x: Operand) -> int:
        return self.of[x] if isinstance(x, str) and x in self.of else self.number("operand", x)

    def number(self, *made_of: object) -> int:
        return self.table.setdefault(made_of, len(self.table))

    def below(self, x: Operand, y: Operand) -> bool:
        """Whether y is the maximum of x over some range, the x of here among them."""
        return self.maxima.get(self.key(y)) == self.key(x)

    def read(self, body: Sequence[Stmt], everywhere: bool = True) -> None:
        """Number the values of a body; `everywhere`: no guard leaves entries out."""
        for s in body:
            match s:
                case Let():
                    self.of[s.value.name] = self.number(s.op, s.attrs, *(self.key(a) for a in s.args))
                case Load():
                    place = (s.buffer, s.index)
                    if s.buffer in self.fixed:
                        self.of[s.value.name] = self.number("load", s.buffer, *(self.key(i) for i in s.index))
                    elif place in self.kept:
                        self.of[s.value.name] = self.kept[place]
                case Store():
                    if everywhere and s.where is None:
                        self.kept[(s.buffer, s.index)] = self.key(s.value)
                case Reduce(reduction="max" | "logsumexp", where=None) if everywhere:
                    self.maxima[self.key(s.values[0].name)] = self.key(s.args[0])
                case Loop():
                    inside = everywhere and s.guard is None
                    self.read(s.head, everywhere)
                    self.read(s.body, inside)


def keys_of(program: KernelProgram) -> Keys:
    keys = Keys(frozenset(b.name for b in program.buffers if b.role in ("in", "param")))
    keys.read(program.body)
    return keys


def below_maxima(program: KernelProgram) -> KernelProgram:
    """The same program with `expsub` of a value and the maximum of such values as `expsub_below`."""
    keys = keys_of(program)
    statements = list(subtree(program.body))
    found = [s for s in statements if isinstance(s, Let) and s.op == "expsub" and keys.below(*s.args)]
    tops = {s.args[1] for s in found}
    made = {v.name: (s, v) for s in statements if isinstance(s, Reduce) for v in s.values if v.name in tops}
    if not made:
        return program
    taken = {v.name for s in statements for v in values(s)}
    names: dict[str, str] = {}
    for top in made:
        names[top] = f"exp_{top}"
        while names[top] in taken:
            names[top] += "_"
    waiting = dict(made)
    chosen = {s.value.name for s in found if s.args[1] in made}

    def rewritten(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for s in body:
            ready = [top for top, (r, _) in waiting.items() if r is s or (isinstance(s, Loop) and whole(s, r))]
            ended = [waiting.pop(top)[1] for top in ready]
            if isinstance(s, Loop):
                s = replace(s, head=rewritten(s.head), body=rewritten(s.body))
            elif isinstance(s, Let) and s.value.name in chosen:
                s = replace(s, op="expsub_below", args=(*s.args, names[str(s.args[1])]))
            out.append(s)
            out += [Let(Value(names[v.name], v.axes, "real"), "exp", (v.name,)) for v in ended]
        return tuple(out)

    return replace(program, body=rewritten(program.body))


def whole(loop: Loop, r: Reduce) -> bool:
    """Whether a reduction has its value when this loop has ended."""
    return loop.axis in r.axes and any(s is r for s in subtree((*loop.head, *loop.body)))


def values(s: Stmt) -> tuple[Value, ...]:
    match s:
        case Let() | Load() | Pick() | Scatter():
            return (s.value,)
        case Reduce() | Island():
            return s.values
    return ()
