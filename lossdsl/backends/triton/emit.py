"""What the core asks of a backend: can it be used here, and the Python text of a plan's programs."""

from __future__ import annotations

from lossdsl.backends.api import Availability, Emitted, Let, Plan
from lossdsl.backends.triton.expanded import helpers
from lossdsl.backends.triton.host import function
from lossdsl.backends.triton.notes import names
from lossdsl.backends.triton.products import Tiled, multiplies, tiled
from lossdsl.backends.triton.stages import Stage
from lossdsl.backends.triton.staging import long_stages_of, stages_of
from lossdsl.backends.triton.tilehost import tile_function
from lossdsl.backends.triton.trimming import trimmed
from lossdsl.primitives.scan import load_primitives
from lossdsl.registry import Registry

RUNTIME = tuple(
    f"lossdsl.backends.triton.{name}"
    for name in ("device", "special", "lanes", "shapes", "tuning", "launch", "long", "multiply", "rescale")
)


def probe() -> Availability:
    """Whether Triton can be imported, and what its kernels would run on. Without a device modules can be made (and
    compiled for one, `lossdsl inspect`), but not called."""
    try:
        import torch
        import triton
    except ImportError as error:
        return Availability(False, f"Triton cannot be imported: {error}")
    from lossdsl.backends.triton.launch import interpreted

    where = "the interpreter" if interpreted() else "no device: modules are made, but can't be called"
    if not interpreted() and torch.cuda.is_available():
        where = torch.cuda.get_device_name()
    return Availability(True, device=f"triton {triton.__version__} ({where})")


def emit(plan: Plan, registry: Registry | None = None) -> Emitted:
    """Functions that launch the plan's programs as Triton kernels; NotSupportedError for what is no row-wise loss.

    `registry` has the primitives of plugins, which are printed from their records.
    """
    if registry is None:
        registry = Registry(load_primitives(), {})
    programs = [(p, stages_of(p), long_stages_of(p)) for p in plan.programs if not multiplies(p)]
    products = [(p, *tiled(p)) for p in plan.programs if multiplies(p)]
    every = [s for _, short, long in programs for s in (*short, *long) if isinstance(s, Stage)]
    every += [s.stage if isinstance(s, Tiled) else s for _, _, stages in products for s in stages]
    made = helpers(dict.fromkeys(s.op for stage in every for s in stage.statements if isinstance(s, Let)), registry)
    texts = [*made.values(), *(function(*one) for one in programs)]
    texts += [tile_function(*one) for one in products]
    body = trimmed("\n\n".join(t.rstrip("\n") + "\n" for t in texts))
    text = f"# fmt: off\n{names()}\n\n{body}# fmt: on\n"  # expressions that stand as they are computed, however long
    sequence = ("from collections.abc import Sequence",) if "Sequence[" in text else ()
    return Emitted(
        (
            *sequence,
            "import torch",
            "import triton",
            "import triton.language as tl",
            "from torch import Tensor",
            *imports(text),
        ),
        text,
        RUNTIME,
    )


def imports(text: str) -> list[str]:
    """The import lines for what a text uses of the run time."""
    import ast

    used: set[str] = set()
    for part in ast.parse(text).body:  # a value of a kernel may be called as a function of the run time is
        found = [node for node in ast.walk(part) if isinstance(node, ast.Name)]
        own = {n.arg for n in ast.walk(part) if isinstance(n, ast.arg)}
        used |= {n.id for n in found} - {n.id for n in found if isinstance(n.ctx, ast.Store)} - own
    lines = []
    for module in RUNTIME:
        names = sorted(used & defined(module))
        if names:
            lines.append(f"from {module} import {', '.join(names)}")
    return lines


def defined(module: str) -> set[str]:
    """The public names of a module of the run time, from its text."""
    import ast
    from importlib.resources import files

    package, _, name = module.rpartition(".")
    tree = ast.parse((files(package) / f"{name}.py").read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
