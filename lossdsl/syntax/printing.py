"""The syntax tree as text: one spelling for each tree, with brackets only where they are needed or help a reader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lossdsl.syntax import ast
from lossdsl.syntax.layout import Break, Doc, Group, Nest, join, lay_out

WIDTH = 100

# How tightly an expression binds, loosest first, as in grammar/loss.lark.
_IF, _PIPE, _OR, _AND, _NOT, _COMPARE, _SUM, _TERM, _MINUS, _POWER, _POSTFIX = range(11)
_LEVELS = {"or": _OR, "and": _AND, "+": _SUM, "-": _SUM, "*": _TERM, "/": _TERM, "^": _POWER}
_COMMA: Doc = (",", Break())


def print_loss(loss: ast.LossDef) -> str:
    """A file with nothing but what the tree holds: no comments, no blank lines."""
    lines = [f"{loss.kind} {loss.name}"]
    if loss.aliases:
        lines.append(f"alias {', '.join(loss.aliases)}")
    if loss.doc is not None:
        lines.append(f'"""{loss.doc.value}"""')
    lines += [f'cite "{cite.value}"' for cite in loss.cites]
    if loss.tags:
        lines.append(f"tags {', '.join(loss.tags)}")
    parts: Iterable[ast.Decl | ast.Statement | ast.Output | ast.Argument | ast.Claim | ast.Example] = (
        *loss.decls, *loss.body, *loss.outputs, loss.result, *loss.claims, *loss.examples,
    )  # fmt: skip
    lines += [print_statement(part) for part in parts]
    return "\n".join(lines) + "\n"


def print_expression(expr: ast.Expr) -> str:
    """An expression on one line."""
    return lay_out(_expr(expr), 1_000_000)


def print_statement(
    node: ast.Decl | ast.Statement | ast.Output | ast.Argument | ast.Claim | ast.Example, pad: int = 0
) -> str:
    """One statement, broken into lines of at most `WIDTH` columns; `pad` widens the name of an assignment."""
    return lay_out(_statement(node, pad), WIDTH)


def _statement(node: object, pad: int) -> Doc:
    match node:
        case ast.Assign(name, value):
            return (f"{name:<{pad}} = ", _hang(value))
        case ast.Def(name, axes, parameters, body):
            front = f"def {name}{_axes(axes)}({', '.join(_parameter(p) for p in parameters)}) ="
            return (front, " ", _hang(body))
        case ast.Argument():
            plain = node.where is None and node.weighted is None
            return ("return ", _hang(node.value) if plain else Nest(_argument(node)))
        case ast.InputDecl():
            return ("input ", Nest(_input(node)))
        case ast.ParamDecl():
            return ("param ", Nest(_param(node)))
        case ast.BatchDecl(axes):
            return f"batch {', '.join(a.name for a in axes)}"
        case ast.AxisDecl(axis, size, where):
            if size is not None:
                return (f"axis {axis.name} = ", Nest(_expr(size)))
            return (f"axis {axis.name}", Nest((" where ", _expr(where)) if where is not None else ""))
        case ast.Output(names):
            return ("output ", Nest(join(_COMMA, [n.name for n in names])))
        case ast.Claim(value, when):
            if not when:
                return ("claim ", Nest(_expr(value)))
            conditions: list[Doc] = [(f"{c.name} {'->' if c.limit else '='} ", _expr(c.value)) for c in when]
            return ("claim ", Nest((_expr(value), " when ", join(_COMMA, conditions))))
        case ast.Example(bindings, gives):
            given: list[Doc] = [(f"{name.name} = ", _expr(value)) for name, value in bindings]
            return ("example ", Nest((join(_COMMA, given), " gives ", _expr(gives))))
    raise TypeError(f"no statement: {node!r}")


# --- declarations -----------------------------------------------------------------------------------------------------


def _axes(axes: Sequence[ast.AxisRef]) -> str:
    return f"[{', '.join(a.name for a in axes)}]" if axes else ""


def _kind(kind: ast.Kind) -> str:
    words = [kind.name, "list" if kind.list else "", kind.axis.name if kind.axis else ""]
    return " ".join(w for w in words if w)


def _parameter(parameter: ast.Parameter) -> str:
    axis = f"[{parameter.axis.name}]" if parameter.axis else ""
    return f"{parameter.name}{axis}" + (f": {_kind(parameter.kind)}" if parameter.kind else "")


def _input(node: ast.InputDecl) -> Doc:
    items: Doc = join(_COMMA, [f"{item.name}{_axes(item.axes)}" for item in node.items])
    words = ([_kind(node.kind)] if node.kind else []) + (["fixed"] if node.fixed else [])
    parts: list[Doc] = [items, f": {' '.join(words)}" if words else ""]
    if node.default is not None:
        parts.append((" = ", _expr(node.default)))
    if node.draw is not None:
        parts.append(f" ~ {node.draw}")
    if node.bounds is not None:
        parts.append((" in ", _bounds(node.bounds)))
    return tuple(parts)


def _param(node: ast.ParamDecl) -> Doc:
    kind = ": int" if node.integer else ""
    settings: list[Doc] = [(f"{i.name}{_axes(i.axes)}{kind} = ", _expr(value)) for i, value in node.items]
    parts: list[Doc] = [join(_COMMA, settings)]
    if node.bounds is not None:
        parts.append((" in ", _bounds(node.bounds)))
    if node.modes:
        parts.append(f" in {{{', '.join(m.name for m in node.modes)}}}")
    if node.learnable:
        parts.append(" learnable")
    return tuple(parts)


def _bounds(bounds: ast.Bounds) -> Doc:
    left, right = "(" if bounds.low_open else "[", ")" if bounds.high_open else "]"
    return (left, _expr(bounds.low), ", ", _expr(bounds.high), right)


# --- expressions ------------------------------------------------------------------------------------------------------


def _hang(expr: ast.Expr) -> Doc:
    """A statement's expression: its further lines are indented, unless a closing bracket ends it anyway."""
    return _expr(expr) if isinstance(expr, ast.Call | ast.Root | ast.Vector) else Nest(_expr(expr))


