"""The examples of a file, run at 50 digits: the digits that are given are the digits that are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import inf, isinf, isnan, nan, pi
from typing import Any

import numpy as np

from lossdsl.check.sizes import ordered, size_axes
from lossdsl.check.typed import CheckedLoss, Input
from lossdsl.check.types import base_axis
from lossdsl.ir.graph import Graph
from lossdsl.ir.inputs import GIVEN
from lossdsl.ir.interpret import evaluate
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import Diagnostic, Label
from lossdsl.source.text import Span
from lossdsl.syntax import ast

EXACT = Decimal("1e-9")  # how near a value must be to one that is given as a whole number
IGNORED = -100  # the default of ignore_index
NAMED = {"inf": inf, "nan": nan, "pi": pi, "true": 1.0, "false": 0.0}
DTYPES = {"real": np.float64, "prob": np.float64, "bool": np.bool_}  # every other kind is an integer


@dataclass(frozen=True, slots=True)
class ExampleResult:
    """`got` is the value as text with a few digits more than were given; a Diagnostic says what is wrong."""

    span: Span
    expected: str
    got: str
    problem: Diagnostic | None

    @property
    def ok(self) -> bool:
        return self.problem is None


class UnfitError(Exception):
    """An example whose tensors don't fit, or a size that is none."""

    def __init__(self, message: str, span: Span, fix: str = "") -> None:
        super().__init__(message)
        self.span = span
        self.fix = fix


def run_examples(
    checked: CheckedLoss, registry: Registry, graph_of: Callable[[Mapping[str, str]], Graph]
) -> tuple[ExampleResult, ...]:
    """Every example of a loss. `graph_of` lowers the loss with the modes that an example chooses.

    A wrong value is E0901, an example whose tensors don't fit E0902; neither raises.
    """
    return tuple(_example(checked, registry, graph_of, example) for example in checked.examples)


def _example(
    checked: CheckedLoss, registry: Registry, graph_of: Callable[[Mapping[str, str]], Graph], example: ast.Example
) -> ExampleResult:
    expected = "?"
    try:
        shape, numbers = _entries(example.gives)
        wanted = [_digits(number) for number in numbers]
        expected = _nested([text for text, _, _ in wanted], shape)
        given = {name.name: (name, value) for name, value in example.bindings}
        graph = graph_of(modes_of(checked, example))
        leaves, sizes = _leaves(checked, registry, graph, given, example.span)
        values = evaluate(graph, registry, leaves, _outputs(graph), "mpmath", sizes)
        found = _result(checked, values, shape, example.span)
    except UnfitError as error:
        problem = Diagnostic("E0902", str(error), (Label(error.span, "here"),), error.fix)
        return ExampleResult(example.span, expected, "", problem)
    got = _nested([_text(value, quantum) for value, (_, _, quantum) in zip(found, wanted, strict=True)], shape)
    if all(_agrees(value, goal, quantum) for value, (_, goal, quantum) in zip(found, wanted, strict=True)):
        return ExampleResult(example.span, expected, got, None)
    label = Label(example.gives.span, f"the file's own equation gives {got}")
    message = f"the example gives {got}, not {expected}"
    return ExampleResult(example.span, expected, got, Diagnostic("E0901", message, (label,), f"write {got}"))


def at_example(
    checked: CheckedLoss, registry: Registry, graph: Graph, example: ast.Example
) -> tuple[dict[str, Any], dict[str, int]]:
    """Arrays for every input and param at an example that holds, and the extents of axes that none of them has."""
    given = {name.name: (name, value) for name, value in example.bindings}
    return _leaves(checked, registry, graph, given, example.span)


def modes_of(checked: CheckedLoss, example: ast.Example) -> dict[str, str]:
    """The modes that an example chooses."""
    given = {name.name: value for name, value in example.bindings}
    return {p.name: _mode(given[p.name]) for p in checked.params if p.modes and p.name in given}


def _outputs(graph: Graph) -> list[str]:
    return [name for name, _ in graph.outputs if name in ("rows", "weight")]


def _mode(expr: ast.Expr) -> str:
    if isinstance(expr, ast.Name):
        return expr.name
    raise UnfitError("a mode is one of its names", expr.span)


