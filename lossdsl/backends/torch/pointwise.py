"""Primitives of operands that are aligned already, with the casts that torch's own promotion would get wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lossdsl.backends.torch import spell
from lossdsl.backends.torch.spell import ATOM, Text

if TYPE_CHECKING:
    from lossdsl.backends.torch.printer import Printer


def apply(printer: Printer, name: str, args: Sequence[Text], dtype: str) -> Text:
    """A primitive of operands that are aligned already."""
    spelling = spell.SPELLINGS.get(name) or spell.call(printer.call(helper_name(name)))
    args = list(args)
    if not any(a.tensor for a in args):
        args[0] = as_tensor(printer, args[0], "bool" if name == "select" else _number(args, dtype))
    if name in spell.TENSORS or name not in spell.SPELLINGS:
        args = [a if a.tensor else as_tensor(printer, a, _number(args, dtype)) for a in args]
    if name == "select":
        args[1:] = _branches(printer, args[1:], dtype, args[0])
    elif name in spell.ARITHMETIC:
        target = "real" if dtype == "real" else "int"
        real = any(a.dtype == "real" and a.tensor for a in args)
        args = [_cast(a, target) if a.tensor and (a.dtype == "bool" or not real) else a for a in args]
    elif name in spell.REAL_IN_TORCH and dtype == "int":
        args = [_cast(a, "int") for a in args]
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


def _number(args: Sequence[Text], result: str) -> str:
    """The dtype for a number among operands: a comparison's is theirs, a size isn't true or false."""
    kinds = {a.dtype for a in args}
    return result if result != "bool" or kinds == {"bool"} else "real" if "real" in kinds else "int"


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
            both[first] = as_tensor(printer, both[first], "real")
        else:
            both[first] = _cast(both[first], "real")
    return both


def as_tensor(p: Printer, x: Text, dtype: str) -> Text:
    """A Python number as a 0-d tensor."""
    kind = {"real": "dtype", "int": "torch.int64", "bool": "torch.bool"}[dtype]
    return p.constant(f"torch.full((), {x.text}, dtype={kind}, device={p.device})", dtype)
