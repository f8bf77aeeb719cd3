"""The runtime's own text, for modules that run where lossdsl is not installed."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lossdsl.artifacts.reached import Part, kept, parts_of, reached
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


@dataclass(frozen=True, slots=True)
class Runtime:
    """Modules by import name whose text is to be embedded, the first `ours` of them lossdsl's."""

    modules: tuple[str, ...] = RUNTIME
    ours: int = len(RUNTIME)

    def names(self) -> frozenset[str]:
        """All names that they define, whether a module reaches them or not. InternalError for one defined twice."""
        found: set[str] = set()
        for module in self.modules:
            own = {n for p in _parts(module) if p.imported is None for n in p.names}
            if twice := own & found:
                raise InternalError(f"{module} defines {', '.join(sorted(twice))} again")
            found |= own
        return frozenset(found)

    def embed(self, roots: Iterable[str]) -> Embedded:
        """One text of what `roots` come to need; what the modules import of each other is left out."""
        everything = [p for m in self.modules for p in _parts(m)]
        names = reached(everything, roots)
        imports = {
            ast.unparse(p.imported)
            for p in everything
            if p.imported is not None and p.names & names and not _own(p.imported, self.modules)
        }
        texts: list[str] = []
        foreign: list[str] = []
        for at, module in enumerate(self.modules):
            body = kept(_parts(module), names)
            if body:
                space = "\n\n\n" if body.startswith(("@", "class ", "def ")) else "\n\n"
                (texts if at < self.ours else foreign).append(f"{rule(module)}\n{summary(module)}{space}{body}\n")
        text = "\n\n".join(texts)
        if foreign:  # a plugin's style is its own
            text += "\n\n# fmt: off\n" + "\n\n".join(foreign) + "# fmt: on\n"
        return Embedded(tuple(sorted(imports)), text)


def _parts(module: str) -> tuple[Part, ...]:
    return parts_of(source_of(module))


def summary(module: str) -> str:
    """The first line of a module's docstring, as a comment."""
    doc = ast.get_docstring(ast.parse(source_of(module))) or ""
    return "".join(f"# {line}" for line in doc.splitlines()[:1])


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


def packages(lines: Iterable[str]) -> list[str]:
    """The packages beside Python's own and lossdsl's that import lines name."""
    heads = {
        name.partition(".")[0]
        for line in lines
        for node in ast.parse(line).body
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else _modules(node))
    }
    return sorted(head for head in heads if _section(head) == OURS - 1)


def _modules(node: ast.stmt) -> list[str]:
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def _section(module: str) -> int:
    head = module.partition(".")[0]
    if head == "__future__":
        return 0
    if head in sys.stdlib_module_names:
        return 1
    return 2 if not head.startswith("lossdsl") else OURS + (head == "lossdsl")
