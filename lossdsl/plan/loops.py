"""Row loops: as few visits to the rows as reductions over them demand, as few sweeps within a row as those there do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lossdsl.ir.graph import Node, reachable
from lossdsl.plan.guards import Output, reduced_axes
from lossdsl.plan.kernel import (
    Loop,
    Stmt,
)
from lossdsl.plan.writing import RESULTS, SHORT, NotByRowsError, Scope, State
from lossdsl.source.diagnostic import InternalError


@dataclass(frozen=True, slots=True)
class _Anchor:
    """What a sweep is made for: a store or a reduction. `axes` are those of the loops it stands in."""

    axes: tuple[str, ...]
    operands: tuple[int, ...]
    output: Output | None = None
    reduction: int | None = None
    inner: frozenset[str] = frozenset()  # of axes: those that go innermost


def visits(state: State, outputs: Sequence[Output]) -> None:
    """Visits the rows as often as reductions over their own axis stand behind one another."""
    graph, outer = state.graph, str(state.outer)
    nodes = reachable(graph.nodes, [o.node for o in outputs])
    level: dict[int, int] = {}
    for n in nodes:
        node = graph.nodes[n]
        level[n] = max((level[a] for a in node.args), default=0) + (outer in reduced_axes(node))
    anchors: dict[int, list[_Anchor]] = {}
    done: set[tuple[object, ...]] = set()
    for n in nodes:
        node = graph.nodes[n]
        if outer in reduced_axes(node) and _once(node, n, done):
            anchors.setdefault(level[n] - 1, []).append(_of_reduction(state, n))
    last = []
    for o in outputs:
        if outer in o.buffer.axes:
            found = _Anchor(o.buffer.axes, (o.node,), output=o)
            anchors.setdefault(level[o.node], []).append(found)
        else:
            last.append(o)
    _plan_saves(state, [anchors[k] for k in sorted(anchors)])
    for phase in sorted(anchors):
        _loop(state, outer, anchors[phase], {})
    for o in last:
        state.store(o)


def _plan_saves(state: State, phases: Sequence[Sequence[_Anchor]]) -> None:
    """Results a row (or a batch entry) that several visits need are stored by the first: they are small."""
    graph, outer = state.graph, str(state.outer)
    small = {*graph.batch, outer}
    wanted: dict[int, int] = {}
    for anchors in phases:
        seen: set[int] = set()
        stack = [o for a in anchors for o in a.operands]
        while stack:
            n = stack.pop()
            if n in seen or outer not in graph.nodes[n].type.axes:
                continue
            seen.add(n)
            if n not in wanted or not _is_result(graph.nodes[n], small):
                stack.extend(graph.nodes[n].args)
        for n in seen:
            if _is_result(graph.nodes[n], small):
                wanted[n] = wanted.get(n, 0) + 1
    for n in sorted(wanted):
        if wanted[n] > 1:
            state.saved[n] = state.name(f"row_{_base(graph.nodes[n])}")


def _is_result(node: Node, small: set[str]) -> bool:
    return node.op in ("reduce", "statistic") and node.type.axes <= small


def _base(node: Node) -> str:
    """What a reduction's result is called."""
    if node.op == "statistic":
        return RESULTS[str(node.attrs[0])][int(node.attrs[1])]  # type: ignore[arg-type]
    return SHORT.get(str(node.attrs[0]), str(node.attrs[0]))


def _once(node: Node, n: int, done: set[tuple[object, ...]]) -> bool:
    """Whether this is the first node of its statement: the results of one reduction are one."""
    key = (node.args, node.attrs[0], node.attrs[2:]) if node.op == "statistic" else (n,)
    if key in done:
        return False
    done.add(key)
    return True


def _of_reduction(state: State, n: int) -> _Anchor:
    node = state.graph.nodes[n]
    axes = set().union(*(state.graph.nodes[a].type.axes for a in node.args)) | set(reduced_axes(node))
    return _Anchor(state.order(axes), node.args, reduction=n, inner=frozenset(reduced_axes(node)))


_Later = list[tuple[Scope, dict[int, str]]]  # values and the scope in which they become visible


