"""What a file says of itself: outputs, claims and examples name what is there."""

from __future__ import annotations

from lossdsl.check.claimed import check_claim
from lossdsl.check.context import Context, Scope
from lossdsl.check.names import guess, unsure
from lossdsl.check.terms import POISON, is_poison
from lossdsl.check.typed import Term
from lossdsl.source.text import Span
from lossdsl.syntax import ast


def outputs(cx: Context, scope: Scope, loss: ast.LossDef) -> tuple[tuple[str, Term], ...]:
    """The values that are handed out beside the loss, by name."""
    found: dict[str, Term] = {}
    for output in loss.outputs:
        for name in output.names:
            term = scope.values.get(name.name, POISON)
            if name.name not in scope.values and not unsure(cx, scope, name.name):
                near = guess(cx, name.name, scope.values)
                fix = f"did you mean `{near}`?" if near else "assign it first"
                cx.error(scope, "E0209", f"no value `{name.name}` to hand out", name.span, "not known", fix)
            elif name.name in found:
                cx.error(scope, "E0204", f"`{name.name}` is handed out twice", name.span, "again", "name it once")
            found[name.name] = term
    return tuple((n, t) for n, t in found.items() if not is_poison(t))


def examples_and_claims(cx: Context, scope: Scope, loss: ast.LossDef) -> None:
    """Names in examples and claims; what they say is proved or run by others."""
    known = [*cx.inputs, *cx.params]
    for example in loss.examples:
        given = set()
        for name, _ in example.bindings:
            _set(cx, scope, name.name, name.span, known)
            if name.name in given:
                cx.error(scope, "E0204", f"the example sets `{name.name}` twice", name.span, "again", "set it once")
            given.add(name.name)
        missing = [i.name for i in cx.inputs.values() if i.default is None and i.draw is None and i.name not in given]
        if missing and given <= set(known):
            names = ", ".join(f"`{m}`" for m in missing)
            cx.error(scope, "E0209", f"the example doesn't set {names}", example.span, "", "give every input a value")
    for claim in loss.claims:
        check_claim(cx, scope, claim)


def _set(cx: Context, scope: Scope, name: str, span: Span, known: list[str]) -> None:
    if name not in known and not unsure(cx, scope, name):
        near = guess(cx, name, known)
        fix = f"did you mean `{near}`?" if near else f"there are {', '.join(known)}"
        cx.error(scope, "E0209", f"the example sets `{name}`, which is no input or param", span, "not known", fix)
