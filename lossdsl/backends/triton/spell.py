"""Names and expressions in Triton."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lossdsl.backends.api import COMPARISONS, Operand, is_whole

INFIX = {"add": "+", "sub": "-", "mul": "*", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
INFIX |= {"and": "&", "or": "|"}
LOGIC = frozenset({"and", "or", "not"})
NUMBERS = frozenset({"add", "sub", "mul", "neg", "abs", "maximum", "minimum", "clip", "relu", "sign", "mod", "mulz"})
# functions of device.py
DEVICE = {"exp": "exp_", "log": "log_", "log1p": "log1p_", "expm1": "expm1_", "sqrt": "sqrt_", "pow": "pow_"}
DEVICE |= {"round": "round_", "sign": "sign_", "isfinite": "isfinite_", "lgamma": "lgamma_"}
DEVICE |= {"maximum": "maximum_", "minimum": "minimum_", "mod": "mod_", "erf": "erf_", "atan": "atan_"}
BUILT_IN = {"abs": "tl.abs", "floor": "tl.floor", "sin": "tl.sin", "cos": "tl.cos"}
SPELLED = frozenset({*INFIX, *DEVICE, *BUILT_IN, "div", "neg", "not", "select", "clip", "relu", "index", "size"})
COSTLY = frozenset({"exp", "log", "log1p", "expm1", "sqrt", "pow", "lgamma", "erf", "atan", "sin", "cos"})
POWERS: dict[float, Callable[[str], str]] = {
    2.0: lambda x: f"{x} * {x}",
    3.0: lambda x: f"{x} * {x} * {x}",
    4.0: lambda x: f"({x} * {x}) * ({x} * {x})",
    1.0: lambda x: x,
}
TYPES = {"real": "REAL", "int": "tl.int64", "bool": "tl.int1"}
# names of the printer's own, in kernels and around them
OWN = """
tl triton torch Tensor device real REAL R P FIRST LAST lane lanes live there
part split splits start first own states tail step at lo hi
"""
RESERVED = frozenset(re.findall(r"\w+", OWN))
PREFIXES = re.compile(r"(n|cols|ok|row|rest|share|B|U|EVEN|begin|end|full)(_|$)")


@dataclass(frozen=True, slots=True)
class Term:
    """An expression, its dtype, and the axes it has as a tile: of rows, of the sweep, of both or of none.

    `narrow` is its text in 32 bits, for comparing indices; `literal` whether it is a number of the text.
    """

    text: str
    dtype: str
    axes: frozenset[str] = frozenset()
    narrow: str = ""
    literal: bool = False


def identifier(name: str) -> str:
    """A Python name for a name of the program; different ones stay different."""
    plain = name.replace("@", "_at_").replace("'", "1").replace(".", "_")
    plain = re.sub(r"\W", lambda m: f"_{ord(m[0]):x}_", plain)
    if plain[0].isdigit():
        plain = f"v{plain}"
    taken = keyword.iskeyword(plain) or plain in RESERVED or plain.endswith("_") or plain.startswith("_")
    return f"{plain}_v" if taken or PREFIXES.match(plain) else plain


def helper_name(op: str) -> str:
    """The function of a primitive that is printed from its record."""
    return f"op_{re.sub(r'[^a-zA-Z0-9]', '_', op)}"


def constant(x: Any, dtype: str = "number") -> Term:
    """A number of the program as a literal."""
    if isinstance(x, bool):
        return (
            Term("1.0" if x else "0.0", "real", literal=True) if dtype == "real" else Term(str(x), "bool", literal=True)
        )
    whole = is_whole(x)
    if whole and dtype in ("int", "number"):
        return Term(f"{int(x)}", "int", narrow=f"{int(x)}" if abs(int(x)) < 2**31 else "", literal=True)
    value = float(x)
    if math.isnan(value) or math.isinf(value):
        return Term(f'float("{value}")', "real", literal=True)
    return Term(repr(value), "real", literal=True)


def exact(text: str) -> bool:
    """Whether a literal means the same in float32, so that it may stand beside tensors of either type."""
    if text.startswith("float("):
        return True
    value = float(text)
    try:
        import struct

        return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
    except OverflowError:
        return False


def operand(x: Operand, names: Mapping[str, Term]) -> Term:
    """The term of a value's name or of a constant."""
    return names[x] if isinstance(x, str) else constant(x)


