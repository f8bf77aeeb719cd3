"""The form of outputs: their buffer's dimensions in their order, in their dtype."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lossdsl.backends.api import Buffer
from lossdsl.backends.flat import Ref, Stored
from lossdsl.backends.torch.lines import WIDTH
from lossdsl.backends.torch.pointwise import as_tensor
from lossdsl.backends.torch.spell import ATOM, Text

if TYPE_CHECKING:
    from lossdsl.backends.torch.printer import Printer


def as_output(p: Printer, s: Stored, value: Text, given: Buffer | None) -> str:
    """A name for the output, with the dimensions of its buffer in their order."""
    text = value
    if not text.tensor:
        text = as_tensor(p, text, s.buffer.dtype)
    target = "real" if s.buffer.dtype == "real" else s.buffer.dtype
    if target == "real" and text.dtype != "real":
        text = replace(text, text=f"{text.at(ATOM)}.to(dtype)", binds=ATOM, dtype="real")
    elif target == "int" and text.dtype == "real":
        text = replace(text, text=f"{text.at(ATOM)}.long()", binds=ATOM, dtype="int")
    missing = [a for a in s.index if a not in text.axes]
    axes = p.order(s.index)
    if missing:
        sizes = ", ".join(p.size(a) if a in missing else "-1" for a in axes)
        text = replace(text, text=f"{p.aligned(text, axes).at(ATOM)}.expand({sizes})", binds=ATOM, axes=axes)
    if axes != s.index:
        places = ", ".join(str(axes.index(a)) for a in s.index)
        text = replace(text, text=f"{text.at(ATOM)}.permute({places})", binds=ATOM)
    room = WIDTH - 8 - len(s.buffer.name) - len(".to()")
    if given is not None:
        if len(text.at(ATOM)) + len(p.converted[given.name].text) > room:
            text = p.named(text, s.buffer.name)
        text = replace(text, text=f"{text.at(ATOM)}.to({p.converted[given.name].text})", binds=ATOM)
    elif p.single and target == "real":
        text = replace(text, text=f"{text.at(ATOM)}.to({p.single})", binds=ATOM)
    if text.text.isidentifier():
        return text.text
    origin = p.flat.ops[s.value.op].origin if isinstance(s.value, Ref) else None
    p.comment(origin)
    name = p.names.new(s.buffer.name)
    p.line(f"{name} = {text.text}")
    return name
