"""A KernelProgram as one OpenCL kernel.

Where no row needs another, a work item does one row of the outermost loop; else a single work item does everything in
order, which is right and no quicker than that. Values that are arrays of their own, islands and scatters are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from lossdsl.backends.api import (
    Buffer,
    KernelProgram,
    Let,
    Load,
    Loop,
    NotSupportedError,
    Operand,
    Reduce,
    Registry,
    Stmt,
    Store,
    Value,
    formula,
)
from lossdsl_opencl.words import ANY, REAL, State, declared, literal, state

HEAD = """#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
"""


def arguments(program: KernelProgram) -> list[Buffer]:
    """The buffers in the order of the kernel's arguments."""
    return [b for role in (("in", "param"), ("out",), ("scratch",)) for b in program.buffers if b.role in role]


def source(program: KernelProgram, registry: Registry) -> tuple[str, str]:
    """The text of the kernel `run`, and the axis along which it has work items ("" for a single one)."""
    parallel = _parallel(program)
    p = _Printer(program, registry, parallel)
    p.block(program.body)
    pointers = []
    for b in arguments(program):
        kind = {"real": "R", "int": "long", "bool": "uchar"}[b.dtype]
        const = "const " if b.role in ("in", "param") else ""
        pointers.append(f"__global {const}{kind} *b_{b.name}")
    sizes = [f"const long n_{p.axis(a)}" for a in program.axes]
    head = f"__kernel void run({', '.join([*sizes, *pointers])}) {{\n"
    return HEAD + head + "\n".join(p.lines) + "\n}\n", parallel


def _statements(body: Sequence[Stmt]) -> Iterator[Stmt]:
    for s in body:
        yield s
        if isinstance(s, Loop):
            yield from _statements((*s.head, *s.body))


def _parallel(program: KernelProgram) -> str:
    """The axis of the outermost loop, if it is the one loop there and carries nothing from turn to turn."""
    loops = [s for s in program.body if isinstance(s, Loop)]
    if len(loops) != 1 or program.body[-1] is not loops[0]:
        return ""
    axis = loops[0].axis
    for s in _statements(program.body):
        carried = isinstance(s, Reduce) and axis in s.axes
        if carried or (isinstance(s, Store) and axis not in s.index):
            return ""
    return axis


