"""What a file says of itself: outputs, claims and examples name what is there."""

from __future__ import annotations

from lossdsl.check.axes import lookup, walk
from lossdsl.check.context import Context, Scope
from lossdsl.check.names import functions_known, guess
from lossdsl.check.terms import POISON, is_poison
from lossdsl.check.typed import Term
from lossdsl.source.text import Span
from lossdsl.syntax import ast

# The words of claims: `proper` stands alone, the others take an input.
CLAIMS = ("shift_invariant", "symmetric", "convex", "lipschitz", "grad")
ALONE = ("loss", "proper", "pi", "inf")


def outputs(cx: Context, scope: Scope, loss: ast.LossDef) -> tuple[tuple[str, Term], ...]:
    """The values that are handed out beside the loss, by name."""
    found: dict[str, Term] = {}
    for output in loss.outputs:
        for name in output.names:
            term = scope.values.get(name.name, POISON)
            if name.name not in scope.values:
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
            _set(cx, scope, name.name, name.span, known, "the example")
            if name.name in given:
                cx.error(scope, "E0204", f"the example sets `{name.name}` twice", name.span, "again", "set it once")
            given.add(name.name)
        missing = [i.name for i in cx.inputs.values() if i.default is None and i.draw is None and i.name not in given]
        if missing and given <= set(known):
            names = ", ".join(f"`{m}`" for m in missing)
            cx.error(scope, "E0209", f"the example doesn't set {names}", example.span, "", "give every input a value")
    for claim in loss.claims:
        for c in claim.when:
            _set(cx, scope, c.name, c.span, known, "the claim")
        _claim(cx, scope, claim)


def _set(cx: Context, scope: Scope, name: str, span: Span, known: list[str], who: str) -> None:
    if name not in known:
        near = guess(cx, name, known)
        fix = f"did you mean `{near}`?" if near else f"there are {', '.join(known)}"
        cx.error(scope, "E0209", f"{who} sets `{name}`, which is no input or param", span, "not known", fix)


def _claim(cx: Context, scope: Scope, claim: ast.Claim) -> None:
    values = [*scope.values, *scope.modes, *ALONE]
    functions = [*CLAIMS, *functions_known(cx, scope)]
    for node in walk(claim.value):
        if isinstance(node, ast.Name | ast.Primed) and node.name not in values:
            near = guess(cx, node.name, [*values, *CLAIMS])
            fix = f"did you mean `{near}`?" if near else "a claim speaks of `loss`, inputs, params and values"
            cx.error(scope, "E0209", f"the claim speaks of `{node.name}`, which isn't there", node.span, "", fix)
        elif isinstance(node, ast.Call) and node.function not in functions:
            near = guess(cx, node.function, functions)
            fix = f"did you mean `{near}`?" if near else f"claims are {', '.join(CLAIMS)}, proper, or a comparison"
            message = f"the claim calls `{node.function}`, which isn't there"
            cx.error(scope, "E0209", message, node.function_span, "", fix)
        elif isinstance(node, ast.AxisRef) and lookup(scope, node.name) is None:
            message = f"the claim speaks of the axis `{node.name}`, which isn't there"
            cx.error(scope, "E0209", message, node.span, "", "use an axis of the file")
