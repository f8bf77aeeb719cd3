"""Where a loss may jump or bend at once: its derivatives there don't tell what it does.

A bound of the gradient is a Lipschitz constant only of what has no jumps; a second derivative of one sign is convexity,
and a risk without a slope at the truth is least there, only of what has no kinks either.
"""

from __future__ import annotations

from collections.abc import Sequence

from lossdsl.derive.claims import by_rules
from lossdsl.derive.claims.rational import same
from lossdsl.derive.claims.setting import Subject
from lossdsl.ir.builder import Builder
from lossdsl.ir.graph import Graph, Node, reachable

STEPS = frozenset({"floor", "round", "sign", "mod", "select", "pick", "argmax", "argmin", "order", "tan"})
STEPS |= {"lt", "le", "gt", "ge", "eq", "ne", "isfinite", "within_unit"}  # as numbers; in a choice they are counted so
STEPS |= {"lgamma", "digamma", "trigamma", "tetragamma", "logdet", "inverse", "solve"}  # poles
KINKS = frozenset({"abs", "relu", "maximum", "minimum", "clip", "max", "min", "root", "eigvals", "eigvecs"})
KINKS |= {"acos", "asin"}
AT_ZERO = frozenset({"sqrt", "log", "div", "pow"})  # an infinite slope or a pole, where that is in what they are of


def jumps(about: Subject, name: str) -> bool:
    """Whether a step, or a choice between two values by a test, goes by the input: it may be discontinuous in it."""
    return bool(_going_by(about, name) & {"jump"})


def bends(about: Subject, name: str) -> bool:
    """Whether it may jump, or has a kink."""
    return bool(_going_by(about, name))


def _going_by(about: Subject, name: str) -> set[str]:
    graph, found = about.graph, set[str]()
    b = about.builder()
    ids = b.replay(graph)
    chosen = [n for n in graph.nodes if n.op == "select" and _meets(b, [ids[a] for a in n.args])]
    tested = {n.args[0] for n in chosen}  # as numbers such tests would jump, but nothing else reads them
    for node in graph.nodes:
        tested -= {a for k, a in enumerate(node.args) if node not in chosen or k}
    below: dict[int, bool] = {}
    for n in reachable(graph.nodes, [graph.output("rows")]):
        node = graph.nodes[n]
        inner = [below[a] for a in node.args]
        below[n] = node.attrs[:1] == (name,) if node.op == "leaf" else any(inner)
        op = str(node.attrs[0]) if node.op == "reduce" else node.op
        if op in ("select", "pick"):  # by what is tested or counted, not by what is chosen
            inner = inner[:1] if op == "select" else inner[1:]
        if n in tested:
            continue
        if node in chosen:
            found |= {"kink"} if any(inner) else set()
            continue
        masked = node.op in ("reduce", "logp") and any(inner[1:])
        pole = op == "div" and inner[1:] == [True] and _at_zero(graph, node)  # where 0·(1/0) is 0
        falls = op == "pow" and graph.nodes[node.args[1]].type.interval.low < 0
        pole |= falls and inner[0] and _at_zero(graph, node)
        if masked or pole or (any(inner) and op in STEPS):
            found.add("jump")
        elif any(inner) and (op in KINKS or (op in AT_ZERO and inner[op == "div"] and _at_zero(graph, node))):
            found.add("kink")
    return found


def _at_zero(graph: Graph, node: Node) -> bool:
    """Whether it may be of 0 where that matters: not in a power that is whole."""
    if node.op == "pow":
        exponent = graph.nodes[node.args[1]]
        if exponent.op == "const" and exponent.attrs[0] >= 0 and exponent.attrs[0] == int(exponent.attrs[0]):  # type: ignore[arg-type, operator]
            return False
    return 0.0 in graph.nodes[node.args[node.op == "div"]].type.interval


def _meets(b: Builder, args: Sequence[int]) -> bool:
    """Whether both branches of a choice are equal where the sides of its test are: then it has a kink at most."""
    condition, yes, no = args
    if b[condition].op not in ("lt", "le", "gt", "ge"):
        return False
    u, v = b[condition].args
    for x, y in ((u, v), (v, u)):
        if b.value(x) is None:
            known = {x: y} | (_even(b, b[x].args[0], y) if b[x].op == "abs" else {})
            ends = b.rebuild(yes, known), b.rebuild(no, known)
            if by_rules.equal(b, *ends) or same(b, *ends):
                return True
    return False


def _even(b: Builder, x: int, size: int) -> dict[int, int]:
    """Even powers of x are those of |x|."""
    found = {}
    for n, node in enumerate(b.nodes):
        if node.op == "pow" and node.args[0] == x and b.value(node.args[1]) in (2, 4, 6):
            found[n] = node.args[1]
    return {n: b.node("pow", [size, exponent]) for n, exponent in found.items()}
