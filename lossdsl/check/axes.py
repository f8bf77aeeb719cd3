"""What an axis name stands for: the file's axes, their copies, and those of a function that is being inlined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lossdsl.check.context import Context, Scope
from lossdsl.check.terms import is_poison
from lossdsl.check.typed import Term
from lossdsl.check.types import base_axis
from lossdsl.source.suggest import closest
from lossdsl.source.text import Span
from lossdsl.syntax import ast
from lossdsl.syntax.ast import AxisRef


def primes(axis: str) -> int:
    """How many primes a name ends in."""
    return len(axis) - len(base_axis(axis))


def resolve(cx: Context, scope: Scope, name: str, span: Span) -> tuple[str, ...] | None:
    """The axes a name stands for; None after an error."""
    found = lookup(scope, name)
    if found is not None:
        cx.note("axis", scope, name, span)
        return found
    base = base_axis(name)
    if base in cx.gaps.axes:
        return None
    known = [a for a in visible(scope) if base_axis(a) == a]
    near = closest(base, known) if len(cx.diagnostics) < 40 else None
    values = [v for v in scope.values if v.casefold() == base.casefold()]
    fix = f"did you mean `{near}{name[len(base) :]}`?" if near else ""
    if base == "PI":
        fix = "write `pi`"
    if not fix and values:
        fix = f"values start with a small letter: `{values[0]}`"
    if not fix:
        fix = f"the axes here are {', '.join(known)}" if known else "give an input axes: `input logits[N, C]`"
    cx.error(scope, "E0203", f"no axis is called `{name}`", span, "not an axis of this file", fix)
    return None


def lookup(scope: Scope, name: str) -> tuple[str, ...] | None:
    """As `resolve`, None for an unknown name."""
    if name in scope.axes:
        return scope.axes[name]
    base, count = base_axis(name), primes(name)
    if base not in scope.axes:
        return lookup(scope.parent, name) if scope.parent is not None else None
    if name not in scope.copies:
        images = scope.axes[base]
        if base in scope.plain:
            scope.copies[name] = (name,)
        else:
            before = images if count == 1 else lookup(scope, name[:-1])
            assert before is not None
            scope.copies[name] = tuple(fresh_copy(scope, a) for a in before)
    return scope.copies[name]


def visible(scope: Scope) -> list[str]:
    """The axis names of a scope and of those around it."""
    names = list(scope.axes)
    return names if scope.parent is None else names + [a for a in visible(scope.parent) if a not in names]


def moved(scope: Scope, axis: str, by: int) -> str | None:
    """The copy of a batch axis that x' has in the place of `axis`; None if it isn't a copy of a batch axis here."""
    for name in scope.rows:
        copy = name
        for _ in range(12):
            images = lookup(scope, copy)
            if images is None:
                break
            if axis in images:
                target = lookup(scope, copy + "'" * by)
                assert target is not None
                return target[images.index(axis)]
            owner = _owner(scope, name)
            if name not in owner.plain and copy + "'" not in owner.copies:
                break  # don't give out copies only to look at them
            copy += "'"
    return None


def _owner(scope: Scope, base: str) -> Scope:
    """The scope in which a base name stands for something."""
    return scope if base in scope.axes or scope.parent is None else _owner(scope.parent, base)


def fresh_copy(scope: Scope, axis: str) -> str:
    """The next copy of `axis` that captures nothing, marked as used."""
    axis += "'"
    while axis in scope.used:
        axis += "'"
    scope.used.add(axis)
    return axis


def one(cx: Context, scope: Scope, ref: AxisRef) -> str | None:
    """The single axis a name stands for where only one will do."""
    found = resolve(cx, scope, ref.name, ref.span)
    if found is None or len(found) == 1:
        return found[0] if found else None
    message = f"`{ref.name}` stands for {cx.show_axes(found)} here, and its index is asked for"
    cx.error(scope, "E0307", message, ref.span, "one axis is needed", "say which: `f[N = B](…)`")
    return None


def non_batch(scope: Scope, terms: Iterable[Term]) -> list[str]:
    """The axes of terms that are not batch axes; copies of batch axes count as not batch."""
    found: dict[str, None] = {}
    for term in terms:
        for axis in sorted(term.type.axes):
            if axis not in scope.batch:
                found[axis] = None
    return list(found)


def inferred(cx: Context, scope: Scope, function: str, terms: Sequence[Term], span: Span) -> tuple[str, ...] | None:
    """The axis of a reduction written without a bracket; None after an error (or for poison)."""
    if any(is_poison(t) for t in terms):
        return None
    found = non_batch(scope, terms)
    if len(found) > 1:
        shared = [a for a in found if all(a in t.type.axes for t in terms if t.type.axes)]
        if len(shared) == 1:
            found = shared
    if len(found) == 1:
        return (found[0],)
    axes = frozenset[str]().union(*(t.type.axes for t in terms))
    if not found:
        if axes:
            batch = sorted(axes, key=cx.axis_order)[0]
            message = f"`{function}` needs its axis: its argument has {cx.show_axes(axes)}, batch axes only"
            fix = f"write `{function}[{batch}](…)` to run over the batch"
        else:
            message, fix = f"`{function}` has nothing to run over: its argument has no axes", ""
        cx.error(scope, "E0302", message, span, "over which axis?", fix)
        return None
    choice = " or ".join(f"`{function}[{cx.shown.get(a, a)}](…)`" for a in sorted(found, key=cx.axis_order)[:3])
    message = f"`{function}` could run over any of {cx.show_axes(frozenset(found))}"
    cx.error(scope, "E0302", message, span, "over which axis?", f"write {choice}")
    return None


# --- what the text introduces ---------------------------------------------------------------------------------------


def walk(node: object) -> Iterator[object]:
    """All nodes of a syntax tree, in the order of the text as far as fields keep it."""
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, tuple):
            stack.extend(reversed(current))
        elif current is not None and hasattr(current, "__dataclass_fields__"):
            yield current
            if not isinstance(current, Span):
                stack.extend(getattr(current, f) for f in reversed(list(current.__dataclass_fields__)))


def introduced(roots: Iterable[object]) -> tuple[dict[str, Span], dict[str, tuple[str, Span]]]:
    """Axis names that orders create, and those that a substitution `A -> E` could make copies: E to (A, place)."""
    orders: dict[str, Span] = {}
    copies: dict[str, tuple[str, Span]] = {}
    for root in roots:
        for node in walk(root):
            if isinstance(node, ast.Call):
                for m in node.axes:
                    if m.to is not None and not m.binds and not primes(m.to.name):
                        orders.setdefault(m.to.name, m.to.span)
            elif isinstance(node, ast.Substitution) and isinstance(node.value, AxisRef):
                base = base_axis(node.value.name)
                copies.setdefault(base, (node.axis.name, node.value.span))
    return orders, copies


def spread(roots: Iterable[object]) -> dict[str, int]:
    """How far copies of each base may go by their names: the most primes written, and one for each x'."""
    most: dict[str, int] = {}
    moved = 0
    for root in roots:
        for node in walk(root):
            if isinstance(node, AxisRef):
                base = base_axis(node.name)
                most[base] = max(most.get(base, 0), primes(node.name))
            elif isinstance(node, ast.Primed):
                moved += node.primes
    return {base: n + moved for base, n in most.items()}
