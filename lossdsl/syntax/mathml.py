"""A file's equation in MathML, from its syntax tree: what browsers show without any library.

latex.py says the same to TeX.
"""

from __future__ import annotations

from html import escape

from lossdsl.source.text import Source
from lossdsl.syntax import ast
from lossdsl.syntax.latex import LETTERS
from lossdsl.syntax.parse import parse

_GREEK = dict(zip(LETTERS.split(), "αβγδεζηθκλμνξπρστφχψω", strict=True))
_BIG = {"sum": "∑", "prod": "∏", "max": "max", "min": "min"}
_RELATIONS = {"==": "=", "!=": "≠", "<=": "≤", ">=": "≥", "<": "<", ">": ">", "and": "∧", "or": "∨"}
_SUM, _TERM, _MINUS, _POWER, _ATOM = range(1, 6)


def mathml(source: Source) -> str:
    """The definitions, the assignments and what is returned, one a row of a table that is aligned at the equals signs.
    DiagnosticError if the text is no loss."""
    loss = parse(source)
    rows = [_equation(s) for s in loss.body]
    rows.append((_id("ℓ"), _argument(loss.result)))
    body = "".join(f"<mtr><mtd>{left}</mtd><mtd>{_op('=')}{right}</mtd></mtr>" for left, right in rows)
    return f'<math display="block"><mtable displaystyle="true">{body}</mtable></math>'


def _equation(s: ast.Statement) -> tuple[str, str]:
    if isinstance(s, ast.Assign):
        return _name(s.name), _at(s.value, _SUM)
    params = _op(",").join(_name(p.name) for p in s.parameters)
    return _row(_word(s.name), _bracketed(params)), _at(s.body, _SUM)


def _row(*parts: str) -> str:
    return f"<mrow>{''.join(parts)}</mrow>"


def _op(text: str) -> str:
    return f"<mo>{escape(text)}</mo>"


def _id(text: str) -> str:
    return f"<mi>{escape(text)}</mi>"


def _word(text: str) -> str:
    """A name of several letters, upright."""
    return f'<mi mathvariant="normal">{escape(text)}</mi>' if len(text) == 1 else f"<mi>{escape(text)}</mi>"


def _bracketed(inside: str, left: str = "(", right: str = ")") -> str:
    return _row(f'<mo stretchy="true">{left}</mo>', inside, f'<mo stretchy="true">{right}</mo>')


def _below(base: str, below: str) -> str:
    return f"<msub>{base}<mrow>{below}</mrow></msub>"


def _name(name: str) -> str:
    head, _, tail = name.partition("_")
    primes = "′" * head.count("'")
    body = _id(_GREEK.get(head.rstrip("'"), head.rstrip("'")))
    if primes:
        body = f"<msup>{body}{_op(primes)}</msup>"
    return _below(body, f"<mtext>{escape(tail.replace('_', ' '))}</mtext>") if tail else body


def _axis(axis: ast.AxisRef) -> str:
    """An axis as an index: n for N, n′ for its copy; marked, since a value may have that name too."""
    base = axis.name.rstrip("'")
    primes = "′" * (len(axis.name) - len(base))
    letter = f'<mi class="axis">{escape(base.lower())}</mi>'
    return f"<msup>{letter}{_op(primes)}</msup>" if primes else letter


def _argument(arg: ast.Argument) -> str:
    text = _expr(arg.value)[0]
    if arg.where is not None:
        text = _row(text, '<mspace width="0.6em"/>', _bracketed(_expr(arg.where)[0], "[", "]"))
    if arg.weighted is not None:
        text = _row(_bracketed(text), _op("·"), _at(arg.weighted, _TERM))
    return text


def _at(e: ast.Expr, level: int) -> str:
    """An expression among others: in brackets if it binds less, square ones (1 if it holds, else 0) for a relation."""
    text, own = _expr(e)
    if own >= level:
        return text
    return _bracketed(text) if own else _bracketed(text, "[", "]")


