"""The typed tree as stable text: one line a term, each used term once, in the order in which values are needed."""

from __future__ import annotations

from collections.abc import Iterable

from lossdsl.check.typed import Attribute, CheckedLoss, Input, Param, Term
from lossdsl.primitives.interval import Interval


def dump(loss: CheckedLoss) -> str:
    """The text of `lossdsl dump --stage typed`. Terms are numbered as they are first needed, `%0` first."""
    order = {a.name: i for i, a in enumerate(loss.axes)}
    numbers: dict[int, int] = {}
    lines = [f"{loss.kind} {loss.name}"]

    def define(term: Term) -> str:
        """The name of a term, after the lines of all terms that it needs."""
        for t in _in_order(term):
            if id(t) not in numbers:
                numbers[id(t)] = len(numbers)
                lines.append(f"  %{numbers[id(t)]} = {_operation(t, numbers)} : {_type(t, order)}")
        return f"%{numbers[id(term)]}"

    for i in loss.inputs:
        default = f" = {define(i.default)}" if i.default is not None else ""
        lines.append(_input(i) + default)
    lines += [_param(p) for p in loss.params]
    for a in loss.axes:
        size = f" = {define(a.size)}" if a.size is not None else ""
        lines.append(f"axis {a.name}{size}{' batch' if a.batch else ''}")
    for axis, mask in loss.conditions:
        lines.append(f"axis {axis} where {define(mask)}")
    for name, term in loss.outputs:
        lines.append(f"output {name} = {define(term)}")
    returned = define(loss.result)
    if loss.keep is not None:
        returned += f" where {define(loss.keep)}"
    if loss.weight is not None:
        returned += f" weighted {define(loss.weight)}"
    if loss.reduction is not None:
        returned = f"{loss.reduction}[{', '.join(loss.reduced)}]({returned})"
    lines.append(f"return {returned}")
    lines += [f"uses {name} {digest[:16]}" for name, digest in loss.dependencies]
    return "\n".join(lines) + "\n"


def _in_order(root: Term) -> Iterable[Term]:
    """All terms below `root` and itself, arguments first, each once."""
    done: set[int] = set()
    result: list[Term] = []
    stack: list[tuple[Term, bool]] = [(root, False)]
    while stack:
        term, ready = stack.pop()
        if id(term) in done:
            continue
        if ready:
            done.add(id(term))
            result.append(term)
        else:
            stack.append((term, True))
            stack.extend((a, False) for a in reversed(term.args))
    return result


def _operation(term: Term, numbers: dict[int, int]) -> str:
    args = ", ".join(f"%{numbers[id(a)]}" for a in term.args)
    attrs = ", ".join(_attribute(a) for a in term.attrs)
    return term.op + (f" [{attrs}]" if attrs else "") + (f" ({args})" if args else "")


def _attribute(attribute: Attribute) -> str:
    if isinstance(attribute, tuple):
        return f"({', '.join(attribute)})"
    if isinstance(attribute, bool):
        return "true" if attribute else "false"
    return repr(attribute) if isinstance(attribute, float) else str(attribute)


def _type(term: Term, order: dict[str, int]) -> str:
    axes = sorted(term.type.axes, key=lambda a: (order.get(a, len(order)), a))
    where = f" in {term.type.interval}" if str(term.type.interval) != str(Interval()) else ""
    return term.type.kind + (f"[{', '.join(axes)}]" if axes else "") + where


def _input(i: Input) -> str:
    axes = f"[{', '.join(i.axes)}]" if i.axes else ""
    draw = f" ~ {i.draw}" if i.draw is not None else ""
    bounds = f" in {i.bounds}" if i.bounds is not None else ""
    return f"input {i.name}{axes}: {i.kind}{' fixed' if i.fixed else ''}{draw}{bounds}"


def _param(p: Param) -> str:
    axes = f"[{', '.join(p.axes)}]" if p.axes else ""
    default = p.default
    if isinstance(default, tuple):
        text = "[" + ", ".join(f"{v!r}" for v in default) + "]"
    else:
        text = default if isinstance(default, str) else repr(default)
    within = f" in {{{', '.join(p.modes)}}}" if p.modes else f" in {p.bounds}" if p.bounds is not None else ""
    kind = ": int" if p.integer else ""
    return f"param {p.name}{axes}{kind} = {text}{within}{' learnable' if p.learnable else ''}"
