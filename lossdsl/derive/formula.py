"""A Graph's outputs as formulas that a person reads, in the language's own spelling.

What stands for absence (`ignore_index`) and the cotangent of the rows are set to what they are for an entry that
counts, so that the gradient reads like the one in the paper.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lossdsl.ir.builder import Builder
from lossdsl.ir.dump import show_attr
from lossdsl.ir.graph import Graph, JointGraph, Node, reachable
from lossdsl.ir.inputs import GIVEN
from lossdsl.registry import Registry

IF, OR, AND, NOT, COMPARE, ADD, TIMES, NEGATE, POWER, POSTFIX = range(10)
BINARY = {
    "or": ("or", OR),
    "and": ("and", AND),
    "eq": ("==", COMPARE),
    "ne": ("!=", COMPARE),
    "lt": ("<", COMPARE),
    "le": ("<=", COMPARE),
    "gt": (">", COMPARE),
    "ge": (">=", COMPARE),
    "add": ("+", ADD),
    "sub": ("-", ADD),
    "mul": ("*", TIMES),
    "mulz": ("*", TIMES),
    "div": ("/", TIMES),
}
SPELLED = {"maximum": "max", "minimum": "min", "logp": "log_softmax"}  # where the language has a name of its own
ATOMS = ("leaf", "const", "index", "size", "var")
LONGEST = 56  # of a formula that is written inside another
_CLOSED = re.compile(r"[\w.]+(\([^()]*\)|\[[^][]*\])*|\([^()]*\)")  # a name, a call: nothing around takes it apart


@dataclass(frozen=True, slots=True)
class Formulas:
    """`lets` are names for what occurs more than once, in order; `outputs` the formulas by output name."""

    lets: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]


def plain(joint: JointGraph, registry: Registry) -> Graph:
    """The value and the gradient for entries that are there (no index is ignored) and a cotangent of 1."""
    old = joint.graph
    b = Builder(registry, old.name, old.axes, old.batch)
    constants = {"@rows": b.const(1), "@weight": b.const(0)}
    ignored, instead = set(), {}
    for n, node in enumerate(old.nodes):
        name = str(node.attrs[0]) if node.op == "leaf" else ""
        if name == "@ignore_index":
            ignored.add(n)
        elif name.startswith(GIVEN):
            instead[n] = b.const(1)
        elif name in constants:
            instead[n] = constants[name]
        elif node.op == "eq" and ignored & set(node.args):
            instead[n] = b.const(False)
    ids = b.replay(old, instead)
    return b.graph({name: ids[node] for name, node in old.outputs if name == "rows" or name.startswith("grad.")})


def formulas(graph: Graph, outputs: Sequence[str]) -> Formulas:
    """The named outputs as text. What is used more than once, or is long, gets a name t1, t2, …"""
    roots = [graph.output(name) for name in outputs]
    needed = set(reachable(graph.nodes, roots))
    uses = Counter(arg for n in needed for arg in graph.nodes[n].args)
    uses.update(roots)
    texts: dict[int, tuple[str, int]] = {}
    lets: list[tuple[str, str]] = []
    inner = _of_unknowns(graph)
    for n in sorted(needed):
        node = graph.nodes[n]
        text, level = _spell(graph, node, [texts[arg] for arg in node.args])
        shared = uses[n] > 1 or len(text) > LONGEST
        if shared and node.op not in ATOMS and n not in roots and not inner[n]:
            name = f"t{len(lets) + 1}"
            lets.append((_with_axes(graph, name, node), text))
            text, level = name, POSTFIX
        texts[n] = (text, level)
    named = tuple((name, texts[root][0]) for name, root in zip(outputs, roots, strict=True))
    return Formulas(tuple(lets), named)


def spelled(graph: Graph, n: int, known: Mapping[int, str]) -> str:
    """One node as text: `known` has the words of nodes that come from a file, and what grows too long becomes …"""
    whole: dict[int, tuple[str, int]] = {}
    for m in reachable(graph.nodes, [n]):
        if m != n and m in known:
            whole[m] = known[m], POSTFIX if _CLOSED.fullmatch(known[m]) else IF
            continue
        args = [whole[arg] if len(whole[arg][0]) <= LONGEST else ("…", POSTFIX) for arg in graph.nodes[m].args]
        whole[m] = _spell(graph, graph.nodes[m], args)
    return whole[n][0]


def _of_unknowns(graph: Graph) -> list[frozenset[int]]:
    """For each node the roots inside whose formula it stands: outside them it has no meaning, and no name."""
    found: list[frozenset[int]] = []
    for node in graph.nodes:
        inside = frozenset[int]().union(*(found[arg] for arg in node.args))
        number = node.attrs[0] if node.attrs else None
        if node.op == "var" and isinstance(number, int):
            inside |= {number}
        if node.op == "root" and isinstance(number, int):
            inside -= {number}
        found.append(inside)
    return found


def _with_axes(graph: Graph, name: str, node: Node) -> str:
    axes = [axis for axis in graph.axes if axis in node.type.axes]
    return f"{name}[{', '.join(axes)}]" if axes else name


def _spell(graph: Graph, node: Node, args: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """The text of a node and how tightly it binds."""

    def at(i: int, least: int) -> str:
        text, level = args[i]
        return text if level >= least else f"({text})"

    op, attrs = node.op, node.attrs
    masked = f" where {at(1, OR)}" if len(args) > 1 else ""
    if op in BINARY:
        sign, level = BINARY[op]
        right = level + 1 if sign in "-/" or level == COMPARE else level
        return f"{at(0, level + (level == COMPARE))} {sign} {at(1, right)}", level
    match op:
        case "leaf":
            return str(attrs[0]).removeprefix("@"), POSTFIX
        case "const":
            text = show_attr(attrs[0])
            return text, TIMES if "/" in text else NEGATE if text.startswith("-") else POSTFIX
        case "index":
            return str(attrs[0]), POSTFIX
        case "size":
            return f"size({attrs[0]})", POSTFIX
        case "neg":
            return f"-{at(0, NEGATE)}", NEGATE
        case "not":
            return f"not {at(0, NOT)}", NOT
        case "pow":
            return f"{at(0, POSTFIX)}^{at(1, NEGATE)}", POWER
        case "select":
            return f"if {at(0, OR)} then {at(1, OR)} else {at(2, IF)}", IF
        case "reduce" if attrs[0] == "count" and masked:
            return f"sum[{_listed(attrs[1])}]({at(1, IF)})", POSTFIX  # of a mask, which is what is counted
        case "reduce":
            return f"{attrs[0]}[{_listed(attrs[1])}]({at(0, IF)}{masked})", POSTFIX
        case "pick":
            return f"{at(0, POSTFIX)}[{_pairs(graph, node, args)}]", POSTFIX
        case "cumsum" if len(attrs) > 1 and attrs[1]:
            return _from_the_end(graph, str(attrs[0]), at(0, POSTFIX), at(1, POSTFIX) if masked else ""), POSTFIX
        case "logp" | "softmax" | "cumsum":
            return f"{SPELLED.get(op, op)}[{_listed(attrs[0])}]({at(0, IF)}{masked})", POSTFIX
        case "order":
            way = "descending" if attrs[2] else "ascending"
            return f"{way}[{attrs[0]} -> {attrs[1]}]({at(0, IF)}{masked})", POSTFIX
        case "var":
            return f"u{attrs[0]}", POSTFIX
        case "root":
            return f"root(u{attrs[0]} in [{at(0, IF)}, {at(1, IF)}]: {at(2, IF)})", POSTFIX
    inside = ", ".join(at(i, IF) for i in range(len(args)))
    listed = f"[{', '.join(show_attr(a) for a in attrs)}]" if attrs else ""
    return f"{SPELLED.get(op, op)}{listed}({inside})", POSTFIX


def _pairs(graph: Graph, node: Node, args: Sequence[tuple[str, int]]) -> str:
    """What a pick replaces: `C -> i, …`, or `target` alone where its kind says which axis it indexes."""
    axes = _axes(node.attrs[0])
    index = graph.nodes[node.args[1]]
    if len(axes) == 1 and index.op == "leaf" and index.type.kind == f"index {axes[0]}":
        return args[1][0]
    return ", ".join(f"{axis} -> {text}" for axis, (text, _) in zip(axes, args[1:], strict=True))


def _from_the_end(graph: Graph, axis: str, body: str, mask: str) -> str:
    """A running sum from the far end, which the language says as a sum over a copy of the axis."""
    copy = f"{axis}'"
    while copy in graph.axes:
        copy += "'"
    condition = f"{copy} >= {axis}" + (f" and {mask}[{axis} -> {copy}]" if mask else "")
    return f"sum[{copy}]({body}[{axis} -> {copy}] where {condition})"


def _axes(attr: object) -> tuple[str, ...]:
    return tuple(str(a) for a in attr) if isinstance(attr, tuple) else (str(attr),)


def _listed(attr: object) -> str:
    return ", ".join(_axes(attr))
