"""The reverse pass: cotangents of leaves from cotangents of outputs, as more nodes of the same Graph.

One walk from the last node to the first. Pointwise operations take their partial derivatives from the primitives'
records; reductions, picks and the softmax family have the adjoints below, each with its reason. The pass is closed:
it makes only operations that it can differentiate, so second derivatives are its second application.

Cotangents may lack axes that their node has (they are constant along them). A product with a cotangent is the
language's product: a zero cotangent stays zero through an infinite derivative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lossdsl.derive.adjoints import ADJOINTS
from lossdsl.derive.errors import NotDifferentiableError
from lossdsl.derive.units import direction, direction_adjoint
from lossdsl.ir.builder import Builder


@dataclass(slots=True)
class Tape:
    """Cotangents collected so far, by node; several contributions are kept apart until their node's turn."""

    builder: Builder
    wanted: frozenset[int]
    active: set[int] = field(default_factory=set)
    contributions: dict[int, list[int]] = field(default_factory=dict)

    def give(self, node: int, cotangent: int) -> None:
        """A contribution to node's cotangent, summed over the axes that the node lacks."""
        b = self.builder
        if node not in self.active or b.value(cotangent) == 0:
            return
        extra = b.type(cotangent).axes - b.type(node).axes
        if extra:
            cotangent = b.reduce("sum", tuple(a for a in b.axes if a in extra), cotangent)
        self.contributions.setdefault(node, []).append(cotangent)

    def spread(self, node: int, result_axes: frozenset[str], cotangent: int) -> None:
        """The adjoint of a broadcast: node was used along `result_axes`, some of which neither it nor the cotangent
        has."""
        b = self.builder
        repeated = result_axes - b.type(node).axes - b.type(cotangent).axes
        for axis in (a for a in b.axes if a in repeated):
            cotangent = b.node("mul", [b.size(axis), cotangent])
        self.give(node, cotangent)


def reverse(
    b: Builder, seeds: Mapping[int, int], wanted: Sequence[int], held: frozenset[int] = frozenset()
) -> dict[int, int]:
    """For each wanted node its cotangent, given those of some outputs (node -> cotangent node).

    Nodes in `held` are constants in this pass. A wanted node that no output depends on is missing from the answer.
    NotDifferentiableError names an operation that has no derivative here.
    """
    tape = Tape(b, frozenset(wanted))
    last = max([*seeds, *wanted], default=-1)
    tape.active = _active(b, last, tape.wanted, held)
    for output, seed in seeds.items():
        tape.give(output, seed)
    found: dict[int, int] = {}
    for n in range(last, -1, -1):
        parts = tape.contributions.pop(n, [])
        if not parts:
            continue
        if n in tape.wanted:
            found[n] = total(b, parts)
        node = b[n]
        if node.op in ("leaf", "var"):
            continue
        axes = direction(b, n)
        if axes is not None:
            direction_adjoint(tape, n, axes, total(b, parts))
        elif node.op in ADJOINTS:
            ADJOINTS[node.op](tape, n, parts)
        elif b.is_pointwise(node.op):
            _pointwise(tape, n, total(b, parts))
        else:
            raise NotDifferentiableError(node.op, node.origin)
    return found


def _active(b: Builder, last: int, wanted: frozenset[int], held: frozenset[int]) -> set[int]:
    """The nodes through which a wanted node can be felt."""
    active = set(wanted)
    for n in range(last + 1):
        node = b[n]
        if n not in held and node.type.differentiable and node.op != "detach" and any(a in active for a in node.args):
            active.add(n)
    return active


def total(b: Builder, parts: Sequence[int]) -> int:
    result = parts[0]
    for part in parts[1:]:
        result = b.node("add", [result, part])
    return result


def _pointwise(tape: Tape, n: int, cotangent: int) -> None:
    b = tape.builder
    node = b[n]
    axes = node.type.axes
    match node.op:
        case "select":
            condition, yes, no = node.args
            zero = b.const(0)
            tape.spread(yes, axes, b.node("select", [condition, cotangent, zero]))
            tape.spread(no, axes, b.node("select", [condition, zero, cotangent]))
        case "add" | "sub" | "neg":
            for i, argument in enumerate(node.args):
                minus = node.op == "neg" or (node.op == "sub" and i == 1)
                tape.spread(argument, axes, b.node("neg", [cotangent]) if minus else cotangent)
        case _:
            live = [i for i, a in enumerate(node.args) if a in tape.active]
            partials = _partials(b, n)
            for i in live:
                tape.spread(node.args[i], axes, b.node("mul", [cotangent, partials[i]]))


def _partials(b: Builder, n: int) -> tuple[int, ...]:
    node = b[n]
    record = b.registry.primitives[node.op]
    if record.partials is None:
        raise NotDifferentiableError(node.op, node.origin)
    found = record.partials(b.f, *(b.ref(a) for a in node.args))
    return tuple(p.node if hasattr(p, "node") else b.const(p) for p in found)
