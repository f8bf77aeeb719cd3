"""Operations and reductions in OpenCL C."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from lossdsl.backends.api import NotSupportedError, Reduce, Value

TYPES = {"real": "R", "int": "long", "bool": "int"}

# {0}, {1}, {2} are the arguments, reals where the operation is of reals.
REAL = {
    "exp": "exp({0})",
    "log": "log({0})",
    "log1p": "log1p({0})",
    "expm1": "expm1({0})",
    "sqrt": "sqrt({0})",
    "pow": "pow({0}, {1})",
    "div": "{0} / {1}",
    "sin": "sin({0})",
    "cos": "cos({0})",
    "tan": "tan({0})",
    "tanh": "tanh({0})",
    "atan": "atan({0})",
    "asin": "asin({0})",
    "acos": "acos({0})",
    "erf": "erf({0})",
    "lgamma": "lgamma({0})",
    "floor": "(long)floor({0})",
    "round": "(long)rint({0})",
    "isfinite": "isfinite({0})",
}
ANY = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "neg": "-{0}",
    "abs": "({0} < 0 ? -{0} : {0})",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "and": "{0} && {1}",
    "or": "{0} || {1}",
    "not": "!{0}",
    "maximum": "({0} > {1} || {0} != {0} ? {0} : {1})",
    "minimum": "({0} < {1} || {0} != {0} ? {0} : {1})",
}


def literal(x: object, kind: str) -> str:
    """A constant; fractions in both precisions, since the macro R decides late."""
    if isinstance(x, bool):
        return str(int(x))
    assert isinstance(x, Fraction | float | int)
    if kind != "real" and x == int(x):
        return f"{int(x)}L"
    value = float(x)
    if math.isnan(value):
        return "(R)NAN"
    if math.isinf(value):
        return "(R)INFINITY" if value > 0 else "(-(R)INFINITY)"
    return f"(R)({value!r})"


@dataclass(frozen=True, slots=True)
class State:
    """A reduction as C: declarations (type, suffix, start), the step for an entry {x} (and its index {i}) with the
    state's name {s}, and the results."""

    variables: tuple[tuple[str, str, str], ...]
    step: str
    results: tuple[str, ...]


# Sums are compensated, so that thousands of floats lose no digits; what isn't finite has no compensation.
_ADD = "{{ const R t = {s} + {x}; {s}_c += fabs({s}) >= fabs({x}) ? ({s} - t) + {x} : ({x} - t) + {s}; {s} = t; }}"
_SUM = "(isfinite({s}) ? {s} + {s}_c : {s})"
_LSE = (
    "if ({x} > {s}_m) {{ const R f = exp({s}_m - {x}); {s} = (({s} + {s}_c) + 1) * f; {s}_c = 0; {s}_m = {x}; }} "
    "else if (!({x} == -(R)INFINITY)) {{ const R e = exp({x} - {s}_m); "
    "const R t = {s} + e; {s}_c += fabs({s}) >= fabs(e) ? ({s} - t) + e : (e - t) + {s}; {s} = t; }}"
)


def state(r: Reduce) -> State:
    """How a reduction is printed."""
    whole = r.values[0].dtype != "real"
    kind = TYPES[r.values[0].dtype]
    match r.reduction:
        case "sum" if whole:
            return State((("long", "", "0"),), "{s} += {x};", ("{s}",))
        case "sum":
            return State((("R", "", "0"), ("R", "_c", "0")), _ADD, (_SUM,))
        case "count":
            return State((("long", "", "0"),), "{s} += 1;", ("{s}",))
        case "prod":
            return State(((kind, "", "1"),), "{s} *= {x};", ("{s}",))
        case "max" | "min" if not whole:
            compare, start = (">", "-(R)INFINITY") if r.reduction == "max" else ("<", "(R)INFINITY")
            return State((("R", "", start),), f"if ({{x}} {compare} {{s}} || {{x}} != {{x}}) {{s}} = {{x}};", ("{s}",))
        case "argmax":
            variables = (("R", "_m", "-(R)INFINITY"), ("long", "", "0"), ("int", "_any", "0"))
            return State(variables, "if (!{s}_any || {x} > {s}_m) {{ {s}_m = {x}; {s} = {i}; {s}_any = 1; }}", ("{s}",))
        case "logsumexp" if len(r.values) == 2:
            variables = (("R", "_m", "-(R)INFINITY"), ("R", "", "-1"), ("R", "_c", "0"))
            return State(variables, _LSE, ("({s}_m == -(R)INFINITY ? 0 : {s}_m)", "({s} + {s}_c)"))
        case "ties" if not whole:
            step = "if ({x} > {s}_m) {{ {s}_m = {x}; {s} = 1; }} else if ({x} == {s}_m) {s} += 1;"
            return State((("R", "_m", "-(R)INFINITY"), ("long", "", "0")), step, ("{s}_m", "{s}"))
    raise NotSupportedError(f"the reduction {r.reduction!r} of {r.values[0].dtype} values")


def declared(v: Value, text: str) -> str:
    return f"const {TYPES[v.dtype]} v_{v.name} = {text};"
