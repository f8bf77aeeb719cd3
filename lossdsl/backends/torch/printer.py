"""One KernelProgram → one Python function of torch operations on whole arrays.

A value is a tensor whose dimensions are its axes in the program's order; an operand that lacks an axis gets a
dimension of size 1 where broadcasting needs it. Values used once stand inside the expression that uses them while
that fits a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from textwrap import wrap

from lossdsl.backends.api import Buffer, KernelProgram
from lossdsl.backends.torch import spell, whole
from lossdsl.backends.torch.names import Identifiers
from lossdsl.backends.torch.spell import ATOM, Text
from lossdsl.backends.torch.ssa import Argument, Flat, Op, Ref, Stored, flatten
from lossdsl.check.types import base_axis
from lossdsl.plan.names import axis_name, free_axes, size_argument
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import InternalError
from lossdsl.source.text import Source, Span

WIDTH = 88
_INLINE = 48  # characters of an expression that may stand inside another


@dataclass(frozen=True, slots=True)
class Function:
    """The text of one function and the helpers that it calls."""

    text: str
    helpers: frozenset[str]


def print_function(program: KernelProgram, registry: Registry, source: Source | None) -> Function:
    """`value`, `gradient` or `second`, by the last part of the program's name."""
    return Printer(flatten(program), registry, source).function()


class Printer:
    """The lines of one function as they are written."""

    def __init__(self, flat: Flat, registry: Registry, source: Source | None) -> None:
        self.flat = flat
        self.program = flat.program
        self.registry = registry
        self.source = source
        self.names = Identifiers()
        self.lines: list[str] = []
        self.outer = self.lines
        self.helpers: set[str] = set()
        self.texts: dict[Ref, Text] = {}
        self.pending: dict[Ref, Text] = {}  # expressions that have no name yet
        self.sizes: dict[str, str] = {}
        self.is_helper = False
        self.indices: dict[str, str] = {}
        self.constants: dict[str, str] = {}
        self.said: str | None = None  # the comment above the current group
        # What a value is called that is stored as it is: outputs that are gradients are still to be cast.
        self.outputs = {
            s.value: s.buffer.name
            for s in reversed(flat.stores)
            if isinstance(s.value, Ref) and s.where is None and self._given(s.buffer) is None
        }
        self.shares = _shared_exponentials(flat)
        self.uses = _uses(flat, set(self.shares.values()))
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
        text = signature(kind, [self.arguments[b.name] for b in inputs], [self.sizes[a] for a in self.free])
        return Function("\n".join([text, *self.lines]) + "\n", frozenset(self.helpers))

    def _helper(self, result: str) -> Function:
        """The function of one primitive: its operands come broadcast, in the dtype to compute in."""
        lines = self.lines if any("dtype" in line for line in self.lines[1:]) else self.lines[1:]
        arguments = ", ".join(f"{a}: Tensor" for a in self.arguments.values())
        name = self.program.name
        doc = self.registry.primitives[name.removeprefix("_")].doc
        text = "\n".join([f"def {name}({arguments}) -> Tensor:", *_docstring(doc), *lines, f"    return {result}"])
        return Function(text + "\n", frozenset(self.helpers))

    def _head(self, inputs: Sequence[Buffer], outputs: Sequence[Stored]) -> None:
        """The dtype to compute in, and what must be kept of the arguments before they are converted."""
        if self.is_helper:
            self.line(f"dtype = {self.arguments[inputs[0].name]}.dtype")
            return
        real = [self.arguments[b.name] for b in inputs if b.role == "in" and b.dtype == "real"]
        real = [a for a in real if not a.startswith("seed_")] or real
        self.call("_arithmetic")
        self._long(f"dtype = _arithmetic({', '.join(real)})", "dtype = _arithmetic(", real)
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

    def hoisted(self, text: str) -> None:
        """A line of the function itself, also while a function within it is written."""
        self.lines, inner = self.outer, self.lines
        self.line(text)
        self.lines = inner

    def line(self, text: str) -> None:
        self.lines += [f"    {text}"] if len(text) + 4 <= WIDTH else _wrapped(text)

    def call(self, helper: str) -> str:
        self.helpers.add(helper)
        return helper

    def _long(self, text: str, head: str, items: Sequence[str]) -> None:
        """A call on one line, or with one argument a line."""
        if len(text) + 4 <= WIDTH:
            self.line(text)
        else:
            self.line(head)
            self.lines += [f"        {i}," for i in items]
            self.line(")")

    def comment(self, origin: Span | None) -> None:
        """The line of the file that the next lines compute, when it is another than the last."""
        if origin is None or self.source is None:
            return
        number, _ = self.source.position(origin.start)
        text = "".join(c if c.isprintable() else " " for c in self.source.line(number)).strip()
        text = text if len(text) <= WIDTH - 6 else text[: WIDTH - 9].rstrip() + "..."
        if text and text != self.said:
            self.said = text
            self.line(f"# {text}")

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
        results = whole.spelled(self, op, i) if op.what != "let" else [self.pointwise(op)]
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
        return whole.as_output(self, s, value, self._given(s.buffer))


def _docstring(doc: str) -> list[str]:
    """A record's sentence as the docstring of its function."""
    sentence = doc.replace("\\", "/").replace('"', "'") + "."
    if len(sentence) + 10 <= WIDTH:
        return [f'    """{sentence}"""']
    first, *rest = wrap(sentence, WIDTH - 7)
    return [f'    """{first}', *(f"    {line}" for line in rest), '    """']