def _loop(state: State, axis: str, anchors: Sequence[_Anchor], homes: dict[int, Scope]) -> _Later:
    """A loop over `axis` around everything that the anchors need; `homes` says where inner results go.

    Returns what becomes visible only when a loop further out has ended.
    """
    scope = Scope(axis)
    outside = state.scopes[-1]
    for anchor in anchors:
        n = anchor.reduction
        if n is not None and axis in anchor.inner and n not in homes:
            homes = {**homes, n: outside}
    state.scopes.append(scope)
    head, guard = _guard(state, axis)
    later = _region(state, anchors, homes)
    state.scopes.pop()
    outside.body.append(Loop(axis, tuple(scope.body), head, guard))
    for home, values in later:
        if home is outside:
            home.values.update(values)
            for n, name in values.items():
                if n in state.saved and not state.is_stored(n):
                    state.save(n, name, home)
    return [(home, values) for home, values in later if home is not outside]


def _guard(state: State, axis: str) -> tuple[tuple[Stmt, ...], str | None]:
    """The head of the loop that has just been opened, and its guard."""
    guard = state.guards.get(axis)
    if guard is None or not state.graph.nodes[guard].type.axes <= state.bound:
        return (), None
    name = state.need(guard)
    head = tuple(state.scopes[-1].body)
    state.scopes[-1].body.clear()
    return head, str(name)


def _region(state: State, anchors: Sequence[_Anchor], homes: dict[int, Scope]) -> _Later:
    """Everything that the anchors need within the open loops, in as few inner sweeps as possible.

    Returns what becomes visible when the loop that is open has ended.
    """
    graph, bound = state.graph, state.bound
    level, local = _levels(state, anchors)
    work = [(max((level.get(o, 0) for o in a.operands), default=0), a) for a in anchors]
    work += [(level[n] - 1, _of_reduction(state, n)) for n in local]
    later: _Later = []
    for step in range(max((at for at, _ in work), default=0) + 1):
        here = [a for at, a in work if at == step]
        for a in here:
            if set(a.axes) <= bound:
                later += _finish(state, a, homes)
        inner: dict[str, list[_Anchor]] = {}
        for a in here:
            if not set(a.axes) <= bound:
                left = [x for x in a.axes if x not in bound]
                first = [x for x in left if x not in a.inner] or left
                inner.setdefault(first[0], []).append(a)
        for axis in sorted(inner, key=graph.axes.index):
            later += _loop(state, axis, inner[axis], homes)
    return later


def _levels(state: State, anchors: Sequence[_Anchor]) -> tuple[dict[int, int], list[int]]:
    """How many sweeps of this scope lie behind each value, and the reductions whose results belong to this scope."""
    graph, bound = state.graph, state.bound
    needed = [n for n in reachable(graph.nodes, [o for a in anchors for o in a.operands]) if state.by_rows(n)]
    needed = _without_known(state, needed, [o for a in anchors for o in a.operands])
    level: dict[int, int] = {}
    local: list[int] = []
    done: set[tuple[object, ...]] = set()
    for n in needed:
        node = graph.nodes[n]
        level[n] = max((level.get(a, 0) for a in node.args), default=0)
        if bound & set(reduced_axes(node)):
            raise NotByRowsError("a reduction is needed inside a loop over its own axis")
        if reduced_axes(node) and set(node.type.axes) <= bound:
            level[n] += 1
            if _once(node, n, done):
                local.append(n)
    return level, local


def _without_known(state: State, nodes: Sequence[int], roots: Sequence[int]) -> list[int]:
    """Those of `nodes` that are not yet visible and are needed by roots through such."""
    graph = state.graph
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        n = stack.pop()
        if n not in seen and state.visible(n) is None and not state.is_stored(n):
            seen.add(n)
            stack.extend(graph.nodes[n].args)
    return [n for n in nodes if n in seen]


def _finish(state: State, anchor: _Anchor, homes: dict[int, Scope]) -> _Later:
    """Writes the anchor's own statement into the innermost loop."""
    if anchor.output is not None:
        state.store(anchor.output)
        return []
    n = anchor.reduction
    if n is None:
        raise InternalError("an anchor without work")
    pending = Scope(None)
    depth = len(state.scopes)
    statement = state.reduction(n, state.graph.nodes[n], depth, pending)
    state.scopes[-1].body.append(statement)
    return [(homes[n], pending.values)]
