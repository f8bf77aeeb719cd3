"""A Graph's outputs as formulas that a person reads, in the language's own spelling.

What stands for absence (`ignore_index`) and the cotangent of the rows are set to what they are for an entry that
counts, so that the gradient reads like the one in the paper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lossdsl.ir.builder import Builder
from lossdsl.ir.dump import show_attr
from lossdsl.ir.graph import Graph, JointGraph, Node
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
        elif name in constants:
            instead[n] = constants[name]
        elif node.op == "eq" and ignored & set(node.args):
            instead[n] = b.const(False)
    ids = b.replay(old, instead)
    return b.graph({name: ids[node] for name, node in old.outputs if name == "rows" or name.startswith("grad.")})


def formulas(graph: Graph, outputs: Sequence[str]) -> Formulas:
    """The named outputs as text. What is used more than once, or is long, gets a name t1, t2, …"""
    roots = [graph.output(name) for name in outputs]
    needed = _needed(graph, roots)
    uses = Counter(arg for n in needed for arg in graph.nodes[n].args)
    uses.update(roots)
    texts: dict[int, tuple[str, int]] = {}
    lets: list[tuple[str, str]] = []
    for n in sorted(needed):
        node = graph.nodes[n]
        text, level = _spell(node, [texts[arg] for arg in node.args], [graph.nodes[arg] for arg in node.args])
        shared = uses[n] > 1 or len(text) > LONGEST
        if shared and node.op not in ATOMS and n not in roots:
            name = f"t{len(lets) + 1}"
            lets.append((_with_axes(graph, name, node), text))
            text, level = name, POSTFIX
        texts[n] = (text, level)
    named = tuple((name, texts[root][0]) for name, root in zip(outputs, roots, strict=True))
    return Formulas(tuple(lets), named)


def _needed(graph: Graph, roots: Sequence[int]) -> set[int]:
    needed: set[int] = set()
    stack = list(roots)
    while stack:
        n = stack.pop()
        if n not in needed:
            needed.add(n)
            stack += graph.nodes[n].args
    return needed


def _with_axes(graph: Graph, name: str, node: Node) -> str:
    axes = [axis for axis in graph.axes if axis in node.type.axes]
    return f"{name}[{', '.join(axes)}]" if axes else name


def _spell(node: Node, args: Sequence[tuple[str, int]], nodes: Sequence[Node]) -> tuple[str, int]:
    """The text of a node and how tightly it binds."""

    def at(i: int, least: int) -> str:
        text, level = args[i]
        return text if level >= least else f"({text})"

    op, attrs = node.op, node.attrs
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
        case "reduce":
            where = f" where {at(1, OR)}" if len(args) > 1 else ""
            return f"{attrs[0]}[{', '.join(_axes(attrs[1]))}]({at(0, IF)}{where})", POSTFIX
        case "pick":
            pairs = [_pair(axis, args[i + 1][0], nodes[i + 1]) for i, axis in enumerate(_axes(attrs[0]))]
            return f"{at(0, POSTFIX)}[{', '.join(pairs)}]", POSTFIX
        case "logp" | "softmax" | "cumsum":
            where = f" where {at(1, OR)}" if len(args) > 1 else ""
            axes = ", ".join(name for a in attrs for name in _axes(a))
            return f"{SPELLED.get(op, op)}[{axes}]({at(0, IF)}{where})", POSTFIX
    inside = ", ".join(at(i, IF) for i in range(len(args)))
    listed = f"[{', '.join(show_attr(a) for a in attrs)}]" if attrs else ""
    return f"{SPELLED.get(op, op)}{listed}({inside})", POSTFIX


def _pair(axis: str, index: str, node: Node) -> str:
    """`target` where its kind says which axis it indexes, else `C -> i`."""
    return index if node.op == "leaf" and node.type.kind == f"index {axis}" else f"{axis} -> {index}"


def _axes(attr: object) -> tuple[str, ...]:
    return tuple(str(a) for a in attr) if isinstance(attr, tuple) else (str(attr),)
