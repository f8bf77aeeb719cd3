"""Where a loss may jump or bend at once: its derivatives there don't tell what it does.

A bound of the gradient is a Lipschitz constant only of what has no jumps; a second derivative of one sign is convexity,
and a risk without a slope at the truth is least there, only of what has no kinks either.
"""

from __future__ import annotations

from lossdsl.derive.claims.setting import Subject
from lossdsl.ir.graph import reachable

STEPS = frozenset({"floor", "round", "sign", "mod", "select", "pick", "argmax", "argmin"})
KINKS = frozenset({"abs", "relu", "maximum", "minimum", "clip", "max", "min"})


def jumps(about: Subject, name: str) -> bool:
    """Whether a step, or a choice between two values by a test, goes by the input: it may be discontinuous in it."""
    return bool(_going_by(about, name) & {"jump"})


def bends(about: Subject, name: str) -> bool:
    """Whether it may jump, or has a kink."""
    return bool(_going_by(about, name))


def _going_by(about: Subject, name: str) -> set[str]:
    graph, found = about.graph, set[str]()
    below: dict[int, bool] = {}
    for n in reachable(graph.nodes, [graph.output("rows")]):
        node = graph.nodes[n]
        inner = [below[a] for a in node.args]
        below[n] = node.attrs[:1] == (name,) if node.op == "leaf" else any(inner)
        op = str(node.attrs[0]) if node.op == "reduce" else node.op
        if op in ("select", "pick"):  # by what is tested or counted, not by what is chosen
            inner = inner[:1] if op == "select" else inner[1:]
        masked = node.op in ("reduce", "logp") and any(inner[1:])
        if masked or (any(inner) and op in STEPS):
            found.add("jump")
        elif any(inner) and op in KINKS:
            found.add("kink")
    return found