def _result(checked: CheckedLoss, values: Mapping[str, Any], shape: tuple[int, ...], span: Span) -> list[Any]:
    """The numbers that a call with the file's own reduction returns: of a map its entries, in the order of its axes."""
    rows = np.asarray(values["rows"])
    if checked.reduction is None and rows.shape != shape and not (rows.size == 1 and shape == ()):
        extents = " x ".join(map(str, rows.shape))
        raise UnfitError(f"the result has {extents} entries" if rows.size != 1 else "the result is one number", span)
    if checked.reduction is not None and shape:
        raise UnfitError(f"the result is one number, a {checked.reduction}", span)
    if checked.reduction is None:
        return list(rows.flat)
    total = rows.sum() if rows.size else 0
    if checked.reduction != "mean":
        return [total]
    count = np.broadcast_to(values["weight"], rows.shape).sum() if "weight" in values else rows.size
    return [total / count if count else 0]


def _entries(expr: ast.Expr) -> tuple[tuple[int, ...], list[ast.Expr]]:
    """The shape of what an example gives and the numbers in it: () and one of them unless it is a list."""
    if not isinstance(expr, ast.Vector):
        return (), [expr]
    parts = [_entries(item) for item in expr.items]
    shapes = {shape for shape, _ in parts}
    if len(shapes) != 1:
        raise UnfitError("the rows of what the example gives differ in length", expr.span)
    return (len(parts), *shapes.pop()), [number for _, numbers in parts for number in numbers]


def _nested(texts: list[str], shape: tuple[int, ...]) -> str:
    """Numbers in the brackets of their shape."""
    if not shape:
        return texts[0]
    size = len(texts) // shape[0]
    rows = (_nested(texts[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0]))
    return f"[{', '.join(rows)}]"


def _leaves(
    checked: CheckedLoss,
    registry: Registry,
    graph: Graph,
    given: Mapping[str, tuple[ast.Name, ast.Expr]],
    span: Span,
) -> tuple[dict[str, Any], dict[str, int]]:
    """Arrays for every input and param of the loss, from the example or their defaults, and the extents of axes."""
    leaves: dict[str, Any] = {leaf.name: np.asarray(IGNORED) for leaf in graph.leaves if leaf.name == "@ignore_index"}
    leaves |= {leaf.name: np.asarray(1) for leaf in graph.leaves if leaf.name.startswith(GIVEN)}
    sizes: dict[str, tuple[int, str]] = {}
    for param in checked.params:
        if not param.modes:
            value = _array(*given[param.name], param.axes, np.float64) if param.name in given else param.default
            leaves[param.name] = np.asarray(value, dtype=np.float64)
    for item in checked.inputs:
        if item.name in given:
            dtype = DTYPES.get(item.kind.split(" ")[0], np.int64)
            leaves[item.name] = _array(*given[item.name], item.axes, dtype)
            _bind(sizes, item, leaves[item.name].shape, given[item.name][1].span)
    for item in checked.inputs:
        if item.name in given:
            continue
        if item.default is None:
            hint = "a drawn input has no fixed value" if item.draw else "it has no default"
            raise UnfitError(f"the example gives no {item.name!r}, and {hint}", span, f"add `{item.name} = …`")
        known = extents(checked, registry, graph, leaves, sizes)
        name = f"default.{item.name}"
        value = evaluate(graph, registry, leaves, [name], sizes=known)[name]
        if any(base_axis(axis) not in known for axis in item.axes):
            raise UnfitError(f"nothing in the example says how large {item.name!r} is", span, f"add `{item.name} = …`")
        leaves[item.name] = np.broadcast_to(value, [known[base_axis(axis)] for axis in item.axes])
    known = extents(checked, registry, graph, leaves, sizes)
    for item in checked.inputs:
        if item.name in given:
            _within(item, leaves[item.name], known, "@ignore_index" in leaves, given[item.name][1].span)
    return leaves, known


def _within(item: Input, values: Any, known: Mapping[str, int], ignores: bool, span: Span) -> None:
    """UnfitError where class indices lie outside their axis and aren't those of samples that are left out."""
    word, _, axis = item.kind.partition(" ")
    size = known.get(base_axis(axis)) if word == "index" else None
    if size is None:
        return
    wrong = values[((values < 0) | (values >= size)) & ~(ignores & (values == IGNORED))]
    if wrong.size:
        message = f"{item.name!r} is an index into {axis}, whose size is {size} here, and can't be {wrong.flat[0]}"
        raise UnfitError(message, span, f"write indices from 0 to {size - 1}" if size else "")


