"""From the parser's reductions to the syntax tree.

lark calls one method of `Builder` for each rule it recognises, so the tree is built bottom up without recursion. What
the grammar lets through and the language doesn't (an axis where a value belongs, `x[i, j]`) is raised here as a
`Mistake`, which ends the statement it stands in and no other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, cast

from lark import Token, Transformer, v_args

from lossdsl.source.suggest import closest
from lossdsl.source.text import Span
from lossdsl.syntax import ast
from lossdsl.syntax.brackets import Bracketed, callee
from lossdsl.syntax.names import Mistake, axis_name, between, check_letters, span_of, value_name
from lossdsl.syntax.words import DRAWS, KINDS, NOT_ARGUMENTS

_CONSTANTS = frozenset({"True", "False", "None"})

_DRAWS = {"gauss": "normal", "gaussian": "normal", "randn": "normal", "rand": "uniform"}
_REAL = "leave it out: a tensor is of real numbers unless something else is said"
_WHOLE = "write `index C` for class indices along C, `label` for names of groups, `int` for other whole numbers"
_TYPES = {
    **dict.fromkeys(("float", "double", "half", "tensor", "float32", "float64", "number", "floattensor"), _REAL),
    **dict.fromkeys(("long", "int64", "int32", "integer", "longtensor", "class", "target", "idx", "indices"), _WHOLE),
    **dict.fromkeys(("boolean", "mask", "booltensor"), "write `bool`"),
    **dict.fromkeys(("probs", "probability", "distribution", "simplex"), "write `prob C`, with the axis of its sum"),
}


def _kind(words: list[Token]) -> tuple[ast.Kind | None, bool]:
    """`prob C fixed` into its kind and whether it is fixed."""
    fixed = str(words[-1]) == "fixed"
    rest = words[:-1] if fixed else words
    if not rest:
        return None, fixed
    name, span = str(rest[0]), span_of(rest[0])
    if name not in KINDS:
        near = closest(name, KINDS)
        fix = _TYPES.get(name.lower(), f"did you mean `{near}`?" if near else "")
        message = f"`{name}` is not a kind: the kinds are real, prob A, bool, int, index A, label"
        raise Mistake("E0123", message, span, "not a kind", fix)
    listed = name == "index" and len(rest) > 1 and str(rest[1]) == "list"
    axes = rest[2:] if listed else rest[1:]
    wanted = 1 if name in {"prob", "index"} else 0
    if len(axes) < wanted:
        raise Mistake("E0123", f"`{name}` needs its axis", span, "of which axis?", f"write `{name} C`")
    if len(axes) > wanted:
        extra = span_of(axes[wanted])
        raise Mistake("E0123", f"`{axes[wanted]}` can't stand in a kind", extra, "not expected here")
    axis = axis_name(axes[0]) if wanted else None
    named = cast(Literal["real", "prob", "bool", "int", "index", "label"], name)
    return ast.Kind(named, axis, listed, span=between(span, span_of(rest[-1]))), fixed


@v_args(inline=True)
class Builder(Transformer[Token, Any]):
    """One method a rule of `grammar/loss.lark`."""

    # expressions

    def number(self, token: Token) -> ast.Number:
        text, span = str(token), span_of(token)
        if len(text) > 40:
            raise Mistake("E0118", "a number has at most 40 characters", span, f"this one has {len(text)}")
        value = float(text)
        if value == float("inf") or (value == 0 and text.lower().partition("e")[0].strip("0.")):
            message = "this number is outside the range of float64"
            fix = "write `inf` if infinity is meant" if value else "write `0`"
            raise Mistake("E0118", message, span, "beyond 1e308" if value else "below 1e-323", fix)
        return ast.Number(text, span=span)

    def name(self, token: Token) -> ast.Expr:
        text, span = str(token), span_of(token)
        if text in _CONSTANTS:
            raise Mistake(
                "E0112", f"`{text}` is Python, not .loss", span, "not a value here"
            )  # `habits.py` has the fix
        if text == "if":
            fix = "write `(if … then … else …)`"
            raise Mistake("E0121", "an `if` inside an operation needs brackets", span, "here", fix)
        if text == "not":
            raise Mistake("E0127", "`not` inside an operation needs brackets", span, "here", "write `(not …)`")
        if text[0].isupper():
            return axis_name(token)
        bare = text.rstrip("'")
        if bare != text:
            check_letters(text, span)
            return ast.Primed(bare, len(text) - len(bare), span=span)
        return ast.Name(value_name(token), span=span)

    def parenthesised(self, left: Token, value: ast.Expr, right: Token) -> ast.Expr:
        return replace(value, span=between(span_of(left), span_of(right)))

    def vector(self, left: Token, *rest: Any) -> ast.Vector:
        *items, right = rest
        return ast.Vector(tuple(items), span=between(span_of(left), span_of(right)))

    def unary(self, op: Token, value: ast.Expr) -> ast.Unary:
        return ast.Unary(cast(Literal["-", "not"], str(op)), value, span=between(span_of(op), value.span))

    def binary(self, left: ast.Expr, op: Token, right: ast.Expr) -> ast.Binary:
        return ast.Binary(cast(Any, str(op)), left, right, op_span=span_of(op), span=between(left.span, right.span))

    def compare(self, op: Token) -> Token:
        return op

    def compare_(self, left: ast.Expr, op: Token, right: ast.Expr, *more: Any) -> ast.Binary:
        if more:
            fix = "join two comparisons with `and`: `a < b and b < c`"
            raise Mistake("E0119", "comparisons can't be chained", span_of(more[0]), "a second comparison", fix)
        return self.binary(left, op, right)

    def if_(self, word: Token, condition: ast.Expr, then: ast.Expr, otherwise: ast.Expr) -> ast.If:
        return ast.If(condition, then, otherwise, span=between(span_of(word), otherwise.span))

    def pipe_(self, value: ast.Expr, op: Token, call: ast.Expr) -> ast.Pipe:
        if not isinstance(call, ast.Call):
            fix = "write the call with its brackets: `x |> relu()`"
            raise Mistake("E0120", "behind `|>` stands a call", call.span, "this isn't a call", fix)
        return ast.Pipe(value, call, span=between(value.span, call.span))

    def substitution(self, axis: Token, value: ast.Expr) -> ast.Substitution:
        ref = axis_name(axis)
        return ast.Substitution(ref, value, span=between(ref.span, value.span))

    def axis_binding(self, axis: Token, to: Token) -> ast.AxisMap:
        left, right = axis_name(axis), axis_name(to)
        return ast.AxisMap(left, right, True, span=between(left.span, right.span))

    def entries(self, *entries: Any) -> tuple[Any, ...]:
        return entries

    def brackets(self, base: ast.Expr, entries: tuple[Any, ...], right: Token) -> ast.Expr:
        span = between(base.span, span_of(right))
        if all(isinstance(e, ast.Substitution) for e in entries):
            return ast.Substitute(base, entries, span=span)
        if len(entries) == 1 and not isinstance(entries[0], ast.AxisMap):
            return ast.Pick(base, entries[0], span=span)
        # Only a call may follow now: `sum[N, C](…)`, `f[C = K](…)`. `call` unpacks it, `check_tree` refuses the rest.
        return cast(ast.Expr, Bracketed(base, entries, span))

    def call(self, base: Any, *rest: Any) -> ast.Call:
        *args, right = rest
        function, axes = callee(base)
        given = tuple(a for a in args if a is not None)
        for argument in given:
            if argument.name in NOT_ARGUMENTS:
                message = f"`{argument.name}=` isn't how an axis is said"
                fix = f"name the axis in brackets: `{function.name}[C](x)`"
                raise Mistake("E0111", message, argument.span, "axes have names, not numbers", fix)
        return ast.Call(
            function.name, axes, given, function_span=function.span, span=between(function.span, span_of(right))
        )

    def root(self, base: Any, variable: Token, bounds: ast.Bounds, body: ast.Expr, right: Token) -> ast.Root:
        if not isinstance(base, ast.Name) or base.name != "root":
            fix = "write `root(t in [low, high]: f)`"
            raise Mistake("E0120", "only `root` binds a variable with `in`", base.span, "not `root`", fix)
        if bounds.low_open or bounds.high_open:
            fix = "write `[low, high]`"
            raise Mistake("E0120", "the interval of `root` includes its ends", bounds.span, "open here", fix)
        span = between(base.span, span_of(right))
        return ast.Root(value_name(variable), bounds.low, bounds.high, body, span=span)

    def body(self, value: ast.Expr, where: ast.Expr | None, weighted: ast.Expr | None) -> ast.Argument:
        last = weighted or where or value
        return ast.Argument(value, where, weighted, span=between(value.span, last.span))

    def named(self, name: Token, body: ast.Argument) -> ast.Argument:
        return replace(body, name=value_name(name), span=between(span_of(name), body.span))

    def bounds(self, left: Token, low: ast.Expr, high: ast.Expr, right: Token) -> ast.Bounds:
        span = between(span_of(left), span_of(right))
        return ast.Bounds(low, high, str(left) == "(", str(right) == ")", span=span)

    # declarations

    def item(self, name: Token, *axes: Token | None) -> ast.Item:
        refs = tuple(axis_name(a) for a in axes if a is not None)
        last = refs[-1].span if refs else span_of(name)
        return ast.Item(value_name(name), refs, span=between(span_of(name), last))

    def words(self, *words: Token) -> list[Token]:
        return list(words)

    def default_value(self, value: ast.Expr) -> ast.Expr:
        return value

    def default_draw(self, name: Token) -> Token:
        if str(name) not in DRAWS:
            near = closest(str(name), DRAWS) or _DRAWS.get(str(name))
            fix = f"did you mean `{near}`?" if near else "write `~ normal`, or let the caller pass the draw"
            message = f"`{name}` is not a distribution: there are gumbel, uniform and normal"
            raise Mistake("E0123", message, span_of(name), "not a distribution", fix)
        return name

    def input(self, *parts: Any) -> ast.InputDecl:
        items = tuple(p for p in parts[:-3] if p is not None)
        words, default, bounds = parts[-3:]
        kind, fixed = _kind(words) if words else (None, False)
        draw = isinstance(default, Token)
        return ast.InputDecl(
            items, kind, fixed, None if draw else default, str(default) if draw else None, bounds, span=items[0].span
        )

    def setting(self, item: ast.Item, kind: Token | None, default: ast.Expr) -> tuple[ast.Item, bool, ast.Expr]:
        if kind is not None and str(kind) != "int":
            message = "a param is a real number, or `: int`"
            raise Mistake("E0123", message, span_of(kind), "not expected here", "write `: int` or leave it out")
        return item, kind is not None, default

    def param(self, *parts: Any) -> ast.ParamDecl:
        *settings, domain, words = (p for i, p in enumerate(parts) if p is not None or i >= len(parts) - 2)
        for word in words or []:
            if str(word) != "learnable":
                near = closest(str(word), ("learnable", "fixed"))
                fix = "did you mean `learnable`?" if near == "learnable" else ""
                raise Mistake("E0120", f"`{word}` can't stand here", span_of(word), "not expected here", fix)
        items = tuple((item, default) for item, _, default in settings)
        integer = all(is_int for _, is_int, _ in settings)
        if not integer and any(is_int for _, is_int, _ in settings):
            odd = next(item for item, is_int, _ in settings if not is_int)
            fix = "write `: int` behind each, or two lines"
            raise Mistake("E0123", "params on one line are of one kind", odd.span, "this one isn't `: int`", fix)
        modes = domain if isinstance(domain, tuple) else ()
        bounds = domain if isinstance(domain, ast.Bounds) else None
        return ast.ParamDecl(items, integer, bounds, modes, bool(words), span=settings[0][0].span)

    def modes(self, *names: Token) -> tuple[ast.Name, ...]:
        return tuple(ast.Name(value_name(n), span=span_of(n)) for n in names)

    def batch(self, *axes: Token) -> ast.BatchDecl:
        refs = tuple(axis_name(a) for a in axes)
        return ast.BatchDecl(refs, span=between(refs[0].span, refs[-1].span))

    def axis_size(self, axis: Token, size: ast.Expr) -> ast.AxisDecl:
        return ast.AxisDecl(axis_name(axis), size, span=between(span_of(axis), size.span))

    def axis_where(self, axis: Token, where: ast.Expr) -> ast.AxisDecl:
        return ast.AxisDecl(axis_name(axis), None, where, span=between(span_of(axis), where.span))

    def axis_bare(self, axis: Token) -> ast.AxisDecl:
        return ast.AxisDecl(axis_name(axis), span=span_of(axis))

    def parameter(self, name: Token, axis: Token | None, words: list[Token] | None) -> ast.Parameter:
        kind, fixed = _kind(words) if words else (None, False)
        if fixed and words:
            message = "a parameter of a def is never `fixed`"
            raise Mistake("E0123", message, span_of(words[-1]), "not expected here", "write `detach(…)` in the body")
        return ast.Parameter(value_name(name), None if axis is None else axis_name(axis), kind, span=span_of(name))

    def axes(self, *axes: Token) -> tuple[ast.AxisRef, ...]:
        return tuple(axis_name(a) for a in axes)

    def def_(self, name: Token, axes: tuple[ast.AxisRef, ...] | None, *rest: Any) -> ast.Def:
        *parameters, body = rest
        given = tuple(p for p in parameters if p is not None)
        return ast.Def(value_name(name, "a function"), axes or (), given, body, span=between(span_of(name), body.span))

    def assign(self, name: Token, value: ast.Expr) -> ast.Assign:
        return ast.Assign(value_name(name), value, name_span=span_of(name), span=between(span_of(name), value.span))

    def output(self, *names: Token) -> ast.Output:
        refs = tuple(ast.Name(value_name(n), span=span_of(n)) for n in names)
        return ast.Output(refs, span=between(refs[0].span, refs[-1].span))

    def return_(self, body: ast.Argument) -> ast.Argument:
        return body

    # claims, examples, the head

    def claim(self, value: ast.Expr, *conditions: ast.Condition | None) -> ast.Claim:
        when = tuple(c for c in conditions if c is not None)
        return ast.Claim(value, when, span=between(value.span, when[-1].span if when else value.span))

    def condition_at(self, name: Token, value: ast.Expr) -> ast.Condition:
        return ast.Condition(value_name(name), value, False, span=between(span_of(name), value.span))

    def condition_limit(self, name: Token, value: ast.Expr) -> ast.Condition:
        return ast.Condition(value_name(name), value, True, span=between(span_of(name), value.span))

    def binding(self, name: Token, value: ast.Expr) -> tuple[ast.Name, ast.Expr]:
        return ast.Name(value_name(name), span=span_of(name)), value

    def example(self, *parts: Any) -> ast.Example:
        *bindings, gives = parts
        return ast.Example(tuple(bindings), gives, span=between(bindings[0][0].span, gives.span))

    def loss_head(self, name: Token) -> tuple[str, str, Span]:
        return "loss", value_name(name, "a loss's name"), span_of(name)

    def map_head(self, name: Token) -> tuple[str, str, Span]:
        return "map", value_name(name, "a map's name"), span_of(name)

    def alias(self, *names: Token) -> tuple[str, ...]:
        return tuple(value_name(n) for n in names)

    tags = alias

    def docstring(self, token: Token) -> ast.Text:
        return ast.Text(str(token)[3:-3], span=span_of(token))

    def cite(self, token: Token) -> ast.Text:
        return ast.Text(str(token)[1:-1], span=span_of(token))
