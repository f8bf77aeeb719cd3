"""The adjoints of what is not pointwise, each with its reason: (tape, node, contributions) -> gives to the
arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lossdsl.derive.errors import NotDifferentiableError
from lossdsl.derive.picks import pick_adjoint, scatter_adjoint
from lossdsl.derive.softmax import logp_adjoint

if TYPE_CHECKING:
    from lossdsl.derive.reverse import Tape
    from lossdsl.ir.builder import Builder
    from lossdsl.ir.namespace import Ref

Adjoint = Callable[["Tape", int, list[int]], None]


def _sum_up(tape: Tape, parts: list[int]) -> int:
    result = parts[0]
    for part in parts[1:]:
        result = tape.builder.node("add", [result, part])
    return result


def _reduce(tape: Tape, n: int, parts: list[int]) -> None:
    b = tape.builder
    node = b[n]
    name, axes = str(node.attrs[0]), node.attrs[1]
    assert isinstance(axes, tuple)
    e = node.args[0]
    mask = node.args[1] if len(node.args) == 2 else None
    ct = _sum_up(tape, parts)
    match name:
        case "sum":
            part = ct
        case "logsumexp":  # d lse / dz_j = softmax_j
            logp = b.node("logp", node.args, (axes,))
            part = b.node("mul", [ct, b.node("exp", [logp])])
        case "max" | "min":  # ties share equally
            by = _compared(b, e, axes)
            ties = b.node("eq", [by, n if by == e else b.reduce(name, axes, by, mask)])
            if mask is not None:
                ties = b.node("and", [mask, ties])
            share = b.node("div", [ct, b.reduce("count", axes, b.const(True), ties)])
            part = b.node("select", [ties, share, b.const(0)])
        case "prod":  # the product of the others, without dividing by an entry that may be 0
            part = b.node("mul", [ct, _others(tape, e, axes, mask)])
        case "argmax" | "count":
            return
        case _:
            part = _declared(tape, n, ct, axes, mask)
    if mask is not None:
        part = b.node("select", [mask, part, b.const(0)])
    tape.spread(e, b.type(e).axes | (b.type(mask).axes if mask is not None else frozenset()), part)


def _compared(b: Builder, e: int, axes: tuple[str, ...]) -> int:
    """What has its largest where e has, without what rounding makes equal: the logits of a softmax, if it is over no
    other axes than the maximum.

    Probabilities of logits 10^-20 apart are equal in float32, and a maximum of theirs would be shared among all. (Of a
    graph that isn't rewritten, which others are compared with, e itself.)
    """
    node = b[e]
    if node.op == "exp":
        node = b[node.args[0]]
    alone = b.rewriting and node.op == "logp" and node.attrs[0] == axes and len(node.args) == 1
    return node.args[0] if alone else e


def _declared(tape: Tape, n: int, ct: int, axes: tuple[str, ...], mask: int | None) -> int:
    """The adjoint that the reduction's record gives, for those that have none of their own above."""
    b = tape.builder
    name = str(b[n].attrs[0])
    adjoint = b.registry.reductions[name].adjoint
    if adjoint is None:
        raise NotDifferentiableError(name, b[n].origin)

    def reduce(inner: str, e: Ref) -> Ref:
        return b.ref(b.reduce(inner, axes, e.node, mask))

    result: Ref = adjoint(b.f, b.ref(b[n].args[0]), b.ref(n), b.ref(ct), reduce)
    return result.node


def _others(tape: Tape, e: int, axes: tuple[str, ...], mask: int | None) -> int:
    b = tape.builder
    copies = {a: b.fresh_axis(a) for a in axes}
    rename = {a: b.index(c) for a, c in copies.items()}
    same = b.const(True)
    for a, c in copies.items():
        same = b.node("and", [same, b.node("eq", [b.index(a), b.index(c)])])
    others = b.node("not", [same])
    if mask is not None:
        others = b.node("and", [b.pick(mask, rename), others])
    return b.reduce("prod", tuple(copies.values()), b.pick(e, rename), others)


def _cumsum(tape: Tape, n: int, parts: list[int]) -> None:
    """Entry i is in the sums from i on: the adjoint runs the other way."""
    b = tape.builder
    node = b[n]
    axis, backwards = node.attrs[0], len(node.attrs) > 1
    back = b.node("cumsum", [_sum_up(tape, parts)], (axis,) if backwards else (axis, True))
    if len(node.args) == 2:
        back = b.node("select", [node.args[1], back, b.const(0)])
    tape.spread(node.args[0], node.type.axes, back)


def _root(tape: Tape, n: int, parts: list[int]) -> None:
    """f(t, θ) = 0 gives dt = -(∂f/∂θ) / (∂f/∂t): the cotangent -c / f_t goes into f at the root, t held fixed."""
    from lossdsl.derive.reverse import reverse

    b = tape.builder
    node = b[n]
    _, _, f = node.args
    unknown = next(i for i, v in enumerate(b.nodes) if v.op == "var" and v.attrs == node.attrs)
    slope = reverse(b, {f: b.const(1)}, [unknown]).get(unknown)
    if slope is None:
        raise NotDifferentiableError("a root whose equation is flat in its unknown", node.origin)
    at = {unknown: n}
    ct = b.node("neg", [b.node("div", [_sum_up(tape, parts), b.rebuild(slope, at)])])
    # Held in this pass alone, and not by detach: the parts hang on t, as a second pass has to see.
    for leaf, part in reverse(b, {b.rebuild(f, at): ct}, sorted(tape.wanted), held=frozenset({n})).items():
        tape.give(leaf, part)


def _logdet(tape: Tape, n: int, parts: list[int]) -> None:
    """d log|det M| = tr(M⁻¹ dM)."""
    b = tape.builder
    node = b[n]
    inverse = b.node("inverse", node.args, node.attrs)
    row, column = str(node.attrs[0]), str(node.attrs[1])
    turned = b.pick(inverse, {row: b.index(column), column: b.index(row)})
    tape.spread(node.args[0], b.type(node.args[0]).axes, b.node("mul", [_sum_up(tape, parts), turned]))


def _inverse(tape: Tape, n: int, parts: list[int]) -> None:
    """dM⁻¹ = -M⁻¹ dM M⁻¹, so the cotangent is -M⁻ᵀ C M⁻ᵀ."""
    b = tape.builder
    node = b[n]
    row, column = str(node.attrs[0]), str(node.attrs[1])
    k, m = b.fresh_axis(row), b.fresh_axis(column)
    ct = b.pick(_sum_up(tape, parts), {row: b.index(k), column: b.index(m)})
    left = b.pick(n, {row: b.index(k), column: b.index(row)})
    right = b.pick(n, {row: b.index(column), column: b.index(m)})
    inner = b.reduce("sum", (k,), b.node("mul", [left, ct]))
    tape.spread(
        node.args[0], b.type(node.args[0]).axes, b.node("neg", [b.reduce("sum", (m,), b.node("mul", [inner, right]))])
    )


def _solve(tape: Tape, n: int, parts: list[int]) -> None:
    """A x = b: the cotangent of b is A⁻ᵀ c, that of A is minus its outer product with x."""
    b = tape.builder
    node = b[n]
    a, rhs = node.args
    row, column = str(node.attrs[0]), str(node.attrs[1])
    turned = b.pick(a, {row: b.index(column), column: b.index(row)})
    ct = b.node("solve", [turned, b.pick(_sum_up(tape, parts), {column: b.index(row)})], (row, column))
    back = b.pick(ct, {column: b.index(row)})
    tape.spread(rhs, node.type.axes - {column} | {row}, back)
    tape.spread(a, b.type(a).axes, b.node("neg", [b.node("mul", [back, n])]))


def _eigvals(tape: Tape, n: int, parts: list[int]) -> None:
    """dλ_k = v_kᵀ dM v_k."""
    b = tape.builder
    node = b[n]
    row, column, k = (str(a) for a in node.attrs)
    v = b.node("eigvecs", node.args, node.attrs)
    along_column = b.pick(v, {row: b.index(column)})
    part = b.node("mul", [b.node("mul", [_sum_up(tape, parts), v]), along_column])
    tape.give(node.args[0], b.reduce("sum", (k,), part))


def _eigvecs(tape: Tape, n: int, parts: list[int]) -> None:
    """dv_l = Σ_k v_k (v_kᵀ dM v_l) / (λ_l - λ_k): the second derivative of the eigenvalues, for symmetric M.

    With G = Vᵀ C for the cotangent C, that of M is V S Vᵀ, where S_kl = (G_kl - G_lk) / (2 (λ_l - λ_k)) off the
    diagonal. It is NaN where eigenvalues tie: the limit depends on more than their derivatives.
    """
    b = tape.builder
    node = b[n]
    row, column, k = (str(a) for a in node.attrs)
    l = b.fresh_axis(k)  # noqa: E741
    at_l = {k: b.index(l)}
    values = b.node("eigvals", node.args, node.attrs)
    inner = b.reduce("sum", (row,), b.node("mul", [n, b.pick(_sum_up(tape, parts), at_l)]))
    turned = b.pick(inner, {k: b.index(l), l: b.index(k)})
    gap = b.node("sub", [b.pick(values, at_l), values])
    share = b.node("div", [b.node("sub", [inner, turned]), b.node("mul", [b.const(2), gap])])
    share = b.node("select", [b.node("eq", [b.index(k), b.index(l)]), b.const(0), share])
    right = b.pick(n, {row: b.index(column), k: b.index(l)})
    left = b.reduce("sum", (k,), b.node("mul", [n, share]))
    part = b.reduce("sum", (l,), b.node("mul", [left, right]))
    tape.spread(node.args[0], b.type(node.args[0]).axes, part)


ADJOINTS: dict[str, Adjoint] = {
    "reduce": _reduce,
    "logp": logp_adjoint,
    "pick": pick_adjoint,
    "scatter": scatter_adjoint,
    "cumsum": _cumsum,
    "root": _root,
    "logdet": _logdet,
    "inverse": _inverse,
    "solve": _solve,
    "eigvals": _eigvals,
    "eigvecs": _eigvecs,
}