def _expr(e: ast.Expr) -> tuple[str, int]:
    """The MathML of an expression and how tightly it binds."""
    match e:
        case ast.Number(text):
            digits, exponent, power = text.lower().partition("e")
            if exponent:
                ten = f"<msup><mn>10</mn><mn>{int(power)}</mn></msup>".replace("<mn>-", "<mn>−")
                return _row(f"<mn>{digits}</mn>", _op("·"), ten), _TERM
            return f"<mn>{text}</mn>", _ATOM
        case ast.Name(name):
            return {"inf": _id("∞"), "pi": _id("π")}.get(name, _name(name)), _ATOM
        case ast.AxisRef():
            return _axis(e), _ATOM
        case ast.Primed(name, primes):
            return f"<msup>{_name(name)}{_op('′' * primes)}</msup>", _ATOM
        case ast.Vector(items):
            return _bracketed(_op(",").join(_expr(i)[0] for i in items), "[", "]"), _ATOM
        case ast.Pick(base, index):
            return _below(_at(base, _ATOM), _expr(index)[0]), _ATOM
        case ast.Substitute(base, pairs):
            inside = _op(",").join(_row(_axis(p.axis), _op("→"), _expr(p.value)[0]) for p in pairs)
            return _below(_row(_at(base, _ATOM), '<mo stretchy="true">|</mo>'), inside), _ATOM
        case ast.Unary(op, value):
            return _row(_op("−" if op == "-" else "¬"), _at(value, _MINUS if op == "-" else _ATOM)), _MINUS
        case ast.Binary():
            return _binary(e)
        case ast.If(condition, then, otherwise):
            cases = ((then, _row("<mtext>if\u00a0</mtext>", _expr(condition)[0])), (otherwise, "<mtext>else</mtext>"))
            rows = "".join(f"<mtr><mtd>{_expr(v)[0]}</mtd><mtd>{when}</mtd></mtr>" for v, when in cases)
            return f'<mtable class="cases">{rows}</mtable>', _ATOM  # the page's style draws the brace
        case ast.Root(variable, low, high, body):
            span = _bracketed(_row(_expr(low)[0], _op(","), _expr(high)[0]), "[", "]")
            head = f"<munder>{_word('root')}<mrow>{_name(variable)}{_op('∈')}{span}</mrow></munder>"
            return _row(head, _bracketed(_expr(body)[0])), _ATOM
        case ast.Pipe(value, call):
            return _call(ast.Call(call.function, call.axes, (ast.Argument(value), *call.args)))
        case ast.Call():
            return _call(e)
    raise AssertionError(e)


def _binary(e: ast.Binary) -> tuple[str, int]:
    left, right = e.left, e.right
    if e.op == "/":
        return f"<mfrac><mrow>{_expr(left)[0]}</mrow><mrow>{_expr(right)[0]}</mrow></mfrac>", _ATOM
    if e.op == "^":
        return f"<msup>{_at(left, _ATOM)}<mrow>{_expr(right)[0]}</mrow></msup>", _POWER
    if e.op == "*":
        return _row(_at(left, _TERM), '<mspace width="0.17em"/>', _at(right, _TERM)), _TERM
    if e.op in "+-":
        return _row(_at(left, _SUM), _op("−" if e.op == "-" else "+"), _at(right, _TERM if e.op == "-" else _SUM)), _SUM
    return _row(_at(left, _SUM), _op(_RELATIONS[e.op]), _at(right, _SUM)), 0


def _call(e: ast.Call) -> tuple[str, int]:
    axes = _op(",").join(map(_map, e.axes))
    plain = [a for a in e.args if a.name is None]
    if e.function in _BIG and len(e.args) == 1 and e.axes:
        arg = e.args[0]
        below = axes if arg.where is None else axes + _op(":") + _expr(arg.where)[0]
        big = f"<munder><mo>{_BIG[e.function]}</mo><mrow>{below}</mrow></munder>"
        return _row(big, _at(arg.value, _TERM)), _TERM
    inside = _op(",").join((_name(a.name) + _op("=") if a.name is not None else "") + _argument(a) for a in e.args)
    if e.function == "sqrt" and len(plain) == 1:
        return f"<msqrt><mrow>{inside}</mrow></msqrt>", _ATOM
    if e.function == "abs" and len(plain) == 1:
        return _bracketed(inside, "|", "|"), _ATOM
    name = _word(e.function.replace("_", " "))
    return _row(_below(name, axes) if axes else name, _bracketed(inside)), _ATOM


def _map(a: ast.AxisMap) -> str:
    if a.to is None:
        return _axis(a.axis)
    return _row(_axis(a.axis), _op("=" if a.binds else "→"), _axis(a.to))
