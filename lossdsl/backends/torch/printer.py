"""One KernelProgram → one Python function of torch operations on whole arrays.

A value is a tensor whose dimensions are its axes in the program's order; an operand that lacks an axis gets a
dimension of size 1 where broadcasting needs it. Values used once stand inside the expression that uses them while
that fits a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lossdsl.backends.api import Buffer, KernelProgram
from lossdsl.backends.flat import Argument, Flat, Op, Ref, Stored, flatten
from lossdsl.backends.torch import islands, reading, reducing, spell
from lossdsl.backends.torch.lines import WIDTH, Lines, docstring, signature
from lossdsl.backends.torch.outputs import as_output
from lossdsl.backends.torch.pointwise import apply
from lossdsl.backends.torch.spell import ATOM, Text
from lossdsl.backends.torch.uses import count_uses, shared_exponentials
from lossdsl.check.types import base_axis
from lossdsl.plan.names import axis_name, free_axes, size_argument
from lossdsl.plan.width import why_double
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import InternalError
from lossdsl.source.text import Source, Span

_INLINE = 48  # characters of an expression that may stand inside another


@dataclass(frozen=True, slots=True)
class Function:
    """The text of one function and the helpers that it calls."""

    text: str
    helpers: frozenset[str]


def print_function(program: KernelProgram, registry: Registry, source: Source | None) -> Function:
    """`value`, `gradient` or `second`, by the last part of the program's name."""
    return Printer(flatten(program), registry, source).function()