def extents(
    checked: CheckedLoss,
    registry: Registry,
    graph: Graph,
    leaves: Mapping[str, Any],
    bound: Mapping[str, tuple[int, str]],
) -> dict[str, int]:
    """The extents of axes: those that tensors bind, and those that the file gives, as far as they are known."""
    known = {axis: size for axis, (size, _) in bound.items()}
    outputs = dict(graph.outputs)
    for axis, size in ordered(checked.axes):
        if axis in known:
            continue
        match size.op:
            case "const":
                known[axis] = int(float(size.attrs[0]))  # type: ignore[arg-type]
            case "leaf":
                known[axis] = int(leaves[str(size.attrs[0])])
            case "size" if base_axis(str(size.attrs[0])) in known:
                known[axis] = known[base_axis(str(size.attrs[0]))]
            case op if op != "size" and size_axes(size) <= set(known):
                name = f"size.{axis}"
                value = float(evaluate(graph, registry, leaves, [name], sizes=known)[name]) if name in outputs else nan
                if not value.is_integer() or value < 0:
                    raise UnfitError(f"the axis {axis} can't be {value:g} long", size.span)
                known[axis] = int(value)
    return known


def _bind(sizes: dict[str, tuple[int, str]], item: Input, shape: tuple[int, ...], span: Span) -> None:
    for axis, size in zip(item.axes, shape, strict=True):
        bound, by = sizes.setdefault(base_axis(axis), (size, item.name))
        if bound != size:
            raise UnfitError(f"{axis} = {bound} from {by!r}, but {item.name!r} has {size}", span)


def _array(name: ast.Name, expr: ast.Expr, axes: tuple[str, ...], dtype: Any) -> Any:
    value = _literal(expr)
    try:
        array = np.asarray(value, dtype=np.float64)
    except ValueError:
        raise UnfitError(f"the rows of {name.name!r} differ in length", expr.span) from None
    if array.ndim != len(axes):
        shape = f"[{', '.join(axes)}]" if axes else "a single number"
        raise UnfitError(f"{name.name!r} is {shape}, but the example's value has {array.ndim} dimensions", expr.span)
    if dtype is not np.float64 and not np.array_equal(array, array.astype(np.int64)):
        raise UnfitError(f"{name.name!r} takes whole numbers", expr.span)
    return array.astype(dtype)


def _literal(expr: ast.Expr) -> Any:
    """A number, or nested lists of them."""
    match expr:
        case ast.Number():
            return float(expr.text)
        case ast.Vector():
            return [_literal(item) for item in expr.items]
        case ast.Name() if expr.name in NAMED:
            return NAMED[expr.name]
        case ast.Unary(op="-"):
            return -_number(expr.value)
        case ast.Binary(op="+" | "-" | "*" | "/"):
            a, b = _number(expr.left), _number(expr.right)
            if expr.op == "/":
                return a / b if b else nan
            return a + b if expr.op == "+" else a - b if expr.op == "-" else a * b
    raise UnfitError("an example's values are numbers and lists of them", expr.span)


def _number(expr: ast.Expr) -> float:
    value = _literal(expr)
    if isinstance(value, float):
        return value
    raise UnfitError("an example's values are numbers and lists of them", expr.span)


def _digits(expr: ast.Expr) -> tuple[str, Any, Decimal]:
    """The text of what an example gives, its value, and the unit of its last digit (0 for a whole number)."""
    sign, inner = ("-", expr.value) if isinstance(expr, ast.Unary) else ("", expr)
    if isinstance(inner, ast.Number):
        number = Decimal(sign + inner.text)
        exponent = number.as_tuple().exponent
        assert isinstance(exponent, int)
        whole = "." not in inner.text and "e" not in inner.text.lower()
        return sign + inner.text, number, Decimal(0) if whole else Decimal(1).scaleb(exponent)
    value = _number(expr)
    return sign + (inner.name if isinstance(inner, ast.Name) else str(value)), value, Decimal(0)


def _decimal(value: Any) -> Decimal | None:
    """A value as a Decimal of 50 digits or so; None for what isn't a finite number."""
    as_float = float(value)
    if isinf(as_float) or isnan(as_float):
        return None
    return Decimal(str(value)) if not isinstance(value, float | int | np.generic) else Decimal(as_float)


def _agrees(value: Any, wanted: Any, quantum: Decimal) -> bool:
    exact = _decimal(value)
    goal = wanted if isinstance(wanted, Decimal) else _decimal(wanted)
    if exact is None or goal is None:
        return float(value) == float(wanted) or (isnan(float(value)) and isnan(float(wanted)))
    room = quantum / 2 * (1 + EXACT) if quantum else EXACT * max(Decimal(1), abs(goal))
    return abs(exact - goal) <= room


def _text(value: Any, quantum: Decimal) -> str:
    """A value to the digits that were given, or to seven where none were."""
    exact = _decimal(value)
    if exact is None:
        return str(float(value))
    if not quantum:
        return f"{float(exact):.7g}"
    return str(exact.quantize(quantum)) if "E" not in str(exact.quantize(quantum)) else f"{float(exact):.7g}"
