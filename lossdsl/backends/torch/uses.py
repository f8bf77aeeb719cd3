"""What an operation's results are needed for: how often each is read, and which come with another operation."""

from __future__ import annotations

from lossdsl.backends.flat import Argument, Flat, Op, Ref


def is_last(flat: Flat, op: Op) -> bool:
    """Whether a reduction runs over the one last axis of its operand."""
    operand = op.args[0]
    over = op.attrs[0]
    if not isinstance(operand, Ref) or not isinstance(over, tuple):
        return False
    return len(over) == 1 and flat.ops[operand.op].values[operand.result].axes[-1:] == over


def count_uses(flat: Flat, given: set[int]) -> dict[Ref, int]:
    """How often each live value is read; the operations `given` come with others and read nothing."""
    uses: dict[Ref, int] = {}
    live: set[int] = set()

    def read(x: Argument | None) -> None:
        if isinstance(x, Ref):
            uses[x] = uses.get(x, 0) + 1
            live.add(x.op)

    for s in flat.stores:
        if s.buffer.role == "out":
            read(s.value)
            read(s.where)
    for i in reversed(range(len(flat.ops))):
        if i not in given and i in live:
            for a in flat.ops[i].args:
                read(a)
    return uses


def shared_exponentials(flat: Flat) -> dict[int, int]:
    """For each log-sum-exp (by its number) the operation exp(z - m) with its own z and m, which it computes anyway."""
    shared: dict[int, int] = {}
    for i, op in enumerate(flat.ops):
        if op.what == "let" and op.name == "exp" and isinstance(op.args[0], Ref):
            below = flat.ops[op.args[0].op]
            if below.what == "let" and below.name == "sub" and isinstance(below.args[1], Ref):
                m = below.args[1]
                source = flat.ops[m.op]
                whole_row = source.name == "logsumexp" and source.what == "reduce" and not source.masked
                if whole_row and m.result == 0 and source.args == below.args[:1] and is_last(flat, source):
                    shared[m.op] = i
    return shared