class Printer(Lines):
    """The lines of one function as they are written."""

    def __init__(self, flat: Flat, registry: Registry, source: Source | None) -> None:
        super().__init__(source)
        self.flat = flat
        self.program = flat.program
        self.registry = registry
        self.texts: dict[Ref, Text] = {}
        self.pending: dict[Ref, Text] = {}  # expressions that have no name yet
        self.sizes: dict[str, str] = {}
        self.is_helper = False
        self.asked: list[tuple[str, str, range]] = []  # dtypes, the helpers that say them, the lines that ask
        self.single = ""  # what results come in, where all is computed in float64 whatever comes in
        self.indices: dict[str, str] = {}
        self.constants: dict[str, str] = {}
        # What a value is called that is stored as it is: outputs that are gradients are still to be cast.
        self.outputs = {
            s.value: s.buffer.name
            for s in reversed(flat.stores)
            if isinstance(s.value, Ref) and s.where is None and self._given(s.buffer) is None
        }
        self.shares = shared_exponentials(flat)
        self.uses = count_uses(flat, set(self.shares.values()))
        self.arguments = {b.name: self.names.new(b.name) for b in self.program.buffers if b.role in ("in", "param")}
        self.converted: dict[str, Text] = {}
        self.device = self._device()
        self.free = free_axes(self.program)

    # --- the whole function -----------------------------------------------------------------------------------------

    def function(self) -> Function:
        kind = self.program.name.rsplit(".", 1)[-1]
        inputs = [b for b in self.program.buffers if b.role in ("in", "param")]
        for axis in self.free:
            self.sizes[axis] = self.names.new(size_argument(axis))
        outputs = [s for b in self.program.buffers if b.role == "out" for s in self.flat.stores if s.buffer == b]
        self._head(inputs, outputs)
        inner = {i for op in self.flat.ops if op.what == "root" for i in range(*op.attrs)}  # type: ignore[arg-type]
        for i in range(len(self.flat.ops)):
            if i not in inner:
                self.op(i)
        results = [self._stored(s) for s in outputs]
        if self.is_helper:
            return self._helper(results[0])
        self._return(results)
        self._drop_dtype()
        text = signature(kind, [self.arguments[b.name] for b in inputs], [self.sizes[a] for a in self.free])
        return Function("\n".join([text, *self.lines]) + "\n", frozenset(self.helpers))

    def _helper(self, result: str) -> Function:
        """The function of one primitive: its operands come broadcast, in the dtype to compute in."""
        lines = self.lines if any("dtype" in line for line in self.lines[1:]) else self.lines[1:]
        arguments = ", ".join(f"{a}: Tensor" for a in self.arguments.values())
        name = self.program.name
        doc = self.registry.primitives[name.removeprefix("_")].doc
        text = "\n".join([f"def {name}({arguments}) -> Tensor:", *docstring(doc), *lines, f"    return {result}"])
        return Function(text + "\n", frozenset(self.helpers))

    def _head(self, inputs: Sequence[Buffer], outputs: Sequence[Stored]) -> None:
        """The dtype to compute in, and what must be kept of the arguments before they are converted."""
        if self.is_helper:
            self.line(f"dtype = {self.arguments[inputs[0].name]}.dtype")
            return
        real = [self.arguments[b.name] for b in inputs if b.role == "in" and b.dtype == "real"]
        real = [a for a in real if not a.startswith("seed_")] or real
        chosen = {"dtype": "_arithmetic"}
        if real and why_double(self.program):
            chosen = {"dtype": "_double"}
            if any(s.buffer.dtype == "real" and self._given(s.buffer) is None for s in outputs):
                self.single = self.names.new("single")
                chosen[self.single] = "_arithmetic"
        for name, how in chosen.items():
            start = len(self.lines)
            self.listed(f"{name} = {how}({', '.join(real)})", f"{name} = {how}(", real)
            self.asked.append((name, how, range(start, len(self.lines))))
        for s in outputs:
            given = self._given(s.buffer)
            if given is not None:
                self.converted[given.name] = Text(self.names.new(f"{self.arguments[given.name]}_dtype"))
                self.line(f"{self.converted[given.name].text} = {self.arguments[given.name]}.dtype")
        loaded = {op.name for op in self.flat.ops if op.what == "load"}
        for b in inputs:
            if b.name in loaded:
                name = self.arguments[b.name]
                self.line(f"{name} = {name}.{self._conversion(b)}")

    def _drop_dtype(self) -> None:
        """Without a line that needs the dtype to compute in (a part of a head may compute with whole numbers alone), it
        isn't asked for."""
        for name, how, asking in reversed(self.asked):
            others = (line for i, line in enumerate(self.lines) if i not in asking)
            if any(re.search(rf"(?<![.\w]){name}\b(?!=)", line) for line in others):
                self.call(how)
            else:
                del self.lines[asking.start : asking.stop]

    def _conversion(self, b: Buffer) -> str:
        return {"real": "to(dtype)", "int": "long()", "bool": "bool()"}[b.dtype]

    def _given(self, out: Buffer) -> Buffer | None:
        """The input whose dtype a gradient has."""
        name = out.name
        for head in ("grad_", "second_", "grad.", "second."):
            if name.startswith(head):
                wanted = name.removeprefix(head)
                return next((b for b in self.program.buffers if b.name == wanted and b.role in ("in", "param")), None)
        return None

    def _device(self) -> str:
        for b in self.program.buffers:
            if b.role == "in":
                return f"{self.arguments[b.name]}.device"
        return '"cpu"'

    def _return(self, results: Sequence[str]) -> None:
        text = f"return ({', '.join(results)}{',' if len(results) == 1 else ''})"
        if len(text) + 4 <= WIDTH:
            self.line(text)
        else:
            self.line("return (")
            self.lines += [f"        {r}," for r in results]
            self.line(")")

    # --- lines ------------------------------------------------------------------------------------------------------

    def assign(self, ref: Ref, text: Text, wish: str, origin: Span | None) -> Text:
        """Gives an expression a name; returns what stands for it from now on."""
        self.comment(origin)
        name = self.names.new(wish)
        self.line(f"{name} = {text.text}")
        self.texts[ref] = replace(text, text=name, binds=ATOM)
        return self.texts[ref]

    def named(self, text: Text, wish: str) -> Text:
        """An expression under a name of its own."""
        name = self.names.new(wish)
        self.line(f"{name} = {text.text}")
        return replace(text, text=name, binds=ATOM)

    def constant(self, text: str, dtype: str) -> Text:
        """A number as a 0-d tensor, made once."""
        if text not in self.constants:
            self.constants[text] = self.names.new("number")
            self.hoisted(f"{self.constants[text]} = {text}")
        return Text(self.constants[text], dtype=dtype)

    # --- operands ---------------------------------------------------------------------------------------------------

    def value(self, ref: Ref) -> str:
        return self.flat.ops[ref.op].values[ref.result].name

    def text(self, x: Argument) -> Text:
        """The expression of an operand."""
        if not isinstance(x, Ref):
            return spell.number(x)
        if x in self.texts:
            return self.texts[x]
        return self.pending[x]

    def settle(self, x: Argument) -> Text:
        """The operand as a name (or a number): what is used twice must not be written twice."""
        if isinstance(x, Ref) and x in self.pending:
            op = self.flat.ops[x.op]
            return self.assign(x, self.pending.pop(x), self.wish(op, x.result), op.origin)
        return self.text(x)

    def wish(self, op: Op, result: int) -> str:
        """What the planner calls a value, without its number."""
        name = op.values[result].name
        head, _, tail = name.rpartition("_")
        return head if head and tail.isdigit() else name

    def order(self, axes: Iterable[str]) -> tuple[str, ...]:
        found = set(axes)
        return tuple(a for a in self.program.axes if a in found)

    def size(self, axis: str) -> str:
        """The extent of an axis as a Python int."""
        base = base_axis(axis)
        if base not in self.sizes:
            for b in self.program.buffers:
                place = [i for i, a in enumerate(b.axes) if base_axis(a) == base]
                if place and b.role in ("in", "param"):
                    name = self.names.new(f"size_{axis_name(base)}")
                    self.hoisted(f"{name} = {self.arguments[b.name]}.shape[{place[0]}]")
                    self.sizes[base] = name
                    break
            else:
                raise InternalError(f"nothing says how long {axis} is")
        return self.sizes[base]

    def index(self, axis: str) -> Text:
        """0, 1, … along an axis."""
        base = base_axis(axis)
        if base not in self.indices:
            size = self.size(base)
            name = self.names.new(f"index_{axis_name(base)}")
            self.hoisted(f"{name} = torch.arange({size}, device={self.device})")
            self.indices[base] = name
        return Text(self.indices[base], axes=(axis,), dtype="int")

    # --- operations -------------------------------------------------------------------------------------------------

    def op(self, i: int) -> None:
        op = self.flat.ops[i]
        ref = Ref(i)
        uses = [self.uses.get(Ref(i, r), 0) for r in range(len(op.values))]
        if not any(uses):
            return
        if op.what == "let" and op.name == "size":
            self.texts[ref] = Text(self.size(str(op.attrs[0])), dtype="int", tensor=False)
            return
        if op.what == "let" and op.name == "index":
            self.texts[ref] = self.index(str(op.attrs[0]))
            return
        if i in self.shares.values():
            return  # `_softmax_parts` has given it
        results = self.spelled(op, i)
        for r, text in enumerate(results):
            if not uses[r]:
                continue
            at = Ref(i, r)
            if text.binds == ATOM and text.text.isidentifier():
                self.texts[at] = text
            elif uses[r] == 1 and len(text.text) <= _INLINE:
                self.pending[at] = text
            else:
                self.assign(at, text, self.outputs.get(at) or self.wish(op, r), op.origin)

    def spelled(self, op: Op, number: int) -> list[Text]:
        """The results of an operation."""
        match op.what:
            case "let":
                return [self.pointwise(op)]
            case "load":
                return [reading.load(self, op)]
            case "pick":
                return [reading.pick(self, op)]
            case "reduce":
                return reducing.reduce(self, op, number)
            case "scatter":
                return [reducing.scatter(self, op)]
            case "root":
                return [islands.root(self, op)]
            case "island":
                return [islands.spelled(self, op)]
        raise InternalError(f"the torch backend does not print {op.what} yet")

    def pointwise(self, op: Op) -> Text:
        """The expression of a primitive."""
        axes = op.values[0].axes
        while True:
            args = [self.aligned(self.text(a), axes) for a in op.args]
            text = apply(self, op.name, args, op.values[0].dtype)
            inner = [a for a in op.args if isinstance(a, Ref) and a in self.pending]
            if len(text.text) + len(self.wish(op, 0)) + 10 <= WIDTH or not inner:
                break
            self.settle(max(inner, key=lambda a: len(self.pending[a].text)))
        for a in op.args:
            if isinstance(a, Ref):
                self.pending.pop(a, None)
        return replace(text, axes=self.order({x for a in args for x in a.axes}))

    def aligned(self, x: Text, axes: tuple[str, ...]) -> Text:
        """The operand with dimensions of size 1 where it lacks axes behind its first."""
        if not x.tensor or not x.axes:
            return x
        behind = axes[axes.index(x.axes[0]) :]
        marks = [":" if a in x.axes else "None" for a in behind]
        if "None" not in marks:
            return x
        while marks[-1] == ":":
            marks.pop()
        return replace(x, text=f"{x.at(ATOM)}[{', '.join(marks)}]", binds=ATOM)

    # --- results ----------------------------------------------------------------------------------------------------

    def _stored(self, s: Stored) -> str:
        """The name of an output, with the dimensions and the dtype of its buffer."""
        value = self.text(s.value)
        if isinstance(s.value, Ref):
            self.pending.pop(s.value, None)
        if s.where is not None:
            where = self.aligned(self.text(s.where), self.order({*value.axes, *self.text(s.where).axes}))
            value = self.aligned(value, self.order({*value.axes, *where.axes}))
            axes = self.order({*value.axes, *where.axes})
            other = spell.number(s.otherwise)
            chosen = apply(self, "select", [where, value, other], s.buffer.dtype)
            value = replace(chosen, axes=axes)
        return as_output(self, s, value, self._given(s.buffer))
