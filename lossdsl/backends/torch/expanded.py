"""Primitives that torch lacks, as functions printed from their records' `expand`."""

from __future__ import annotations

from dataclasses import replace

from lossdsl.backends.flat import flatten
from lossdsl.backends.formula import formula
from lossdsl.backends.torch.printer import Function, Printer
from lossdsl.registry import Registry
from lossdsl.source.diagnostic import InternalError


def print_helper(name: str, registry: Registry) -> Function:
    """The function `_NAME`; InternalError if the primitive has neither a spelling nor an expansion."""
    primitive = name.removeprefix("_")
    program = formula(primitive, registry)
    if program is None:
        raise InternalError(f"the torch backend cannot print the primitive {primitive}")
    printer = Printer(flatten(replace(program, name=name)), registry, None)
    printer.is_helper = True
    return printer.function()
