""".loss texts through check and lower, and what they are worth."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lossdsl.check.check import check
from lossdsl.check.typed import CheckedLoss, Term
from lossdsl.check.types import base_axis
from lossdsl.ir.graph import Graph, JointGraph
from lossdsl.ir.interpret import evaluate
from lossdsl.ir.lower import IGNORE, lower
from lossdsl.primitives.scan import load_primitives
from lossdsl.reductions.scan import load_reductions
from lossdsl.registry import LossFile, Registry
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse

Array = np.ndarray[Any, Any]
HERE = Path(__file__).parent
LOSSES = {f.stem: LossFile("std", f.stem, str(f), "lossdsl 0") for f in sorted((HERE / "called").glob("*.loss"))}
REGISTRY = Registry(load_primitives(), load_reductions(), {f"std/{k}": v for k, v in LOSSES.items()})


def text_of(name: str) -> str:
    """The text of a file that the language must be able to say."""
    return (HERE / "cases" / f"{name}.loss").read_text(encoding="utf-8")


@cache
def checked(text: str) -> CheckedLoss:
    source = Source("test.loss", text)
    return check(parse(source), source, REGISTRY)


@cache
def graph(text: str) -> Graph:
    return lower(checked(text), REGISTRY)


@cache
def joint(text: str) -> JointGraph:
    from lossdsl.derive.derive import derive

    return derive(graph(text), REGISTRY)


def leaves_of(text: str, given: Mapping[str, Any], ignore_index: int = -100) -> tuple[dict[str, Any], dict[str, int]]:
    """What is given together with params' and inputs' defaults, and the sizes of axes that no input has."""
    loss = checked(text)
    leaves: dict[str, Any] = {p.name: p.default for p in loss.params if not p.modes} | {IGNORE: ignore_index}
    leaves |= given
    sizes: dict[str, int] = {}
    for i in loss.inputs:
        if i.name in given:
            sizes |= dict(zip(i.axes, np.shape(given[i.name]), strict=True))
    bases = {base_axis(a): n for a, n in sizes.items()}
    for axis in loss.axes:
        if axis.size is not None and base_axis(axis.name) not in bases:
            bases[base_axis(axis.name)] = _size(axis.size, bases, leaves)
    for i in loss.inputs:
        if i.default is not None and i.name not in given:
            leaves[i.name] = evaluate(graph(text), REGISTRY, leaves, [f"default.{i.name}"], sizes=bases)[
                f"default.{i.name}"
            ]
    return leaves, bases


def _size(term: Term, sizes: Mapping[str, int], leaves: Mapping[str, Any]) -> int:
    if term.op == "size":
        return sizes[base_axis(str(term.attrs[0]))]
    return int(leaves[str(term.attrs[0])] if term.op == "leaf" else term.attrs[0])  # type: ignore[call-overload]


def values(text: str, given: Mapping[str, Any], ignore_index: int = -100, number: str = "float64") -> dict[str, Array]:
    """All outputs of the Graph."""
    leaves, sizes = leaves_of(text, given, ignore_index)
    known = {leaf.name for leaf in graph(text).leaves}
    leaves = {k: v for k, v in leaves.items() if k in known}
    names = [n for n, _ in graph(text).outputs if not n.startswith("default.")]
    return evaluate(graph(text), REGISTRY, leaves, names, number, sizes)


def reduced(text: str, given: Mapping[str, Any], ignore_index: int = -100) -> float:
    """The loss as a caller gets it by default: the file's word for the reduction, "valid" denominator."""
    out = values(text, given, ignore_index)
    return float(reduce_rows(text, out))


def reduce_rows(text: str, out: Mapping[str, Array]) -> Any:
    """Rows and weight to the file's word."""
    loss = checked(text)
    rows = out["rows"]
    if loss.reduction is None:
        return rows
    if loss.reduction == "sum":
        return rows.sum()
    weight = out["weight"].sum() if "weight" in out else rows.size
    return rows.sum() / weight if weight != 0 else 0.0


def gradients(
    text: str, given: Mapping[str, Any], seeds: Mapping[str, Any], ignore_index: int = -100, number: str = "float64"
) -> dict[str, Array]:
    """The gradient for each differentiable leaf, given the cotangents of rows (and weight)."""
    leaves, sizes = leaves_of(text, given, ignore_index)
    g = joint(text).graph
    known = {leaf.name for leaf in g.leaves}
    leaves = {k: v for k, v in (leaves | dict(seeds)).items() if k in known}
    names = [n for n, _ in g.outputs if n.startswith("grad.")]
    return {n[5:]: v for n, v in evaluate(g, REGISTRY, leaves, names, number, sizes).items()}
