"""The torch backend's two functions: can it be used, and the text of a Plan's functions."""

from __future__ import annotations

import ast
from functools import cache
from importlib.resources import files

from lossdsl.backends.api import Availability, Emitted, Plan
from lossdsl.backends.torch.expanded import print_helper
from lossdsl.backends.torch.printer import print_function
from lossdsl.primitives.scan import load_primitives
from lossdsl.registry import Registry
from lossdsl.source.text import Source


def probe() -> Availability:
    """Whether torch can be imported."""
    try:
        import torch
    except ImportError as error:
        return Availability(False, f"torch cannot be imported: {error}")
    return Availability(True, device=f"torch {torch.__version__}")


def emit(plan: Plan, source: Source | None = None, registry: Registry | None = None) -> Emitted:
    """One function a program, with the helpers they need before them.

    `source` gives the comments their lines, `registry` the primitives of plugins.
    """
    if registry is None:
        registry = Registry(load_primitives(), {})
    kinds = {p.name.rsplit(".")[-1]: p for p in plan.programs}
    if "gradient" in kinds:
        kinds.pop("both", None)  # one visit saves nothing where every operation is a visit
    functions = [print_function(p, registry, source) for p in kinds.values()]
    needed = set().union(*(f.helpers for f in functions))
    written = helper_texts()
    made: dict[str, str] = {}
    while missing := sorted(needed - set(written) - set(made)):
        for name in missing:
            function = print_helper(name, registry)
            made[name] = function.text
            needed |= function.helpers
    helpers = [text for name, text in written.items() if name in needed] + [made[name] for name in sorted(made)]
    text = "\n\n\n".join(t.rstrip("\n") for t in (*helpers, *(f.text for f in functions))) + "\n"
    imports = ["from collections.abc import Callable"] if "_root" in needed else []
    return Emitted((*imports, "import torch", "from torch import Tensor"), text)


@cache
def helper_texts() -> dict[str, str]:
    """The source text of each helper, by name, in the order of `helpers.py`."""
    source = (files("lossdsl.backends.torch") / "helpers.py").read_text(encoding="utf-8")
    tree = ast.parse(source)
    found = {}
    for item in tree.body:
        if isinstance(item, ast.FunctionDef):
            found[item.name] = ast.get_source_segment(source, item) or ""
    return found