def _level(expr: ast.Expr) -> int:
    match expr:
        case ast.If():
            return _IF
        case ast.Pipe():
            return _PIPE
        case ast.Binary(op):
            return _LEVELS.get(op, _COMPARE)
        case ast.Unary(op):
            return _NOT if op == "not" else _MINUS
    return _POSTFIX


def _expr(expr: ast.Expr, least: int = _IF) -> Doc:
    """The expression, in brackets if it binds less tightly than `least`."""
    if _level(expr) < least:
        return Group(("(", Nest((Break(""), _bare(expr))), Break(""), ")"))
    return _bare(expr)


def _bare(expr: ast.Expr) -> Doc:
    match expr:
        case ast.Number(text):
            return text
        case ast.Name(name) | ast.AxisRef(name):
            return name
        case ast.Primed(name, primes):
            return name + "'" * primes
        case ast.Vector(items):
            return Group(("[", Nest((Break(""), join(_COMMA, [_expr(i) for i in items]))), Break(""), "]"))
        case ast.Substitute(base, pairs):
            inside = join(_COMMA, [(f"{p.axis.name} -> ", _expr(p.value)) for p in pairs])
            return (_expr(base, _POSTFIX), _bracketed(inside))
        case ast.Pick(base, index):
            return (_expr(base, _POSTFIX), _bracketed(_expr(index)))
        case ast.Call():
            return _call(expr)
        case ast.Unary("not", value):
            return ("not ", _expr(value, _NOT))
        case ast.Unary(_, value):
            return ("-", _expr(value, _POWER if isinstance(value, ast.Unary) else _MINUS))
        case ast.Binary():
            return _binary(expr)
        case ast.If(condition, then, otherwise):
            first: Doc = ("if ", _expr(condition, _PIPE), Break(), "then ", _expr(then, _PIPE))
            return Group((first, Break(), "else ", _expr(otherwise)))
        case ast.Root(variable, low, high, body):
            inside = (f"{variable} in [", _expr(low), ", ", _expr(high), "]:", Break(), _expr(body))
            return Group(("root(", Nest((Break(""), inside)), Break(""), ")"))
        case ast.Pipe():
            return _pipe(expr)
    raise TypeError(f"no expression: {expr!r}")


def _bracketed(inside: Doc) -> Doc:
    return Group(("[", Nest((Break(""), inside)), Break(""), "]"))


def _call(call: ast.Call) -> Doc:
    maps = [a.axis.name + (f" {'=' if a.binds else '->'} {a.to.name}" if a.to else "") for a in call.axes]
    front = call.function + (f"[{', '.join(maps)}]" if maps else "")
    if not call.args:
        return f"{front}()"
    return Group((f"{front}(", Nest((Break(""), join(_COMMA, [_argument(a) for a in call.args]))), Break(""), ")"))


def _argument(argument: ast.Argument) -> Doc:
    parts: list[Doc] = [f"{argument.name} = " if argument.name else "", _expr(argument.value)]
    if argument.where is not None:
        parts += [Break(), "where ", Nest(_expr(argument.where))]
    if argument.weighted is not None:
        parts += [Break(), "weighted ", Nest(_expr(argument.weighted))]
    return Group(tuple(parts)) if len(parts) > 2 else tuple(parts)


def _binary(expr: ast.Binary) -> Doc:
    level = _level(expr)
    if level == _POWER:
        # A sign in an exponent needs no brackets, but is easily overlooked without them.
        exponent = _expr(expr.right, _POWER)
        return (_expr(expr.left, _POSTFIX), "^", exponent)
    if level == _COMPARE:
        return Group((_expr(expr.left, _SUM), Break(), f"{expr.op} ", _expr(expr.right, _SUM)))
    # a + b - c is one chain, which breaks at each of its operators or at none
    chain: list[Doc] = []
    left: ast.Expr = expr
    while isinstance(left, ast.Binary) and _level(left) == level:
        chain[:0] = [Break(), f"{left.op} ", _expr(left.right, level + 1)]
        left = left.left
    return Group((_expr(left, level), *chain))


def _pipe(expr: ast.Pipe) -> Doc:
    chain: list[Doc] = []
    left: ast.Expr = expr
    while isinstance(left, ast.Pipe):
        chain[:0] = [Break(), "|> ", _call(left.call)]
        left = left.value
    return Group((_expr(left, _PIPE), *chain))
