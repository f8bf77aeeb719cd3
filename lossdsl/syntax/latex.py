"""A file's equation in LaTeX, from its syntax tree: what a paper would print."""

from __future__ import annotations

from lossdsl.source.text import Source
from lossdsl.syntax import ast
from lossdsl.syntax.parse import parse

LETTERS = "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega"
_GREEK = frozenset(LETTERS.split())
_FUNCTIONS = frozenset(["exp", "log", "sin", "cos", "tan", "tanh", "min", "max"])
_BIG = {"sum": r"\sum", "prod": r"\prod", "max": r"\max", "min": r"\min"}
_RELATIONS = {"==": "=", "!=": r"\ne", "<=": r"\le", ">=": r"\ge", "<": "<", ">": ">", "and": r"\wedge", "or": r"\vee"}
_SUM, _TERM, _MINUS, _POWER, _ATOM = range(1, 6)


def latex(source: Source) -> str:
    """The assignments and what is returned, one equation a line, for an `aligned` block. DiagnosticError if the text
    is no loss."""
    loss = parse(source)
    lines = [f"{_name(s.name)} &= {_expr(s.value)[0]}" for s in loss.body if isinstance(s, ast.Assign)]
    lines.append(rf"\ell &= {_argument(loss.result)}")
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def _name(name: str) -> str:
    head, _, tail = name.partition("_")
    primes = "'" * head.count("'")
    head = head.rstrip("'")
    body = f"\\{head}" if head in _GREEK else head if len(head) == 1 else rf"\mathit{{{head}}}"
    below = rf"_{{\mathrm{{{tail.replace('_', ' ')}}}}}" if tail else ""
    return f"{body}{primes}{below}"


def _axis(axis: ast.AxisRef) -> str:
    """An axis as an index: n for N, n' for its copy."""
    base = axis.name.rstrip("'")
    return f"{base.lower()}{axis.name[len(base) :]}"


def _argument(arg: ast.Argument) -> str:
    text = _expr(arg.value)[0]
    if arg.where is not None:
        text += rf"\;\big[{_expr(arg.where)[0]}\big]"
    if arg.weighted is not None:
        text = rf"\left({text}\right) \cdot {_at(arg.weighted, _TERM)}"
    return text


def _at(e: ast.Expr, level: int) -> str:
    text, own = _expr(e)
    return text if own >= level else rf"\left({text}\right)"


def _expr(e: ast.Expr) -> tuple[str, int]:
    """The LaTeX of an expression and how tightly it binds."""
    match e:
        case ast.Number(text):
            return _number(text)
        case ast.Name(name):
            return {"inf": r"\infty", "pi": r"\pi"}.get(name, _name(name)), _ATOM
        case ast.AxisRef():
            return _axis(e), _ATOM
        case ast.Primed(name, primes):
            return _name(name) + "'" * primes, _ATOM
        case ast.Vector(items):
            return rf"\left[{', '.join(_expr(i)[0] for i in items)}\right]", _ATOM
        case ast.Pick(base, index):
            return f"{_at(base, _ATOM)}_{{{_expr(index)[0]}}}", _ATOM
        case ast.Substitute(base, pairs):
            inside = ", ".join(rf"{_axis(p.axis)} \to {_expr(p.value)[0]}" for p in pairs)
            return rf"{_at(base, _ATOM)}\big|_{{{inside}}}", _ATOM
        case ast.Unary(op, value):
            return (f"-{_at(value, _MINUS)}", _MINUS) if op == "-" else (rf"\neg {_at(value, _ATOM)}", _MINUS)
        case ast.Binary():
            return _binary(e)
        case ast.If(condition, then, otherwise):
            rows = [
                rf"{_expr(then)[0]} & \text{{if }} {_expr(condition)[0]}",
                rf"{_expr(otherwise)[0]} & \text{{else}}",
            ]
            return r"\begin{cases} " + r" \\ ".join(rows) + r" \end{cases}", _ATOM
        case ast.Root(variable, low, high, body):
            bounds = rf"{_name(variable)} \in \left[{_expr(low)[0]}, {_expr(high)[0]}\right]"
            return rf"\operatorname{{root}}_{{{bounds}}}\left({_expr(body)[0]}\right)", _ATOM
        case ast.Pipe(value, call):
            first = ast.Argument(value)
            return _call(ast.Call(call.function, call.axes, (first, *call.args)))
        case ast.Call():
            return _call(e)
    raise AssertionError(e)


def _number(text: str) -> tuple[str, int]:
    digits, e, power = text.lower().partition("e")
    return (rf"{digits} \cdot 10^{{{int(power)}}}", _TERM) if e else (text, _ATOM)


def _binary(e: ast.Binary) -> tuple[str, int]:
    if e.op == "/":
        return rf"\frac{{{_expr(e.left)[0]}}}{{{_expr(e.right)[0]}}}", _ATOM
    if e.op == "^":
        return f"{_at(e.left, _ATOM)}^{{{_expr(e.right)[0]}}}", _POWER
    if e.op == "*":
        return rf"{_at(e.left, _TERM)} \, {_at(e.right, _TERM)}", _TERM
    if e.op in "+-":
        return f"{_at(e.left, _SUM)} {e.op} {_at(e.right, _TERM if e.op == '-' else _SUM)}", _SUM
    return f"{_at(e.left, _SUM)} {_RELATIONS[e.op]} {_at(e.right, _SUM)}", 0


def _call(e: ast.Call) -> tuple[str, int]:
    axes = ", ".join(map(_map, e.axes))
    plain = [a for a in e.args if a.name is None]
    if e.function in _BIG and len(e.args) == 1 and e.axes:
        arg = e.args[0]
        below = axes if arg.where is None else rf"{axes}:\, {_expr(arg.where)[0]}"
        return rf"{_BIG[e.function]}_{{{below}}} {_at(arg.value, _TERM)}", _TERM
    inside = ", ".join((f"{_name(a.name)} = " if a.name is not None else "") + _argument(a) for a in e.args)
    if e.function == "sqrt" and len(plain) == 1:
        return rf"\sqrt{{{inside}}}", _ATOM
    if e.function == "abs" and len(plain) == 1:
        return rf"\left|{inside}\right|", _ATOM
    spelled = e.function.replace("_", r"\_")
    name = f"\\{spelled}" if e.function in _FUNCTIONS else rf"\operatorname{{{spelled}}}"
    below = f"_{{{axes}}}" if axes else ""
    return rf"{name}{below}\left({inside}\right)", _ATOM


def _map(a: ast.AxisMap) -> str:
    if a.to is None:
        return _axis(a.axis)
    return f"{_axis(a.axis)} {'=' if a.binds else chr(92) + 'to'} {_axis(a.to)}"