def _wrapped(text: str) -> list[str]:
    """A line that is too long, split at its last brackets: what they hold on one line, or on one each."""
    depth, groups = 0, list[tuple[int, int]]()
    for i, c in enumerate(text):
        if c in "([{":
            if depth == 0:
                groups.append((i, -1))
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                groups[-1] = (groups[-1][0], i)
    if not groups:
        return [f"    {text}"]
    opened, closed = groups[-1]
    inner = text[opened + 1 : closed]
    if len(inner) + 8 <= WIDTH:
        return [f"    {text[: opened + 1]}", f"        {inner}", f"    {text[closed:]}"]
    return [f"    {text[: opened + 1]}", *(f"        {part}," for part in _parts(inner)), f"    {text[closed:]}"]


def _parts(inner: str) -> list[str]:
    """The arguments between brackets."""
    depth, cuts = 0, [-1]
    for i, c in enumerate(inner):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            cuts.append(i)
    return [inner[a + 1 : b].strip() for a, b in pairwise([*cuts, len(inner)])]


def apply(printer: Printer, name: str, args: Sequence[Text], dtype: str) -> Text:
    """A primitive of operands that are aligned already."""
    spelling = spell.SPELLINGS.get(name) or spell.call(printer.call(helper_name(name)))
    args = list(args)
    if not any(a.tensor for a in args):
        args[0] = whole.as_tensor(printer, args[0], dtype if name != "select" else "bool")
    if name in spell.TENSORS or name not in spell.SPELLINGS:
        args = [a if a.tensor else whole.as_tensor(printer, a, dtype) for a in args]
    if name == "select":
        args[1:] = _branches(printer, args[1:], dtype, args[0])
    elif name in spell.ARITHMETIC:
        target = "real" if dtype == "real" else "int"
        real = any(a.dtype == "real" and a.tensor for a in args)
        args = [_cast(a, target) if a.tensor and (a.dtype == "bool" or not real) else a for a in args]
    elif dtype == "real" and name not in ("minimum", "maximum", "clip"):
        args = [_cast(a, "real") if a.tensor else a for a in args]
    if name == "mulz":
        printer.call("_times")
    if name == "select" and {a.text for a in args[1:]} == {"0", "1"} and dtype == "real":
        condition = args[0] if args[1].text == "1" else Text(f"~{args[0].at(spell.UNARY)}", spell.UNARY)
        return Text(f"{condition.at(ATOM)}.to(dtype)", dtype="real")
    text, binds = spelling(*args)
    if name in spell.REAL_IN_TORCH and dtype == "int":
        return Text(f"{Text(text, binds).at(ATOM)}.long()", dtype="int")
    return Text(text, binds, dtype=dtype)


def helper_name(primitive: str) -> str:
    """The function printed for a primitive that torch lacks."""
    return f"_{primitive}"


def _cast(x: Text, dtype: str) -> Text:
    """An int or bool tensor in the dtype that arithmetic wants."""
    if x.dtype == dtype or (dtype == "int" and x.dtype != "bool"):
        return x
    how = "to(dtype)" if dtype == "real" else "long()"
    return replace(x, text=f"{x.at(ATOM)}.{how}", binds=ATOM, dtype=dtype)


def _branches(printer: Printer, args: Sequence[Text], dtype: str, condition: Text) -> list[Text]:
    """The branches of a `torch.where`: two numbers would be float32 whatever the arithmetic is."""
    both = list(args)
    if dtype == "real" and not any(a.tensor and a.dtype == "real" for a in both):
        if {a.text for a in both} == {"0", "1"}:
            return both
        first = 0 if not both[0].tensor else 1
        if not both[first].tensor:
            both[first] = whole.as_tensor(printer, both[first], "real")
        else:
            both[first] = _cast(both[first], "real")
    return both


def signature(kind: str, arguments: Sequence[str], sizes: Sequence[str]) -> str:
    """The `def` line; one argument a line if they do not fit."""
    items = [f"{a}: Tensor" for a in arguments]
    if sizes:
        items += ["*", *(f"{s}: int" for s in sizes)]
    line = f"def {kind}({', '.join(items)}) -> tuple[Tensor, ...]:"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"def {kind}(", *(f"    {i}," for i in items), ") -> tuple[Tensor, ...]:"])


def _uses(flat: Flat, given: set[int]) -> dict[Ref, int]:
    """How often each live value is read; the operations `given` come with others and read nothing."""
    uses: dict[Ref, int] = {}
    live: set[int] = set()

    def read(x: Argument | None) -> None:
        if isinstance(x, Ref):
            uses[x] = uses.get(x, 0) + 1
            live.add(x.op)

    for s in flat.stores:
        if s.buffer.role == "out":
            read(s.value)
            read(s.where)
    for i in reversed(range(len(flat.ops))):
        if i not in given and i in live:
            for a in flat.ops[i].args:
                read(a)
    return uses


def _shared_exponentials(flat: Flat) -> dict[int, int]:
    """For each log-sum-exp (by its number) the operation exp(z - m) with its own z and m, which it computes anyway."""
    shared: dict[int, int] = {}
    for i, op in enumerate(flat.ops):
        if op.what == "let" and op.name == "exp" and isinstance(op.args[0], Ref):
            below = flat.ops[op.args[0].op]
            if below.what == "let" and below.name == "sub" and isinstance(below.args[1], Ref):
                m = below.args[1]
                source = flat.ops[m.op]
                whole_row = source.name == "logsumexp" and source.what == "reduce" and not source.masked
                if whole_row and m.result == 0 and source.args == below.args[:1] and whole.is_last(flat, source):
                    shared[m.op] = i
    return shared