@dataclass(slots=True)
class _Printer:
    program: KernelProgram
    registry: Registry
    parallel: str
    lines: list[str] = field(default_factory=list)
    bound: list[str] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)  # of values
    states: dict[int, State] = field(default_factory=dict)  # of reductions that have begun, by identity
    helpers: int = 0

    def say(self, text: str) -> None:
        self.lines.append("  " * (len(self.bound) + 1) + text)

    def axis(self, a: str) -> str:
        """An axis in identifiers: its place in the program."""
        return str(self.program.axes.index(a))

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.program.buffers if b.name == name)

    # --- operands ---

    def operand(self, x: Operand, kind: str = "") -> str:
        if not isinstance(x, str):
            return literal(x, kind)
        return f"(R)v_{x}" if kind == "real" and self.kinds[x] != "real" else f"v_{x}"

    def kind(self, x: Operand) -> str:
        if isinstance(x, str):
            return self.kinds[x]
        if isinstance(x, bool):
            return "bool"
        number = float(x)
        return "int" if abs(number) < 2**62 and number == int(number) else "real"  # no comparison holds for a NaN

    def element(self, name: str, index: Sequence[str]) -> str:
        """A place in a buffer, which lies in order."""
        b, place = self.buffer(name), "0"
        for axis, i in zip(b.axes, index, strict=True):
            at = f"i_{self.axis(i)}" if i in self.program.axes else f"v_{i}"
            if i in self.program.axes and i not in self.bound:
                raise NotSupportedError(f"the whole axis {i} at once, outside a loop over it")
            place = at if place == "0" else f"({place}) * n_{self.axis(axis)} + {at}"
        return f"b_{name}[{place}]"

    def define(self, v: Value, text: str) -> None:
        if missing := [a for a in v.axes if a not in self.bound]:
            raise NotSupportedError(f"a value that is an array over {', '.join(missing)}")
        self.kinds[v.name] = v.dtype
        self.say(declared(v, text))

    # --- statements ---

    def block(self, body: Sequence[Stmt]) -> None:
        for s in body:
            match s:
                case Let():
                    self.define(s.value, self.let(s))
                case Load():
                    self.define(s.value, self.element(s.buffer, s.index))
                case Reduce():
                    self.reduce(s)
                case Store():
                    self.store(s)
                case Loop():
                    self.loop(s)
                case _:
                    raise NotSupportedError(f"the {type(s).__name__.lower()} {getattr(s, 'op', '')}".rstrip())

    def let(self, s: Let) -> str:
        if s.op == "index":
            if s.attrs[0] not in self.bound:
                raise NotSupportedError(f"the whole axis {s.attrs[0]} at once, outside a loop over it")
            return f"i_{self.axis(str(s.attrs[0]))}"
        if s.op == "size":
            return f"n_{self.axis(str(s.attrs[0]))}"
        if s.op == "select":
            values = [self.operand(a, s.value.dtype) for a in s.args[1:]]
            return f"{self.operand(s.args[0])} ? {values[0]} : {values[1]}"
        if s.op in REAL:
            return REAL[s.op].format(*(self.operand(a, "real") for a in s.args))
        if s.op in ANY:
            real = "real" in [s.value.dtype, *(self.kind(a) for a in s.args)]
            return ANY[s.op].format(*(self.operand(a, "real" if real else "int") for a in s.args))
        return self.expanded(s)

    def expanded(self, s: Let) -> str:
        """A primitive that OpenCL lacks, written out in those that it has."""
        written = formula(s.op, self.registry)
        if written is None:
            raise NotSupportedError(f"the primitive {s.op!r}")
        self.helpers += 1
        prefix, values = f"h{self.helpers}_", dict(zip("xyzw", s.args, strict=False))
        for step in written.body:
            match step:
                case Load():
                    value = Value(prefix + step.value.name, (), step.value.dtype)
                    self.define(value, self.operand(values[step.buffer], value.dtype))
                case Let():
                    args = tuple(prefix + a if isinstance(a, str) else a for a in step.args)
                    value = Value(prefix + step.value.name, (), step.value.dtype)
                    self.define(value, self.let(Let(value, step.op, args, step.attrs)))
                case Store():
                    found = prefix + step.value if isinstance(step.value, str) else step.value
                    return self.operand(found, s.value.dtype)
        raise NotSupportedError(f"the primitive {s.op!r}")

    def reduce(self, s: Reduce) -> None:
        """One entry more; the state was declared before the outermost loop over one of its axes."""
        if missing := [a for a in s.axes if a not in self.bound]:
            raise NotSupportedError(f"a reduction of an array over {', '.join(missing)}")
        kind = "real" if self.states[id(s)].variables[0][0] == "R" else "int"
        index = f"i_{self.axis(s.axes[0])}"
        step = self.states[id(s)].step.format(s=f"s_{s.values[0].name}", x=self.operand(s.args[0], kind), i=index)
        where = "" if s.where is None else f"if ({self.operand(s.where)}) "
        self.say(f"{where}{{ {step} }}")

    def begin(self, s: Reduce) -> None:
        if missing := [a for a in s.values[0].axes if a not in self.bound]:
            raise NotSupportedError(f"a reduction whose value is an array over {', '.join(missing)}")
        self.states[id(s)] = state(s)
        for kind, suffix, start in self.states[id(s)].variables:
            self.say(f"{kind} s_{s.values[0].name}{suffix} = {start};")

    def finish(self, s: Reduce) -> None:
        for v, text in zip(s.values, self.states[id(s)].results, strict=True):
            self.define(v, text.format(s=f"s_{s.values[0].name}"))

    def store(self, s: Store) -> None:
        kind = self.buffer(s.buffer).dtype
        value = self.operand(s.value, kind)
        if s.where is not None:
            value = f"{self.operand(s.where)} ? {value} : {literal(s.otherwise, kind)}"
        self.say(f"{self.element(s.buffer, s.index)} = {value};")

    def loop(self, s: Loop) -> None:
        reductions = [
            r
            for r in _statements((*s.head, *s.body))
            if isinstance(r, Reduce) and s.axis in r.axes and not set(r.axes) & set(self.bound)
        ]
        for r in reductions:
            self.begin(r)
        i, n = f"i_{self.axis(s.axis)}", f"n_{self.axis(s.axis)}"
        if s.axis == self.parallel and not self.bound:
            self.say(f"const long {i} = get_global_id(0);")
            self.say(f"if ({i} < {n}) {{")
        else:
            self.say(f"for (long {i} = 0; {i} < {n}; ++{i}) {{")
        self.bound.append(s.axis)
        self.block(s.head)
        if s.guard is None:
            self.block(s.body)
        else:
            self.nested(f"if (v_{s.guard}) {{", lambda: self.block(s.body))
            self.nested("else {", lambda: self.elsewhere(s.body))
        self.bound.pop()
        self.say("}")
        for r in reductions:
            self.finish(r)

    def nested(self, opening: str, inside: Callable[[], None]) -> None:
        self.say(opening)
        inside()
        self.say("}")

    def elsewhere(self, body: Sequence[Stmt]) -> None:
        """What the stores of a body write where its guard is false."""
        for s in body:
            if isinstance(s, Store):
                kind = self.buffer(s.buffer).dtype
                self.say(f"{self.element(s.buffer, s.index)} = {literal(s.otherwise, kind)};")
            elif isinstance(s, Loop) and any(isinstance(x, Store) for x in _statements(s.body)):
                i, n = f"i_{self.axis(s.axis)}", f"n_{self.axis(s.axis)}"
                self.say(f"for (long {i} = 0; {i} < {n}; ++{i}) {{")
                self.bound.append(s.axis)
                self.elsewhere(s.body)
                self.bound.pop()
                self.say("}")
