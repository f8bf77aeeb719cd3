"""A debug build: a loss that looks at each of its results, and says where one that isn't finite came from.

The kernels are as they always are. Where a value or a gradient is infinite or NaN, the loss's graph is evaluated again
for the same tensors, in float64 where any of them is or all is to be precise, else in float32, and the first of its
nodes that isn't finite is named: by the line of the file it comes from, its expression and its sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lossdsl.derive.formula import spelled
from lossdsl.ir.graph import Graph, Node, reachable
from lossdsl.ir.interpret import Trace, trace
from lossdsl.registry import Registry
from lossdsl.source.text import Source, Span

Array = Any


def debugging(
    kind: type[Any], source: Source, registry: Registry, modes: Mapping[str, str], precise: bool = False
) -> type[Any]:
    """The class of a loss's debug build. Its calls raise FloatingPointError; a backward pass through it, too."""
    import torch

    from lossdsl.runtime.binding import bind

    class Debugging(kind):  # type: ignore[misc]
        def call(self, inputs: tuple[Any, ...], overrides: tuple[Any, ...], *options: Any, **named: Any) -> Any:
            watched = tuple(_alias(x) for x in inputs)
            inplace = named.get("inplace")
            if self.inplace if inplace is None else inplace:  # the gradient comes where they lie
                inputs = tuple(x.detach().clone() if isinstance(x, torch.Tensor) else x for x in inputs)
            result = super().call(watched, overrides, *options, **named)
            loss = result[0] if isinstance(result, tuple) else result
            given = [p if p is not None else own for p, own in zip(overrides, self._own(), strict=True)]

            def leaves() -> dict[str, Array]:
                signature = self.compiled.signature
                params = {s.name: torch.as_tensor(p) for s, p in zip(signature.params, given, strict=True)}
                class_dim = self.class_dim if options[3] is None else options[3]
                bound = bind(signature, inputs, params, class_dim)
                tensors = dict(zip((s.name for s in signature.inputs), bound.tensors, strict=True)) | params
                return {name: _array(x) for name, x in tensors.items()}

            wide = precise or any(isinstance(x, torch.Tensor) and x.dtype == torch.float64 for x in inputs)
            number = "float64" if wide else "float32"

            def look(x: Any, output: str) -> None:
                if not torch.isfinite(x).all():
                    dtype = str(x.dtype).removeprefix("torch.")
                    raise FloatingPointError(found_in(source, registry, modes, leaves(), output, number, dtype))

            look(loss, "rows")
            for x, spec in zip(watched, self.compiled.signature.inputs, strict=True):
                if isinstance(x, torch.Tensor) and x.requires_grad:
                    output = f"grad.{spec.name}"
                    x.register_hook(lambda g, output=output: look(g, output))  # type: ignore[no-untyped-call]
            return result

    def _array(x: Any) -> Array:
        x = x.detach().cpu()
        return (x.double() if x.is_floating_point() else x).numpy()

    def _alias(x: Any) -> Any:
        return x.view_as(x) if isinstance(x, torch.Tensor) and x.requires_grad else x

    Debugging.__name__ = Debugging.__qualname__ = kind.__name__
    return Debugging


