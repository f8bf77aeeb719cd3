"""The runtime's own text, for modules that run where lossdsl is not installed."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lossdsl.source.diagnostic import InternalError

# In the order in which they need each other.
RUNTIME = tuple(
    f"lossdsl.runtime.{name}"
    for name in (
        *("signature", "reduction", "extents", "mismatch", "binding", "quick", "values", "precise", "ops", "lane"),
        *("kernels", "call", "ahead", "autograd", "images", "inplace", "calling", "ready", "holding", "module"),
    )
)


OURS = 3  # from this section on, imports are of lossdsl's distributions


@dataclass(frozen=True, slots=True)
class Embedded:
    """The text of modules without their imports, and the imports that this text needs from elsewhere."""

    imports: tuple[str, ...]
    text: str
    names: frozenset[str]


@cache
def embed(modules: tuple[str, ...] = RUNTIME, ours: int = len(RUNTIME)) -> Embedded:
    """Modules by import name as one text, the first `ours` of them lossdsl's; what they import of each other is left
    out."""
    imports: set[str] = set()
    texts: list[str] = []
    names: set[str] = set()
    for module in modules:
        source = source_of(module)
        tree = ast.parse(source)
        lines = source.splitlines()
        drop: set[int] = set()
        for at, node in enumerate(tree.body):
            docstring = at == 0 and isinstance(node, ast.Expr)
            if docstring or isinstance(node, ast.Import | ast.ImportFrom):
                drop |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            if isinstance(node, ast.Import | ast.ImportFrom) and not _own(node, modules):
                imports.add(ast.unparse(node))
            defined = set(_defined(node))
            if twice := defined & names:
                raise InternalError(f"{module} defines {', '.join(sorted(twice))} again")
            names |= defined
        body = "\n".join(line for n, line in enumerate(lines, 1) if n not in drop).strip("\n")
        body = re.sub("\n{4,}", "\n\n\n", body)
        space = "\n\n\n" if body.startswith(("@", "class ", "def ")) else "\n\n"
        texts.append(f"{rule(module)}{space}{body}\n")
    imports.discard("from __future__ import annotations")
    foreign = texts[ours:]
    text = "\n\n".join(texts[: len(texts) - len(foreign)])
    if foreign:  # a plugin's style is its own
        text += "\n\n# fmt: off\n" + "\n\n".join(foreign) + "# fmt: on\n"
    return Embedded(tuple(sorted(imports)), text, frozenset(names))


def rule(title: str) -> str:
    """A comment that starts a part of a module."""
    head = f"# --- {title} "
    return head + "-" * (88 - len(head))


def without(lines: Iterable[str], modules: Iterable[str]) -> list[str]:
    """Import lines less those of embedded modules."""
    embedded = set(modules)
    return [line for line in lines if not _own(ast.parse(line).body[0], embedded)]  # type: ignore[arg-type]


def source_of(module: str) -> str:
    """The text of a module, found without importing it (its parents are)."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise InternalError(f"the text of {module} can't be found")
    return Path(spec.origin).read_text(encoding="utf-8")


def _own(node: ast.Import | ast.ImportFrom, modules: Iterable[str]) -> bool:
    if isinstance(node, ast.ImportFrom):
        return (node.module or "") in modules
    return any(alias.name in modules for alias in node.names)


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [t.id for t in node.targets if isinstance(t, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def merge_imports(lines: Iterable[str]) -> str:
    """Import statements as a formatter and an import sorter would leave them: by section, each module once."""
    plain: set[str] = set()
    members: dict[str, set[str]] = {}
    for line in lines:
        for node in ast.parse(line).body:
            if isinstance(node, ast.Import):
                plain |= {ast.unparse(ast.Import([alias])) for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                members.setdefault(node.module, set()).update(_alias(a) for a in node.names)
            else:
                raise InternalError(f"not an import: {line}")
    sections: dict[int, list[tuple[bool, str, str]]] = {}
    for text in plain:
        module = text.split()[1]
        sections.setdefault(_section(module), []).append((True, module, text))
    for module, names in members.items():
        sections.setdefault(_section(module), []).append((False, module, _from(module, sorted(names, key=_case))))
    blocks = []
    for section in sorted(sections):
        entries = sorted(sections[section], key=lambda e: (not e[0], e[1].lower()))
        block = "\n".join(text for _, _, text in entries)
        # what is first party and what is third depends on the folder: a sorter has to take them one by one
        blocks.append(block if section < OURS else f"# isort: split\n{block}")
    return "\n\n".join(blocks)


def _alias(a: ast.alias) -> str:
    return f"{a.name} as {a.asname}" if a.asname else a.name


def _case(name: str) -> tuple[int, str]:
    """The usual order within one import: constants, classes, the rest."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2, name)


def _from(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= 88:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def _section(module: str) -> int:
    head = module.partition(".")[0]
    if head == "__future__":
        return 0
    if head in sys.stdlib_module_names:
        return 1
    return 2 if not head.startswith("lossdsl") else OURS + (head == "lossdsl")
