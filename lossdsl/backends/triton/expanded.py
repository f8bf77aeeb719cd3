"""Primitives that `device.py` doesn't spell, a plugin's among them, as functions from their records' `expand`."""

from __future__ import annotations

from collections.abc import Iterable

from lossdsl.backends.api import Let, Load, NotSupportedError, Store
from lossdsl.backends.formula import formula
from lossdsl.backends.triton.layout import wrapped
from lossdsl.backends.triton.spell import SPELLED, Term, expression, helper_name, operand, tensor
from lossdsl.registry import Registry


def helpers(ops: Iterable[str], registry: Registry) -> dict[str, str]:
    """The functions that these operations need, each after those it calls; NotSupportedError for a primitive that has
    neither a spelling nor an expansion."""
    made: dict[str, str] = {}
    for op in ops:
        _helper(op, registry, made)
    return made


def _helper(op: str, registry: Registry, made: dict[str, str]) -> None:
    if op in SPELLED or op in made:
        return
    program = formula(op, registry)
    if program is None:
        raise NotSupportedError(f"the primitive {op!r}")
    names: dict[str, Term] = {}
    lines: list[str] = []
    for s in program.body:
        if isinstance(s, Load):
            names[s.value.name] = Term(s.buffer, s.value.dtype, frozenset("."))
        elif isinstance(s, Let):
            _helper(s.op, registry, made)
            terms = [operand(a, names) for a in s.args]
            lines += wrapped(f"    {s.value.name} = {expression(s.op, terms, s.args, s.value.dtype)}", (), "")
            names[s.value.name] = Term(s.value.name, s.value.dtype, frozenset("."))
        elif isinstance(s, Store):
            lines.append(f"    return {tensor(operand(s.value, names), program.buffers[-1].dtype)}")
    arguments = [b.name for b in program.buffers if b.role == "in"]
    head = [f"def {helper_name(op)}({', '.join(arguments)}):"]
    if any("REAL" in line for line in lines):
        head.append(f"    REAL: tl.constexpr = {arguments[0]}.dtype")
    text = "\n".join([*head, *lines])
    made[op] = f"@triton.jit\n{text}\n"
