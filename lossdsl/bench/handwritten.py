"""A loss as one writes it by hand in torch: log_softmax, gather, where, …, the gradient by autograd.

What `lossdsl bench` compares with. Each node of the loss's Graph is one operation of torch, at the sizes and the params
of the measurement, which are numbers in it; rows that may be ignored are not thought of. No digit is saved where terms
cancel beyond what torch's own functions do, as in code that is written to be short.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import torch
import torch.nn.functional as F

from lossdsl.check.types import base_axis
from lossdsl.ir.graph import Graph, Leaf, Node, reachable

Number = bool | int | float
Value = Any  # a proxy with a dimension for each axis of the graph, of size 1 where it doesn't vary; or a number


class NoWordError(Exception):
    """There is no operation of torch for a node."""


class _Never:
    """The index that rows are ignored by: none has it."""


def _clip(x: Value, low: Value, high: Value) -> Value:
    if isinstance(low, Number) and isinstance(high, Number):
        return torch.clamp(x, low, high)
    return torch.minimum(torch.maximum(x, _tensor(low)), _tensor(high))


def _larger(x: Value, y: Value) -> Value:
    if isinstance(x, Number):
        x, y = y, x
    return torch.clamp(x, min=y) if isinstance(y, Number) else torch.maximum(x, y)


def _smaller(x: Value, y: Value) -> Value:
    if isinstance(x, Number):
        x, y = y, x
    return torch.clamp(x, max=y) if isinstance(y, Number) else torch.minimum(x, y)


def _tensor(x: Value) -> Value:
    return torch.tensor(x) if isinstance(x, Number) else x


WORDS: dict[str, Callable[..., Value]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "neg", "eq", "ne", "lt", "le", "gt", "ge")},
    **{name: getattr(torch, name) for name in ("abs", "exp", "log", "expm1", "log1p", "sqrt", "sin", "cos", "tan")},
    **{name: getattr(torch, name) for name in ("acos", "asin", "atan", "tanh", "sigmoid", "erf", "lgamma", "digamma")},
    **{name: getattr(torch, name) for name in ("floor", "round", "sign", "relu", "isfinite", "pow")},
    "mulz": operator.mul,
    "div": operator.truediv,
    "and": operator.and_,
    "or": operator.or_,
    "not": torch.logical_not,
    "softplus": F.softplus,
    "logaddexp": lambda x, y: torch.logaddexp(_tensor(x), _tensor(y)),
    "mod": torch.remainder,
    "maximum": _larger,
    "minimum": _smaller,
    "clip": _clip,
    "within_unit": lambda x: torch.clamp(x, -1, 1),
    "log1mexp": lambda x: torch.log1p(-torch.exp(x)),
    "expsub": lambda x, y: torch.exp(x) - torch.exp(y),
    "expm1mx": lambda x: torch.expm1(x) - x,
    "log1pmx": lambda x: torch.log1p(x) - x,
    "divergence": lambda x, y: torch.exp(x) * (x - y),  # the rest of it, -p + q, sums to 0 where it is used
    "trigamma": lambda x: torch.polygamma(1, x),
    "tetragamma": lambda x: torch.polygamma(2, x),
}
REDUCTIONS: dict[str, tuple[Callable[..., Value], float]] = {
    "sum": (torch.sum, 0),
    "max": (torch.amax, -float("inf")),
    "min": (torch.amin, float("inf")),
    "logsumexp": (torch.logsumexp, -float("inf")),
    "argmax": (lambda x, dims, keep: torch.argmax(x, dims[0], keep), -float("inf")),
}


def handwritten(
    graph: Graph,
    inputs: Sequence[str],
    params: Mapping[str, Any],
    sizes: Mapping[str, int],
    reduced: bool = True,
) -> torch.fx.GraphModule:
    """The mean loss of the inputs, tensors in this order, as a module whose `code` can be read; not `reduced`: a map,
    which is in memory as a whole.

    `params` are numbers or sequences by name (these in float64), `sizes` the extents of axes. NoWordError for a graph
    with an operation that torch has no one word for.
    """
    own = {
        base_axis(a): len(params[leaf.name])
        for leaf in graph.leaves
        if leaf.name in params
        for a in leaf.axes  # of vectors: params have no further axes
    }
    return _Writing(graph, torch.fx.Graph(), {**sizes, **own}).module(inputs, params, reduced)


@dataclass(slots=True)
class _Writing:
    graph: Graph
    lines: torch.fx.Graph
    sizes: Mapping[str, int]
    values: dict[int, Value] = field(default_factory=dict)
    vectors: torch.nn.Module = field(default_factory=torch.nn.Module)
    tracer: Any = None

    def module(self, inputs: Sequence[str], params: Mapping[str, Any], reduced: bool) -> torch.fx.GraphModule:
        self.tracer = torch.fx.proxy.GraphAppendingTracer(self.lines)
        given: dict[str, Value] = {n: self._proxy(self.lines.placeholder(n)) for n in inputs}
        given["@ignore_index"] = _Never()
        leaves = {leaf.name: leaf for leaf in self.graph.leaves}
        outputs = dict(self.graph.outputs)
        for n in reachable(self.graph.nodes, [outputs[name] for name in ("rows", "weight") if name in outputs]):
            node = self.graph.nodes[n]
            if node.op == "leaf":
                leaf = leaves[str(node.attrs[0])]
                x = given[leaf.name] if leaf.name in given else self._param(leaf.name, params[leaf.name])
                self.values[n] = self._laid(leaf, x)
            else:
                self.values[n] = self._value(node)
        rows = outputs["rows"]
        found = self._mean(rows, outputs.get("weight")) if reduced else self._spread(rows, set(self.graph.batch))
        self.lines.output(found.node)
        self.lines.eliminate_dead_code()
        return torch.fx.GraphModule(self.vectors, self.lines)

    def _mean(self, rows: int, weight: int | None) -> Value:
        w = 1 if weight is None else self.values[weight]
        if isinstance(w, Number):
            return self.values[rows].mean() if w == 1 else self.values[rows].mean() / w
        batch = set(self.graph.batch)
        return self._spread(rows, batch).sum() / self._spread(weight or 0, batch).sum()

    def _proxy(self, node: torch.fx.Node) -> torch.fx.Proxy:
        return torch.fx.Proxy(node, self.tracer)

    def _param(self, name: str, x: Any) -> Value:
        if isinstance(x, Number):
            return x
        self.vectors.register_buffer(name, torch.tensor(x, dtype=torch.float64))
        return self._proxy(self.lines.get_attr(name))

    def _laid(self, leaf: Leaf, x: Value) -> Value:
        """A leaf with a dimension for each axis of the graph."""
        if isinstance(x, Number | _Never):
            return x
        order = self.dims(leaf.axes)
        if order != sorted(order):
            x = x.permute(sorted(range(len(order)), key=lambda d: order[d]))
        return x if len(order) == len(self.graph.axes) else x.reshape(self.shape(leaf.axes))

    def size(self, axis: object) -> int:
        return self.sizes[base_axis(str(axis))]

    def shape(self, axes: Collection[str]) -> list[int]:
        return [self.size(a) if a in axes else 1 for a in self.graph.axes]

    def dims(self, axes: Any) -> list[int]:
        return [self.graph.axes.index(a) for a in axes]

    def _spread(self, n: int, axes: Collection[str]) -> Value:
        """A value that is whole along these axes."""
        have = self.graph.nodes[n].type.axes
        return self.values[n] if have >= {*axes} else self.values[n].expand(self.shape({*have, *axes}))

    def _value(self, node: Node) -> Value:
        args = [self.values[a] for a in node.args]
        about: Any = node.attrs[0] if node.attrs else None
        match node.op:
            case "const":
                whole = isinstance(about, bool) or (isinstance(about, Fraction) and about.denominator == 1)
                return about if isinstance(about, bool) else int(about) if whole else float(about)
            case "index":
                places = self._proxy(self.lines.call_function(torch.arange, (self.size(about),)))
                return places.reshape(self.shape([about]))
            case "size":
                return self.size(about)
            case "detach":
                return args[0] if isinstance(args[0], Number) else args[0].detach()
            case "select":
                return _chosen(*args)
            case "reduce":
                return self._reduced(str(about), node)
            case "logp":
                dims = self.dims(about)
                z = self._where(node.args, -float("inf"))
                return torch.log_softmax(z, dims[0]) if len(dims) == 1 else z - torch.logsumexp(z, dims, True)
            case "pick":
                return self._picked(about, node)
        if any(isinstance(a, _Never) for a in args):
            return node.op == "ne"
        if node.op in ("and", "or", "not") and any(isinstance(a, bool) for a in args):
            return _logic(node.op, args)
        if node.op not in WORDS:
            raise NoWordError(node.op)
        if all(isinstance(a, Number) for a in args):
            kind = None if all(isinstance(a, int) for a in args) and node.op not in ("div", "pow") else torch.float64
            return WORDS[node.op](*(torch.tensor(a, dtype=kind) for a in args)).item()
        return WORDS[node.op](*args)

    def _where(self, args: Sequence[int], neutral: float) -> Value:
        """The first value where the second, if there is one, holds."""
        values = [self.values[a] for a in args]
        return values[0] if len(args) == 1 else _chosen(values[1], values[0], neutral)

    def _reduced(self, name: str, node: Node) -> Value:
        axes = [str(a) for a in node.attrs[1]]  # type: ignore[union-attr]
        have = {a for n in node.args for a in self.graph.nodes[n].type.axes}
        dims = self.dims([a for a in axes if a in have])
        times = torch.Size([self.size(a) for a in axes if a not in have]).numel()
        if name == "count":
            x, name = self.values[node.args[1]] if len(node.args) > 1 else 1, "sum"
        elif name in REDUCTIONS:
            x = self._where(node.args, REDUCTIONS[name][1])
        else:
            raise NoWordError(name)
        if name == "sum":
            if isinstance(x, Number):
                return x * torch.Size([self.size(a) for a in axes]).numel()
            total = torch.sum(x, dims, True) if dims else x
            return total if times == 1 else total * times
        if times != 1:
            raise NoWordError(f"{name} of what is the same all over")
        return REDUCTIONS[name][0](x, dims, True)

    def _picked(self, axes: Sequence[str], node: Node) -> Value:
        """The entries by an index."""
        if len(axes) != 1:
            raise NoWordError("pick along several axes")
        e, i = node.args
        (axis,), (dim,) = axes, self.dims(axes)
        have, by = self.graph.nodes[e].type.axes, self.graph.nodes[i].type.axes
        if isinstance(self.values[i], Number):
            return self.values[e].narrow(dim, self.values[i], 1)
        if have == {axis}:
            return self.values[e].reshape(-1)[self.values[i]]
        return self._spread(e, by - {axis}).gather(dim, self._spread(i, have - {axis}))


def _chosen(condition: Value, yes: Value, no: Value) -> Value:
    if isinstance(condition, bool):
        return yes if condition else no
    if isinstance(yes, Number) and isinstance(no, Number) and yes == no:
        return yes
    return torch.where(condition, yes, no)


def _logic(op: str, args: Sequence[Value]) -> Value:
    """With one side known."""
    if op == "not":
        return not args[0]
    known, other = (args[0], args[1]) if isinstance(args[0], bool) else (args[1], args[0])
    return other if known == (op == "and") else known