def found_in(
    source: Source,
    registry: Registry,
    modes: Mapping[str, str],
    leaves: Mapping[str, Array],
    output: str,
    number: str = "float32",
    dtype: str = "float32",
) -> str:
    """What to say of an output ("rows" or "grad.X") of a dtype that isn't finite for these tensors, when the loss
    computes in `number`.
    """
    from lossdsl.pipeline import middle

    graph = middle(source, registry, modes).joint.graph
    given = {**leaves}
    if "ignore_index" in given:
        given["@ignore_index"] = given.pop("ignore_index")
    shapes = {a: n for x in graph.leaves if x.name in given for a, n in zip(x.axes, given[x.name].shape, strict=True)}
    for leaf in graph.leaves:
        if leaf.role == "seed":
            given[leaf.name] = np.full([shapes[a] for a in leaf.axes], float(not leaf.name.startswith("@weight")))
    found = trace(graph, registry, given, [output], number, shapes)
    sample = _sample(graph, found, output)
    if sample is None:
        return f"{graph.name}: {_named(output)} is not finite, though {_elsewhere(number, dtype)}"
    where = ", ".join(f"{a} = {i}" for a, i in sample.items())
    title = f"{graph.name}: {_named(output)} is not finite" + (f" in sample {where}" if where else "")
    n = _first(graph, found, sample, output)
    node = graph.nodes[n]
    at = _at(graph, found.values[n], sample)
    words = {m: _text(source, x.origin) for m, x in enumerate(graph.nodes) if x.origin is not None}
    said = words.get(n) or spelled(graph, n, words)
    operands = ", ".join(
        f"{words.get(a) or spelled(graph, a, words)} = {_shown(_at(graph, found.values[a], sample))}"
        for a in node.args
        if graph.nodes[a].op != "const"
    )
    span = _origin(graph, n)
    line = f"{source.name}:{source.position(span.start)[0]}: " if span is not None else ""
    return f"{title}\n{line}`{said}` is the first: {_shown(at)}" + (f", from {operands}" if operands else "")


def _elsewhere(number: str, dtype: str) -> str:
    """Where to look when the loss and its first derivatives are finite."""
    if dtype not in ("float32", "float64"):
        return f"in {number} it is: it is beyond {dtype}, or what its gradient is given is not finite"
    return (
        "evaluated by itself it is: look at what its gradient is given, or, of a gradient's gradient, at the second "
        "derivative"
    )


def _named(output: str) -> str:
    return "the value" if output == "rows" else f"the gradient in {output.removeprefix('grad.')}"


def _sample(graph: Graph, found: Trace, output: str) -> dict[str, int] | None:
    """The batch indices of the first entry of the output that isn't finite."""
    x = found.values[graph.output(output)]
    bad = ~np.isfinite(x)
    if not bad.any():
        return None
    place = np.argwhere(bad)[0]
    return {a: int(place[d]) for d, a in enumerate(graph.axes) if a in graph.batch and x.shape[d] > 1}


def _at(graph: Graph, x: Array, sample: Mapping[str, int]) -> Array:
    """The part of a value that belongs to a sample."""
    where = tuple(
        slice(sample[a], sample[a] + 1) if a in sample and x.shape[d] > 1 else slice(None)
        for d, a in enumerate(graph.axes)
    )
    return x[where]


def _first(graph: Graph, found: Trace, sample: Mapping[str, int], output: str) -> int:
    """The first node that is not finite though its operands are, of those that the output's own trouble comes from."""
    parts = {n: _at(graph, x, sample) for n, x in found.values.items() if graph.nodes[n].type.kind == "real"}
    root = graph.output(output)
    if np.isnan(parts[root]).any():
        root = next(n for n in sorted(parts) if np.isnan(parts[n]).any())
    below = [n for n in reachable(graph.nodes, [root]) if n in parts and graph.nodes[n].op != "const"]
    bad = [n for n in below if not _finite(parts, n)]
    made = [n for n in bad if _computed(graph.nodes[n]) and all(_finite(parts, a) for a in graph.nodes[n].args)]
    return (made or bad)[0]


def _computed(node: Node) -> bool:
    return node.op not in ("leaf", "const")


def _finite(parts: Mapping[int, Array], n: int) -> bool:
    return n not in parts or bool(np.isfinite(parts[n]).all())


def _origin(graph: Graph, n: int) -> Span | None:
    """Where a node comes from; of one that was derived, where its operands do."""
    stack: Sequence[int] = [n]
    while stack:
        for m in stack:
            if graph.nodes[m].origin is not None:
                return graph.nodes[m].origin
        stack = [a for m in stack for a in graph.nodes[m].args]
    return None


def _shown(x: Array) -> str:
    flat = np.ravel(x)
    some = [f"{v:g}" for v in flat[:6]]
    return some[0] if len(flat) == 1 else f"[{', '.join(some)}{', …' if len(flat) > 6 else ''}]"


def _text(source: Source, span: Span) -> str:
    return " ".join(source.text[span.start : span.end].split())
