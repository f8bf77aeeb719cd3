"""A loss of logits with a linear head in front: what it takes instead of the logits is hidden, weight and bias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lossdsl.check.typed import AxisInfo, CheckedLoss, Input, Term
from lossdsl.check.types import Type
from lossdsl.source.text import Span

LINEAR = "linear"
FEATURES = ("D", "E", "F", "G", "H")


class HeadError(ValueError):
    """A head that the loss can't have; the message says why."""


@dataclass(frozen=True, slots=True)
class Head:
    """`logits` = dot[feature](hidden, weight) + bias, all of them names of inputs."""

    logits: str
    hidden: str
    weight: str
    bias: str
    feature: str


def with_heads(checked: CheckedLoss, heads: Mapping[str, str]) -> tuple[CheckedLoss, tuple[Head, ...]]:
    """The loss of hidden[N, D], weight[C, D], bias[C] = 0 where `heads` names its logits ("" for the first of them).

    With one head the inputs are called so, with several `NAME_hidden` and so on. HeadError for a name that is no
    logits[N, C] of the loss, and for a head that isn't "linear".
    """
    able = [i.name for i in checked.inputs if _is_logits(checked, i)]
    for name, kind in heads.items():
        if kind != LINEAR:
            raise HeadError(f'a head is "{LINEAR}", not {kind!r}')
        if name and name not in able:
            has = f"it has {', '.join(able)}" if able else "it has no input logits[N, C]"
            raise HeadError(f"{checked.name} has no logits {name!r} that a head could give; {has}")
    if not able:
        raise HeadError(f"{checked.name} has no input logits[N, C] that a head could give")
    names = list(dict.fromkeys(name or able[0] for name in heads))
    taken = {i.name for i in checked.inputs} - set(names) | {p.name for p in checked.params}
    used = {a.name for a in checked.axes}
    free = [a for a in FEATURES if a not in used]
    found = []
    for number, name in enumerate(names):
        words = [f"{name}_{w}" if len(names) > 1 or w in taken else w for w in ("hidden", "weight", "bias")]
        found.append(Head(name, words[0], words[1], words[2], free[number]))
    return _headed(checked, tuple(found)), tuple(found)


def _is_logits(checked: CheckedLoss, i: Input) -> bool:
    batch = {a.name for a in checked.axes if a.batch}
    plain = i.kind == "real" and i.default is None and i.draw is None and len(i.axes) >= 2
    return plain and i.axes[-1] not in batch and set(i.axes[:-1]) <= batch


def _headed(checked: CheckedLoss, heads: tuple[Head, ...]) -> CheckedLoss:
    by_name = {h.logits: h for h in heads}
    inputs: list[Input] = []
    terms: dict[str, Term] = {}
    for i in checked.inputs:
        head = by_name.get(i.name)
        if head is None:
            inputs.append(i)
            continue
        zero = Term("const", (), (0.0,), Type(frozenset()), i.span)
        rows, column = i.axes[:-1], i.axes[-1]
        hidden = replace(i, name=head.hidden, axes=(*rows, head.feature), bounds=None)
        weight = replace(i, name=head.weight, axes=(column, head.feature), bounds=None)
        bias = replace(i, name=head.bias, axes=(column,), bounds=None, default=zero)
        inputs += [hidden, weight, bias]
        terms[i.name] = _product(hidden, weight, bias, i.span)
    axes = (*checked.axes, *(AxisInfo(h.feature, False, None) for h in heads))
    swap = _Substitution(terms)
    return replace(
        checked,
        inputs=tuple(inputs),
        axes=axes,
        conditions=tuple((a, swap(t)) for a, t in checked.conditions),
        result=swap(checked.result),
        keep=None if checked.keep is None else swap(checked.keep),
        weight=None if checked.weight is None else swap(checked.weight),
        outputs=tuple((name, swap(t)) for name, t in checked.outputs),
        claims=(),
        examples=(),
    )


def _product(hidden: Input, weight: Input, bias: Input, span: Span) -> Term:
    def leaf(i: Input) -> Term:
        return Term("leaf", (), (i.name,), Type(frozenset(i.axes)), span)

    feature = hidden.axes[-1]
    both = frozenset(hidden.axes) | frozenset(weight.axes)
    times = Term("mul", (leaf(hidden), leaf(weight)), (), Type(both), span)
    product = Term("reduce", (times,), ("sum", (feature,)), Type(both - {feature}), span)
    return Term("add", (product, leaf(bias)), (), Type(both - {feature}), span)


class _Substitution:
    """Terms with leaves replaced; what is shared stays shared."""

    def __init__(self, leaves: Mapping[str, Term]) -> None:
        self.leaves = leaves
        self.memo: dict[int, tuple[Term, Term]] = {}  # the old term is kept, so that its id stays its own

    def __call__(self, root: Term) -> Term:
        stack = [root]
        while stack:
            term = stack[-1]
            waiting = [a for a in term.args if id(a) not in self.memo]
            if waiting and id(term) not in self.memo:
                stack.extend(waiting)
                continue
            stack.pop()
            if id(term) not in self.memo:
                self.memo[id(term)] = (term, self._made(term))
        return self.memo[id(root)][1]

    def _made(self, term: Term) -> Term:
        if term.op == "leaf" and str(term.attrs[0]) in self.leaves:
            return self.leaves[str(term.attrs[0])]
        args = tuple(self.memo[id(a)][1] for a in term.args)
        same = all(a is b for a, b in zip(args, term.args, strict=True))
        return term if same else replace(term, args=args)
