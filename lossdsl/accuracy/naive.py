"""The equation as a torch user would type it: plain tensor operations in the inputs' dtype, with autograd's gradient.

What the table prints beside a backend's errors. It reads the graph that no rule has touched; softmax, log_softmax,
logsumexp and softplus are torch's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lossdsl.accuracy.exact import Written, extents_of
from lossdsl.accuracy.rows import Case
from lossdsl.check.types import base_axis
from lossdsl.ir.graph import Graph, Node, reachable

if TYPE_CHECKING:
    from torch import Tensor

Array = Any


class NotWrittenError(Exception):
    """The equation has an operation that torch has no function for (a root, an order of matrices)."""


def run_naive(loss: Written, case: Case, dtype: str) -> dict[str, Array]:
    """Value of every row and gradient of their sum; NotWrittenError where torch can't say the equation."""
    graph = loss.plain
    kind = getattr(torch, dtype)
    tensors: dict[str, Tensor] = {}
    for leaf in graph.leaves:
        if leaf.name in case.leaves:
            x = torch.tensor(np.array(case.leaves[leaf.name]))
            real = leaf.type.kind == "real"
            tensors[leaf.name] = x.to(kind).requires_grad_(leaf.name in loss.inputs) if real else x
    root = graph.output("rows")
    sizes = extents_of(graph, case)
    run = _Run(graph, [sizes.get(a, case.sizes.get(base_axis(a), 1)) for a in graph.axes], tensors, kind)
    for n in reachable(graph.nodes, [root]):
        run.values[n] = run.value(graph.nodes[n])
    rows = run.values[root]
    shape = [run.sizes[graph.axes.index(a)] for a in graph.axes if a in graph.batch]
    rows = rows.expand([run.sizes[d] if a in graph.batch else 1 for d, a in enumerate(graph.axes)]).reshape(shape)
    found = {"rows": rows.detach().double().numpy()}
    wanted = [tensors[name] for name in loss.inputs]
    grads = torch.autograd.grad(rows.sum(), wanted, allow_unused=True) if rows.requires_grad else [None] * len(wanted)
    for name, t, g in zip(loss.inputs, wanted, grads, strict=True):
        found[f"grad.{name}"] = (torch.zeros_like(t) if g is None else g).double().numpy()
    return found


_OWN: dict[str, Callable[..., Tensor]] = {
    **{n: getattr(torch, n) for n in ("add", "sub", "neg", "mul", "abs", "exp", "log", "sqrt", "sin", "cos", "tan")},
    **{n: getattr(torch, n) for n in ("acos", "asin", "atan", "tanh", "sigmoid", "erf", "lgamma", "digamma", "floor")},
    **{n: getattr(torch, n) for n in ("round", "relu", "log1p", "expm1", "sign", "eq", "ne", "lt", "le", "gt", "ge")},
    "div": torch.true_divide,
    "pow": torch.pow,
    "mod": torch.remainder,
    "softplus": torch.nn.functional.softplus,
    "logaddexp": torch.logaddexp,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "clip": lambda x, low, high: torch.minimum(torch.maximum(x, low), high),
    "select": lambda c, a, b: torch.where(c.bool(), a, b),
    "and": lambda a, b: a.bool() & b.bool(),
    "or": lambda a, b: a.bool() | b.bool(),
    "not": lambda a: ~a.bool(),
    "isfinite": torch.isfinite,
}
_REAL = frozenset({"div", "exp", "log", "sqrt", "pow", "sigmoid", "tanh", "log1p", "expm1", "softplus", "sin", "cos"})

_NEUTRAL = {"sum": 0, "prod": 1, "min": torch.inf} | dict.fromkeys(("max", "logsumexp", "argmax"), -torch.inf)


def _constant(value: Any) -> Tensor:
    if isinstance(value, bool):
        return torch.tensor(value)
    number = float(value)
    whole = abs(number) < 2**53 and number == int(number)
    return torch.tensor(int(number)) if whole else torch.tensor(number, dtype=torch.float64)


