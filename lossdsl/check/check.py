"""The checker: a syntax tree becomes a CheckedLoss, or all its mistakes are reported at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lossdsl.check.body import Outermost, outermost, statements
from lossdsl.check.context import Context, Scope
from lossdsl.check.declare import declare
from lossdsl.check.elaborate import elaborate
from lossdsl.check.filescope import file_scope
from lossdsl.check.lint import lint
from lossdsl.check.names import functions_known
from lossdsl.check.said import examples_and_claims, outputs
from lossdsl.check.terms import POISON, Exhausted, Terms, is_poison
from lossdsl.check.typed import AxisInfo, CheckedLoss, Term
from lossdsl.check.types import base_axis
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import Diagnostic, DiagnosticError, Label, in_order
from lossdsl.source.suggest import closest
from lossdsl.source.text import Source, Span
from lossdsl.syntax.ast import Def, LossDef
from lossdsl.syntax.gaps import NONE, Gaps
from lossdsl.syntax.parse import Reading


def check(loss: LossDef, source: Source, registry: Registry, modes: Mapping[str, str] | None = None) -> CheckedLoss:
    """The typed form of a loss.

    `modes` chooses functions for mode params, over their defaults. Raises DiagnosticError with every mistake of the
    file (warnings among them are kept for a file that is right: `CheckedLoss.warnings`).
    """
    cx, _, result = run(loss, source, registry, modes or {})
    if result is None:
        raise DiagnosticError(source, in_order(cx.diagnostics))
    return result


def remarks(
    reading: Reading, source: Source, registry: Registry, modes: Mapping[str, str] | None = None
) -> list[Diagnostic]:
    """What is wrong with the statements of a file that could be read, apart from what may follow from the others."""
    if reading.loss is None:
        return []
    cx, _, _ = run(reading.loss, source, registry, modes or {}, reading.gaps)
    blamed = [d.labels[0].span for d in reading.problems]
    return [d for d in cx.diagnostics if not any(_overlap(d.labels[0].span, span) for span in blamed)]


def _overlap(a: Span, b: Span) -> bool:
    return a.start < b.end and b.start < a.end


def run(
    loss: LossDef, source: Source, registry: Registry, modes: Mapping[str, str], gaps: Gaps = NONE
) -> tuple[Context, Scope | None, CheckedLoss | None]:
    """The state after checking a file, its scope as far as it was read, and the result if the file is right."""
    cx = Context(source, registry, Terms(registry), elaborate, dict(modes), gaps)
    cx.name = loss.name
    scope: Scope | None = None
    result: CheckedLoss | None = None
    try:
        scope = file_scope(cx, loss)
        result = _check(cx, scope, loss)
    except (Exhausted, RecursionError) as error:
        what = "with its functions written out, the loss is nested too deep"
        if isinstance(error, Exhausted):
            what = error.what
        label = Label(loss.name_span, "this loss is too large to compile")
        cx.diagnostics.append(Diagnostic("E0410", what, (label,), "split the file, or say it with a reduction"))
    return cx, scope, None if cx.diagnostics else result


def _check(cx: Context, scope: Scope, loss: LossDef) -> CheckedLoss | None:
    conditions = declare(cx, scope, loss)
    for name in cx.chosen:
        if name not in scope.modes and name not in cx.gaps.names:
            near = closest(name, scope.modes)
            fix = f"did you mean `{near}`?" if near else f"its mode params are {', '.join(scope.modes)}"
            fix = fix if scope.modes else "take it out: this loss has none"
            message = f"`{loss.name}` has no mode param `{name}`"
            if name in cx.params or name == "ignore_index":
                message, fix = f"`{name}` of `{loss.name}` is a number, not a word", "give a number"
            cx.error(scope, "E0406", message, loss.name_span, "", fix)
    _check_modes(cx, scope, loss)
    statements(cx, scope, loss.body)
    outer = Outermost(POISON, None, ())
    if cx.gaps.result:
        pass
    elif loss.kind == "map":
        for part in (loss.result.where, loss.result.weighted):
            if part is not None:
                message = "a map returns its value as it is: nothing is left out or weighted"
                cx.error(scope, "E0308", message, part.span, "", "write `if condition then x else y`")
        body = cx.expr(cx, scope, loss.result.value)
        outer = Outermost(body, None, ())
    else:
        outer = outermost(cx, scope, loss)
    handed = outputs(cx, scope, loss)
    examples_and_claims(cx, scope, loss)
    if cx.diagnostics or cx.gaps != NONE or is_poison(outer.body):
        return None
    terms = [outer.body, *(m for _, m in conditions), *(t for _, t in handed)]
    terms += [t for t in (outer.keep, outer.weight) if t is not None]
    terms += [i.default for i in cx.inputs.values() if i.default is not None]
    axes = _axes(cx, scope, terms)
    checked = CheckedLoss(
        name=loss.name,
        kind=loss.kind,
        aliases=loss.aliases,
        doc=loss.doc.value if loss.doc is not None else "",
        cites=tuple(c.value for c in loss.cites),
        tags=loss.tags,
        inputs=tuple(cx.inputs.values()),
        params=tuple(cx.params.values()),
        axes=axes,
        conditions=tuple(conditions),
        result=outer.body,
        reduction=outer.word,
        reduced=outer.axes,
        keep=outer.keep,
        weight=outer.weight,
        outputs=handed,
        claims=loss.claims,
        examples=loss.examples,
        warnings=(),
        source=cx.source,
        dependencies=tuple(sorted(cx.dependencies.items())),
    )
    return replace(checked, warnings=lint(cx, scope, loss, checked))


def _check_modes(cx: Context, scope: Scope, loss: LossDef) -> None:
    """Modes pick functions that exist."""
    known = set(functions_known(cx, scope)) - set(scope.modes)
    known |= {s.name for s in loss.body if isinstance(s, Def)}
    for param in cx.params.values():
        for mode in param.modes:
            if mode in cx.gaps.functions:
                cx.missing.add(mode)
            elif mode not in known:
                near = closest(mode, known)
                fix = f"did you mean `{near}`?" if near else f"define it: `def {mode}(x) = …`"
                if param.name == "reduction":
                    fix = "leave this param out: every call takes `reduction=`"
                cx.missing.add(mode)
                cx.error(scope, "E0406", f"the mode `{mode}` of `{param.name}` names no function", param.span, "", fix)


def _axes(cx: Context, scope: Scope, terms: list[Term]) -> tuple[AxisInfo, ...]:
    """All axes that occur, in canonical order."""
    names: set[str] = set()
    for i in cx.inputs.values():
        names.update(i.axes)
    for p in cx.params.values():
        names.update(p.axes)
    stack, seen = list(terms), {id(t) for t in terms}
    while stack:
        term = stack.pop()
        names.update(term.type.axes)
        for a in term.args:
            if id(a) not in seen:
                seen.add(id(a))
                stack.append(a)
        if term.op in ("size", "index"):
            names.add(str(term.attrs[0]))
    names.update([base_axis(n) for n in names])
    for axis, size in cx.sizes.items():
        if axis in names and size is not None and size.op == "size":
            names.add(str(size.attrs[0]))
    order = {a: i for i, a in enumerate([*scope.batch, *(a for a in cx.sizes if a not in scope.batch)])}
    found = sorted(names, key=lambda a: (order.get(base_axis(a), len(order)), len(a)))
    return tuple(AxisInfo(a, a in scope.batch, cx.sizes.get(a)) for a in found)