def real(t: Term) -> str:
    """The term as a real number."""
    if t.literal:
        text = (
            t.text
            if t.dtype == "real"
            else repr(float(int(t.text)))
            if t.dtype == "int"
            else f"{float(t.text == 'True')}"
        )
        return text if exact(text) else f"tl.full((1, 1), {text}, REAL)"
    return t.text if t.dtype == "real" else f"{t.text}.to(REAL)"


def tensor(t: Term, dtype: str) -> str:
    """The term as a tensor, a literal too."""
    text = real(t) if dtype == "real" else t.text
    return f"tl.full((1, 1), {text}, {TYPES[dtype]})" if t.literal and not text.startswith("tl.full") else text


def whole(t: Term) -> str:
    """The term as a whole number."""
    return t.text if t.literal or t.dtype == "int" else f"{t.text}.to(tl.int64)"


def expression(op: str, terms: Sequence[Term], args: Sequence[Operand], dtype: str) -> str:
    """A primitive of operands, as Triton of the result's dtype."""
    literal = all(t.literal for t in terms)
    if op == "select":
        condition, yes, no = terms
        cast = real if dtype == "real" else whole if dtype == "int" else _bool
        left, right = cast(yes), cast(no)
        if yes.literal and no.literal:
            left = tensor(yes, dtype)
        return f"tl.where({_bool(condition)}, {left}, {right})"
    if op == "not":
        return f"~{_bool(terms[0])}"
    if op in LOGIC:
        return f"{_bool(terms[0])} {INFIX[op]} {_bool(terms[1])}"
    if op in COMPARISONS:
        if all(t.narrow for t in terms):
            return f"{terms[0].narrow} {INFIX[op]} {terms[1].narrow}"
        cast = whole if all(t.dtype != "real" for t in terms) else real
        left = cast(terms[0])
        if literal:
            left = tensor(terms[0], "real" if cast is real else "int")
        return f"{left} {INFIX[op]} {cast(terms[1])}"
    kind = "int" if dtype == "int" and op in NUMBERS and all(t.dtype != "real" for t in terms) else "real"
    cast = whole if kind == "int" else real
    texts = [cast(t) for t in terms]
    if literal and texts:
        texts[0] = tensor(terms[0], kind)
    if op in ("add", "sub", "mul"):
        return f"{texts[0]} {INFIX[op]} {texts[1]}"
    if op == "div":
        row = not terms[0].axes and not terms[1].axes
        return f"div_({tensor(terms[0], 'real')}, {tensor(terms[1], 'real')})" if row else f"{texts[0]} / {texts[1]}"
    if op == "neg":
        return f"-{texts[0]}"
    if op == "relu":
        return f"maximum_({tensor(terms[0], kind)}, 0)" if kind == "int" else f"maximum_({texts[0]}, 0.0)"
    if op == "clip":
        return f"minimum_(maximum_({tensor(terms[0], kind)}, {texts[1]}), {texts[2]})"
    if op == "pow" and not isinstance(args[1], str | bool):
        base = texts[0]
        if float(args[1]) in POWERS and re.fullmatch(r"\w+", base):
            return POWERS[float(args[1])](base)
        if float(args[1]) == -1.0:
            return f"1.0 / {base}"
    spelled = DEVICE.get(op) or BUILT_IN.get(op) or helper_name(op)
    given = [tensor(t, kind) for t in terms]
    if op in ("maximum", "minimum") and not literal:  # one of both has a type
        given = texts
    call = f"{spelled}({', '.join(given)})"
    return f"{call}.to(tl.int64)" if dtype == "int" and kind == "real" else call


def _bool(t: Term) -> str:
    if t.literal:
        truth = t.text not in ("False", "0", "0.0")
        return f"tl.full((1, 1), {truth}, tl.int1)"
    return t.text if t.dtype == "bool" else f"({t.text} != 0)"
