"""Names and expressions in C++."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lossdsl.backends.api import COMPARISONS, Operand, is_whole

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">"}
INFIX |= {"ge": ">=", "and": "&", "or": "|"}
LOGIC = {"and", "or", "not"}
NUMBERS = {"add", "sub", "mul"}  # whole of whole numbers
GENERIC = {"maximum", "minimum", "clip", "relu", "mod", "mulz", "abs", "sign", "neg"}  # of either kind
CALLS = {name: name for name in ("maximum", "minimum", "clip", "relu", "sign", "mulz", "exp", "log", "expm1", "log1p")}
CALLS |= {name: name for name in ("sqrt", "sin", "cos", "tan", "acos", "asin", "atan", "tanh", "sigmoid", "softplus")}
CALLS |= {name: name for name in ("erf", "lgamma", "digamma", "trigamma", "tetragamma", "floor", "logaddexp")}
CALLS |= {name: name for name in ("log1mexp", "expm1mx", "log1pmx", "expsub", "divergence", "pow", "isfinite")}
CALLS |= {
    name: name for name in ("expm1_low", "expm1mx_near", "exp_neg", "expsub_below")
}  # `ranges.narrowed` writes these
CALLS |= {"abs": "absolute", "round": "nearest", "mod": "modulo"}
COSTLY = {"exp", "log", "expm1", "log1p", "sin", "cos", "tan", "acos", "asin", "atan", "tanh", "sigmoid", "softplus"}
COSTLY |= {"erf", "lgamma", "digamma", "trigamma", "tetragamma", "logaddexp", "log1mexp", "expm1mx", "log1pmx"}
COSTLY |= {"expsub", "divergence", "pow", "expm1_low", "expm1mx_near", "exp_neg", "expsub_below"}
POWERS = {2.0: "{0} * {0}", 3.0: "{0} * {0} * {0}", 4.0: "({0} * {0}) * ({0} * {0})", -1.0: "R(1) / {0}"}
TYPES = {"real": "R", "int": "long", "bool": "bool"}
# In memory a bool keeps a loop scalar: in tensors it is a byte, in arrays an int, which mixes with floats.
CELLS = {**TYPES, "bool": "unsigned char"}
ARRAYS = {**TYPES, "bool": "int"}

_WORDS = (  # of C++20, and typeof
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t "
    "char8_t class compl concept const const_cast consteval constexpr constinit continue co_await "
    "co_return co_yield decltype default delete do double dynamic_cast else enum explicit export extern "
    "false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr "
    "operator or or_eq private protected public register reinterpret_cast requires return short signed "
    "sizeof static static_assert static_cast struct switch template this thread_local throw true try "
    "typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq "
)
_KEYWORDS = set(_WORDS.split())
# what the printers, and the functions of the prelude, call their own
_KEYWORDS |= {"b0", "b1", "fetch", "padded", "tail", "untail", "narrow", "transpose", "block_count", "room", "lim"}
_KEYWORDS |= {"countable", "small_power", "products", "as_float", "not_far", "View", "OutView", "Arena", "Call"}
_KEYWORDS |= {"Status", "Refusal", "Sum", "Prod", "Max", "Min", "Ties", "Argmax", "Lse", "Tilted"}
_KEYWORDS |= {*"abcdhjklnpqtvxyzLR", "arena", "bits", "block", "blocks", "c0", "c1", "height", "lane", "lanes", "own"}
_KEYWORDS |= {"put", "row", "row0", "rows", "run", "split", "status", "std", "tile", "tiles", "width"}


@dataclass(frozen=True, slots=True)
class Term:
    """An expression and its dtype. `narrow` is its text in 32 bits, where a whole number is known to fit, or where
    comparing with what fits gives the same."""

    text: str
    dtype: str
    narrow: str = ""


Names = Mapping[str, Term]


def identifier(name: str) -> str:
    """A C++ name for a name of the program; different ones stay different."""
    plain = name.replace("@", "seed_").replace("'", "1").replace(".", "_")
    plain = re.sub(r"\W", lambda m: f"_{ord(m[0]):x}_", plain)
    if plain[0].isdigit():
        plain = f"v{plain}"
    return plain + "_" if plain in _KEYWORDS or plain in CALLS.values() or plain.startswith("_") else plain


def helper_name(op: str) -> str:
    """The function of a primitive that the prelude doesn't spell."""
    return f"op_{re.sub(r'[^a-zA-Z0-9]', '_', op)}"


def constant(x: Any, dtype: str) -> Term:
    """A number of the program as a literal of this dtype ("number": whole where it is)."""
    if isinstance(x, bool):
        text = "true" if x else "false"
        return Term(
            text if dtype in ("bool", "number") else "R(1)" if x else "R(0)", "bool" if dtype != "real" else "real"
        )
    whole = is_whole(x)
    if dtype in ("int", "number") and whole:
        return Term(
            f"{int(x)}L" if abs(int(x)) > 2**31 - 1 else f"{int(x)}", "int", f"{int(x)}" if abs(int(x)) < 2**31 else ""
        )
    value = float(x)
    if math.isnan(value):
        return Term("lim<R>::nan", "real")
    if math.isinf(value):
        return Term("lim<R>::inf" if value > 0 else "-lim<R>::inf", "real")
    return Term(f"R({value:g})" if float(f"{value:g}") == value else f"R({value!r})", "real")


def operand(x: Operand, names: Names, dtype: str = "number") -> Term:
    """The term of a value's name or of a constant."""
    return names[x] if isinstance(x, str) else constant(x, dtype)


def real(t: Term) -> str:
    """The term as a real number."""
    if t.dtype == "real":
        return t.text
    if re.fullmatch(r"-?\d+", t.text):
        return f"R({t.text})"
    return f"(R)({t.text})" if " " in t.text else f"(R){t.text}"


def expression(op: str, args: Sequence[Operand], names: Names, dtype: str) -> str:
    """A primitive of operands, as C++ of the result's dtype."""
    terms = [operand(a, names) for a in args]
    if op == "select":
        condition, yes, no = terms
        pick = real if dtype == "real" else lambda t: t.text
        return f"{condition.text} ? {pick(yes)} : {pick(no)}"
    if op in LOGIC:
        if op == "not":
            return f"!{terms[0].text}"
        return f"{terms[0].text} {INFIX[op]} {terms[1].text}"  # both sides: no branch in a vector
    if op in COMPARISONS:
        whole = all(t.dtype != "real" for t in terms)
        left, right = (t.text if whole else real(t) for t in terms)
        return f"{left} {INFIX[op]} {right}"
    whole = dtype != "real" and all(t.dtype != "real" for t in terms)
    if op in NUMBERS:
        left, right = (t.text if whole else real(t) for t in terms)
        return f"{left} {INFIX[op]} {right}"
    if op == "div":
        return f"{real(terms[0])} / {real(terms[1])}"
    if op == "pow" and not isinstance(args[1], str | bool) and dtype == "real":
        exponent, base = float(args[1]), real(terms[0])
        if exponent in POWERS:
            return POWERS[exponent].format(base if re.fullmatch(r"\w+(\[\w+\])?", base) else f"({base})")
    if op == "neg":
        return f"-{terms[0].text if whole else real(terms[0])}"
    whole = whole and op in CALLS
    spelled = [f"(long){t.text}" if whole else real(t) for t in terms]
    call = f"{CALLS.get(op) or helper_name(op)}({', '.join(spelled)})"
    return f"(long){call}" if dtype == "int" and not whole else call
