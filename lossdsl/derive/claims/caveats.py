"""What a proof leaves out, in words: inputs that are as by default, and denominators that are 0.

x/0 is an infinity of the sign of x in the language, which a zero from below has not: where a denominator may come to 0
from below, rules and kernels need not agree on the sign, and a proof is about the rest of the domain.
"""

from __future__ import annotations

from collections.abc import Sequence

from lossdsl.derive.claims.comparisons import settings
from lossdsl.derive.claims.setting import Subject, as_written, place
from lossdsl.ir.graph import Graph, Node, reachable
from lossdsl.syntax import ast


def caveats(about: Subject, when: Sequence[ast.Condition] = (), other: ast.Expr | None = None) -> str:
    """ ", with w as by default, where no denominator is 0" of a loss, and of what it is compared with."""
    read = {leaf.name for leaf in about.graph.leaves}
    names = [i.name for i in about.checked.inputs if i.default is not None and i.name in read]
    said = f", with {' and '.join(names)} as by default" if names else ""
    return said + (", where no denominator is 0" if _divides(about, when, other) else "")


def _divides(about: Subject, when: Sequence[ast.Condition], other: ast.Expr | None) -> bool:
    for form in dict.fromkeys((about.rewriting, False)):
        told = as_written(about) if not form else about
        b = told.builder()
        replaced = settings(told, when)
        ids = [place(b, told.graph, replaced)["rows"]]
        if other is not None:
            ids.append(place(b, told.expression(other), replaced)["rows"])
        graph = b.graph({f"aux.{k}": n for k, n in enumerate(ids)})
        if any(_from_below(graph, graph.nodes[n]) for n in reachable(graph.nodes, [n for _, n in graph.outputs])):
            return True
    return False


def _from_below(graph: Graph, node: Node) -> bool:
    """Whether it divides by what may be 0 and may be below it: in a power, to an exponent that may be negative."""
    if node.op == "pow" and graph.nodes[node.args[1]].type.interval.low < 0:
        below = graph.nodes[node.args[0]]
    elif node.op == "div":
        below = graph.nodes[node.args[1]]
    else:
        return False
    return below.op != "const" and 0.0 in below.type.interval and below.type.interval.low < 0
