"""Emitted torch code as modules, and tensors to call it with."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import torch

from lossdsl.artifacts.standalone import merge_imports
from lossdsl.backends.api import Emitted
from lossdsl.plan.kernel import KernelProgram
from lossdsl.plan.names import buffer_names


def text(emitted: Emitted) -> str:
    """The emitted functions as the text of a module."""
    return "\n".join([merge_imports(emitted.imports), "", "", emitted.functions])


def module(emitted: Emitted) -> ModuleType:
    made = ModuleType("emitted")
    exec(text(emitted), made.__dict__)
    return made


def arguments(program: KernelProgram, given: Mapping[str, Any]) -> list[torch.Tensor]:
    """The program's tensors in order; params are 0-d float64."""
    found = []
    for b in program.buffers:
        if b.role == "param":
            found.append(torch.as_tensor(np.array(given[b.name], dtype=float)))
        elif b.role == "in":
            found.append(torch.as_tensor(np.array(given[b.name])))
    return found


def by_buffer(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves' values by the names of their buffers."""
    names = buffer_names(leaves)
    return {names[k]: v for k, v in leaves.items()}