class _Run:
    def __init__(self, graph: Graph, sizes: list[int], tensors: Mapping[str, Tensor], kind: torch.dtype) -> None:
        self.kind = kind
        self.graph = graph
        self.sizes = sizes
        self.tensors = tensors
        self.values: dict[int, Tensor] = {}

    def dims(self, axes: Sequence[str]) -> list[int]:
        return [self.graph.axes.index(a) for a in axes]

    def whole(self, x: Tensor, dims: Sequence[int]) -> Tensor:
        return x.expand([self.sizes[d] if d in dims else n for d, n in enumerate(x.shape)])

    def value(self, node: Node) -> Tensor:
        args = [self.values[a] for a in node.args]
        rank = len(self.graph.axes)
        match node.op:
            case "const":
                return _constant(node.attrs[0]).reshape((1,) * rank)
            case "leaf":
                leaf = next(x for x in self.graph.leaves if x.name == node.attrs[0])
                order = sorted(range(len(leaf.axes)), key=lambda d: self.graph.axes.index(leaf.axes[d]))
                shape = [self.sizes[d] if a in leaf.axes else 1 for d, a in enumerate(self.graph.axes)]
                return self.tensors[leaf.name].permute(order).reshape(shape)
            case "index":
                (d,) = self.dims([str(node.attrs[0])])
                return torch.arange(self.sizes[d]).reshape([-1 if e == d else 1 for e in range(rank)])
            case "size":
                return torch.tensor(self.sizes[self.dims([str(node.attrs[0])])[0]]).reshape((1,) * rank)
            case "detach":
                return args[0].detach()
            case "exp" if self.graph.nodes[node.args[0]].op == "logp":
                return self.softmax(self.graph.nodes[node.args[0]], log=False)
            case "logp":
                return self.softmax(node, log=True)
            case "reduce":
                return self.reduce(node, args)
            case "pick":
                return self.pick(args[0], dict(zip(self.dims(node.attrs[0]), args[1:], strict=True)))  # type: ignore[arg-type]
            case "cumsum":
                (d,) = self.dims([str(node.attrs[0])])
                x = self.whole(args[0] if len(args) == 1 else torch.where(args[1].bool(), args[0], 0), [d])
                return x.flip(d).cumsum(d).flip(d) if len(node.attrs) > 1 else x.cumsum(d)
        if node.op in _OWN:
            return _OWN[node.op](*self.promoted(node.op, args))
        raise NotWrittenError(node.op)

    def pick(self, x: Tensor, indices: Mapping[int, Tensor]) -> Tensor:
        where = []
        for d, n in enumerate(x.shape):
            if d in indices:
                where.append(indices[d] if n > 1 else torch.zeros_like(indices[d]))
            else:
                where.append(torch.arange(n).reshape([-1 if e == d else 1 for e in range(x.ndim)]))
        return x[tuple(where)]

    def promoted(self, op: str, args: list[Tensor]) -> list[Tensor]:
        real = op in _REAL or any(a.is_floating_point() for a in args)
        conditions = {"select": 1, "and": 2, "or": 2, "not": 1}.get(op, 0)
        out = []
        for i, a in enumerate(args):
            if i < conditions:
                out.append(a)
            elif real:
                out.append(a.to(self.kind))
            else:
                out.append(a.long() if a.dtype == torch.bool else a)
        return out

    def softmax(self, node: Node, log: bool) -> Tensor:
        dims = self.dims(node.attrs[0])  # type: ignore[arg-type]
        z = self.whole(self.values[node.args[0]], dims)
        if len(node.args) > 1:
            z = torch.where(self.whole(self.values[node.args[1]], dims).bool(), z, -torch.inf)
        if len(dims) == 1:
            return (torch.log_softmax if log else torch.softmax)(z, dims[0])
        result = z - torch.logsumexp(z, dims, keepdim=True)
        return result if log else result.exp()

    def reduce(self, node: Node, args: list[Tensor]) -> Tensor:
        name, dims = str(node.attrs[0]), self.dims(node.attrs[1])  # type: ignore[arg-type]
        x = args[0]
        keep = args[1].bool() if len(args) > 1 else None
        if keep is not None:
            shape = np.broadcast_shapes(x.shape, keep.shape)
            x, keep = x.expand(shape), keep.expand(shape)
        x = self.whole(x, dims)
        if name == "count":
            there = torch.ones_like(x, dtype=torch.bool) if keep is None else self.whole(keep, dims)
            return there.sum(dims, keepdim=True)
        if name not in _NEUTRAL:
            raise NotWrittenError(name)
        if not x.is_floating_point() and name not in ("sum", "prod"):
            x = x.to(self.kind)
        if keep is not None:
            x = torch.where(self.whole(keep, dims), x, _NEUTRAL[name])
        match name:
            case "sum":
                return x.sum(dims, keepdim=True)
            case "logsumexp":
                return torch.logsumexp(x, dims, keepdim=True)
            case "max":
                return x.amax(dims, keepdim=True)
            case "min":
                return x.amin(dims, keepdim=True)
            case "prod":
                for d in dims:
                    x = x.prod(d, keepdim=True)
                return x
        return x.argmax(dims[0], keepdim=True)
