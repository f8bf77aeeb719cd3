"""Claims: of a form that can be decided, about what is there, under conditions that can hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from lossdsl.check.axes import lookup, walk
from lossdsl.check.constants import constant, value_of
from lossdsl.check.context import Context, Scope
from lossdsl.check.losses import by_alias
from lossdsl.check.names import functions_known, guess, takes, unsure
from lossdsl.check.typed import Input, Param
from lossdsl.check.types import base_axis
from lossdsl.check.worth import NoValueError, worth
from lossdsl.syntax import ast
from lossdsl.syntax.foreign import FUNCTIONS

# The words of claims: `proper` stands alone, the others take an input or a param.
PROPERTIES = ("shift_invariant", "symmetric", "convex")
MEASURES = ("lipschitz", "grad")
CLAIMS = (*PROPERTIES, *MEASURES)
ALONE = ("loss", "proper", "pi", "inf")
FORMS = (
    "claims are `loss == e`, `loss >= e`, `loss <= e`, `shift_invariant(x)`, `symmetric(target)`, `convex(x)`, "
    "`lipschitz(x) <= e`, `grad(x) == e` and `proper`"
)
LEAST = 2  # entries that an axis has where claims are tried


def check_claim(cx: Context, scope: Scope, claim: ast.Claim) -> None:
    """Report what is wrong with a claim; what it says is decided by others."""
    before = len(cx.diagnostics)
    _names(cx, scope, claim)
    if len(cx.diagnostics) == before:
        _form(cx, scope, claim)
    _conditions(cx, scope, claim)
    if len(cx.diagnostics) == before and isinstance(claim.value, ast.Binary):
        _worth(cx, scope, claim.value.right, claim.when)


# --- names ----------------------------------------------------------------------------------------------------------


def _names(cx: Context, scope: Scope, claim: ast.Claim) -> None:
    values = [*scope.values, *scope.modes, *ALONE, *cx.gaps.names]
    functions = [*CLAIMS, *functions_known(cx, scope), *cx.gaps.functions]
    for node in walk(claim.value):
        if cx.gaps.nameless and isinstance(node, ast.Name | ast.Primed):
            continue
        if isinstance(node, ast.Name | ast.Primed) and node.name not in values:
            if node.name in CLAIMS:
                message, fix = f"`{node.name}` is said of an input", f"write `{node.name}(x)`"
            else:
                near = guess(cx, node.name, values)
                message = f"the claim speaks of `{node.name}`, which isn't there"
                fix = f"did you mean `{near}`?" if near else "a claim speaks of `loss`, inputs, params and values"
            cx.error(scope, "E0209", message, node.span, "", fix)
        elif isinstance(node, ast.Call) and node.function not in functions and not by_alias(cx, node.function):
            count = sum(a.name is None for a in node.args)
            near = guess(cx, node.function, functions, partial(takes, cx, given=count))
            fix = f"claims are {', '.join(CLAIMS)}, proper, or a comparison"
            if near or node is not claim.value:
                fix = f"did you mean `{near}`?" if near else "`lossdsl list` shows what it can be compared with"
            fix = FUNCTIONS.get(node.function, fix)
            if node.function == "proper":
                fix = "it stands alone: `claim proper`"
            message = f"the claim calls `{node.function}`, which isn't there"
            cx.error(scope, "E0209", message, node.function_span, "", fix)
        elif (
            isinstance(node, ast.AxisRef)
            and lookup(scope, node.name) is None
            and base_axis(node.name) not in cx.gaps.axes
        ):
            message = f"the claim speaks of the axis `{node.name}`, which isn't there"
            cx.error(scope, "E0209", message, node.span, "", "use an axis of the file")


# --- forms ----------------------------------------------------------------------------------------------------------


def _form(cx: Context, scope: Scope, claim: ast.Claim) -> None:
    match claim.value:
        case ast.Name("proper"):
            pass
        case ast.Call(function=kind) as call if kind in PROPERTIES:
            _subject(cx, scope, call)
        case ast.Binary(op="==", left=ast.Call(function="grad") as call, right=right):
            _subject(cx, scope, call)
            _side(cx, scope, right)
        case ast.Binary(op="<=", left=ast.Call(function="lipschitz") as call, right=right):
            _subject(cx, scope, call)
            _side(cx, scope, right)
        case ast.Binary(op="==" | ">=" | "<=", left=ast.Name("loss"), right=right):
            _side(cx, scope, right)
            return
        case _:
            cx.error(scope, "E0414", "no claim has this form", claim.value.span, "can't be decided", _turned(cx, claim))
            return
    for c in claim.when:
        if c.limit:
            cx.error(scope, "E0414", "a limit is for comparisons of the loss", c.span, "", "say `=` instead of `->`")


def _turned(cx: Context, claim: ast.Claim) -> str:
    """What to write instead."""

    def text(e: ast.Expr) -> str:
        return " ".join(cx.source.text[e.span.start : e.span.end].split())

    match claim.value:
        case ast.Binary(op="==" | ">=" | "<=" as op, left=left, right=ast.Name("loss")) if len(text(left)) < 40:
            return f"the loss stands on the left: `loss {op.translate(str.maketrans('<>', '><'))} {text(left)}`"
        case ast.Binary(op="<" | ">" as op, left=ast.Name("loss"), right=right) if len(text(right)) < 40:
            return f"write `loss {op}= {text(right)}`"
        case ast.Binary(op="and", left=left, right=right):
            return "give each its own line: `claim …`"
        case (
            ast.Call(function="lipschitz" | "grad" as word)
            | ast.Binary(left=ast.Call(function="lipschitz" | "grad" as word))
        ):
            return "write `lipschitz(x) <= e`" if word == "lipschitz" else "write `grad(x) == e`"
    return FORMS


def _side(cx: Context, scope: Scope, right: ast.Expr) -> None:
    """The right side is an expression of what is there, without the loss itself."""
    for node in walk(right):
        if (
            isinstance(node, ast.Name | ast.Primed)
            and node.name in ("loss", "proper")
            and node.name not in scope.values
        ):
            message = f"`{node.name}` stands on the left of a claim alone"
            cx.error(scope, "E0414", message, node.span, "", "compare with an expression of inputs and params")
        elif isinstance(node, ast.Call) and node.function in CLAIMS and node.function not in scope.functions:
            message = f"`{node.function}` stands on the left of a claim alone"
            cx.error(scope, "E0414", message, node.span, "", "compare with an expression of inputs and params")


def _worth(cx: Context, scope: Scope, right: ast.Expr, when: Sequence[ast.Condition]) -> None:
    """The right side has a finite value, as far as its constants tell."""
    given = {c.name: value_of(c.value) for c in when if c.name not in scope.modes and not c.limit}
    text = cx.text(scope, right.span, "the right side")
    fix = "write a number that the loss can be compared with"
    try:
        value = worth(scope, right, given)
    except NoValueError as error:
        part = cx.text(scope, error.expr.span, "a part of the claim")
        said = "is beyond the largest float64, 1.8e308" if error.huge else "has no value"
        cx.error(scope, "E0414", f"{part} {said}", error.expr.span, "can't be compared with", fix)
        return
    if value is not None and math.isinf(value):
        cx.error(scope, "E0414", f"{text} is infinite, which no loss is compared with", right.span, "says nothing", fix)


def _subject(cx: Context, scope: Scope, call: ast.Call) -> None:
    """`convex(x)` is said of an input or param by its name, of a kind that the word is about."""
    word = call.function
    argument = call.args[0].value if len(call.args) == 1 and call.args[0].name is None else None
    plain = argument is not None and call.args[0].where is None and call.args[0].weighted is None and not call.axes
    item: Input | Param | None = None
    if plain and isinstance(argument, ast.Name):
        item = cx.inputs.get(argument.name) or cx.params.get(argument.name)
    if item is None and plain and isinstance(argument, ast.Name) and unsure(cx, scope, argument.name):
        return
    if item is None:
        span = argument.span if argument is not None else call.span
        message = f"`{word}` is said of one input or param, by its name"
        real = next((i.name for i in cx.inputs.values() if i.kind == "real"), "x")
        cx.error(scope, "E0414", message, span, "", f"write `{word}({real})`")
        return
    assert argument is not None
    kind = item.kind if isinstance(item, Input) else "a mode" if item.modes else "int" if item.integer else "real"
    if word == "symmetric":
        if not kind.startswith("index "):
            message = f"`symmetric` is about a target of kind `index C`, but `{item.name}` is {kind}"
            cx.error(scope, "E0414", message, argument.span, f"of kind {kind}", "name the index")
        return
    if kind != "real" and not kind.startswith("prob "):
        message = f"`{word}` is about real numbers, but `{item.name}` is {kind}"
        cx.error(scope, "E0414", message, argument.span, f"of kind {kind}", "name an input of kind real")
    elif word in MEASURES and isinstance(item, Input) and (item.fixed or item.draw is not None):
        message = f"`{item.name}` is {'fixed' if item.fixed else 'a draw'}: no gradient is derived"
        cx.error(scope, "E0414", message, argument.span, "has no gradient", "leave `fixed` out of its declaration")
    elif (
        word == "shift_invariant"
        and not cx.gaps.batch
        and not (isinstance(item, Input) and set(item.axes) - set(scope.batch))
    ):
        message = f"`{item.name}` has no row whose entries could be shifted together"
        cx.error(scope, "E0414", message, argument.span, "", "name an input with an axis that isn't a batch axis")


# --- conditions -----------------------------------------------------------------------------------------------------


def _conditions(cx: Context, scope: Scope, claim: ast.Claim) -> None:
    known = [*cx.inputs, *cx.params]
    given: set[str] = set()
    for c in claim.when:
        if c.name not in known and unsure(cx, scope, c.name):
            continue
        if c.name not in known:
            near = guess(cx, c.name, known)
            fix = f"did you mean `{near}`?" if near else f"there are {', '.join(known)}"
            cx.error(scope, "E0209", f"the claim sets `{c.name}`, which is no input or param", c.span, "not known", fix)
        elif c.name in given:
            cx.error(scope, "E0204", f"the claim sets `{c.name}` twice", c.span, "again", "set it once")
        else:
            _condition(cx, scope, c, cx.inputs.get(c.name) or cx.params[c.name])
        given.add(c.name)


def _condition(cx: Context, scope: Scope, c: ast.Condition, item: Input | Param) -> None:
    if isinstance(item, Param) and item.modes:
        if c.limit or not isinstance(c.value, ast.Name) or c.value.name not in item.modes:
            message = f"`{c.name}` is one of {', '.join(item.modes)}"
            cx.error(scope, "E0414", message, c.span, "", f"write `{c.name} = {item.modes[0]}`")
        return
    value = constant(cx, scope, c.value, f"the value of `{c.name}`")
    if value is None:
        return
    kind = item.kind if isinstance(item, Input) else "int" if item.integer else "real"
    problem, fix = "", ""
    if kind.startswith("prob "):
        problem, fix = f"the entries of `{c.name}` sum to 1, so they can't all be one number", "leave the condition out"
    elif kind == "bool" and value not in (0, 1):
        problem, fix = f"`{c.name}` is a condition: 0 or 1", "write 0 or 1"
    elif kind.startswith("index ") and value not in range(LEAST):
        problem, fix = f"claims are tried on axes of {LEAST} entries too, which have no index {value:g}", "write 0 or 1"
    elif kind != "real" and value != math.floor(value):
        problem, fix = f"`{c.name}` is {kind}, so its value is whole", "write a whole number"
    elif kind != "real" and c.limit:
        problem, fix = f"`{c.name}` is {kind}: it has values and no limits", f"write `{c.name} = {value:g}`"
    elif item.bounds is not None and c.limit and not item.bounds.low <= value <= item.bounds.high:
        problem, fix = f"`{c.name}` comes nowhere near {value:g} in {item.bounds}", "move the limit or the interval"
    elif item.bounds is not None and not c.limit and float(value) not in item.bounds:
        problem, fix = f"`{c.name}` = {value:g} is outside {item.bounds}", "move the value or the interval"
    if problem:
        cx.error(scope, "E0414", problem, c.span, "can't hold", fix)
