"""Primitives that the prelude doesn't spell, a plugin's among them, as C++ functions from their records' `expand`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from lossdsl.backends.api import COMPARISONS, Island, KernelProgram, Let, Loop, NotSupportedError, Stmt
from lossdsl_cpu.cxx import CALLS, COSTLY, INFIX, LOGIC, TYPES, Term, expression, helper_name

SPELLED = {*CALLS, *INFIX, *LOGIC, "select", "neg", "index", "size"}
ARGUMENTS = ("x", "y", "z", "w")


def primitives_of(body: Sequence[Stmt]) -> Iterator[str]:
    """The operations of a program's statements."""
    for s in body:
        match s:
            case Let():
                yield s.op
            case Loop():
                yield from primitives_of((*s.head, *s.body))
            case Island():
                yield from primitives_of(s.body)


def helpers(program: KernelProgram, records: Mapping[str, Any]) -> str:
    """The functions that a program needs besides the prelude, each after those it calls; NotSupportedError for a
    primitive that has no expansion."""
    made: dict[str, str] = {}
    for op in dict.fromkeys(primitives_of(program.body)):
        _helper(op, records, made)
    return "".join(made.values())


def costly(op: str, records: Mapping[str, Any]) -> bool:
    """Whether an operation that isn't spelled costs a transcendental."""
    if op in SPELLED or op not in records:
        return op in COSTLY
    tape = Tape({}, records)
    record = records[op]
    record.expand(tape, *(Symbol(tape, Term(a, "real")) for a in ARGUMENTS[: record.arity]))
    return any(costly(o, records) for o in tape.ops)


def _helper(op: str, records: Mapping[str, Any], made: dict[str, str]) -> None:
    if op in SPELLED or op in made:
        return
    record = records.get(op)
    if record is None or record.expand is None:
        raise NotSupportedError(f"the primitive {op!r}")
    tape = Tape(made, records)
    arguments = [Symbol(tape, Term(a, "real")) for a in ARGUMENTS[: record.arity]]
    result = tape.symbol(record.expand(tape, *arguments))
    kind = "bool" if result.term.dtype == "bool" else "R"
    parameters = ", ".join(f"R {a.term.text}" for a in arguments)
    body = "".join(f"  {line}\n" for line in tape.lines)
    made[op] = (
        f"template <class R> static INLINE {kind} {helper_name(op)}({parameters}) {{\n"
        f"{body}  return {result.term.text};\n}}\n"
    )


class Tape:
    """The namespace in which a formula writes statements instead of computing numbers."""

    def __init__(self, made: dict[str, str], records: Mapping[str, Any]) -> None:
        self.made = made
        self.records = records
        self.lines: list[str] = []
        self.ops: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Symbol]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments: self.call(name, *arguments)

    def call(self, op: str, *arguments: Any) -> Symbol:
        """Write `op` of these as a statement."""
        self.ops.append(op)
        _helper(op, self.records, self.made)
        names: dict[str, Term] = {}
        operands: list[Any] = []
        for a in arguments:
            if isinstance(a, Symbol):
                names[a.term.text] = a.term
                operands.append(a.term.text)
            else:
                operands.append(a if isinstance(a, bool | Fraction | float) else Fraction(a))
        dtype = "bool" if op in COMPARISONS or op in LOGIC or op == "isfinite" else "real"
        text = f"t{len(self.lines)}"
        self.lines.append(f"const {TYPES[dtype]} {text} = {expression(op, operands, names, dtype)};")
        return Symbol(self, Term(text, dtype))

    def symbol(self, x: Any) -> Symbol:
        return x if isinstance(x, Symbol) else self.call("add", x, 0)


class Symbol:
    """A value of a formula; operators write statements."""

    def __init__(self, tape: Tape, term: Term) -> None:
        self.tape = tape
        self.term = term

    def __add__(self, other: Any) -> Symbol:
        return self.tape.call("add", self, other)

    def __radd__(self, other: Any) -> Symbol:
        return self.tape.call("add", other, self)

    def __sub__(self, other: Any) -> Symbol:
        return self.tape.call("sub", self, other)

    def __rsub__(self, other: Any) -> Symbol:
        return self.tape.call("sub", other, self)

    def __mul__(self, other: Any) -> Symbol:
        return self.tape.call("mul", self, other)

    def __rmul__(self, other: Any) -> Symbol:
        return self.tape.call("mul", other, self)

    def __truediv__(self, other: Any) -> Symbol:
        return self.tape.call("div", self, other)

    def __rtruediv__(self, other: Any) -> Symbol:
        return self.tape.call("div", other, self)

    def __pow__(self, other: Any) -> Symbol:
        return self.tape.call("pow", self, other)

    def __neg__(self) -> Symbol:
        return self.tape.call("neg", self)
