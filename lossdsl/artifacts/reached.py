"""What of the runtime's text a module reaches: the rest needn't be embedded."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

HEADING = "# ---"
FORMATTING = ("# fmt: off", "# fmt: on")


@dataclass(frozen=True, slots=True)
class Part:
    """A statement of a module's top level, with the comments above it; or an import, whose `text` is empty.

    `names` are what it defines, `uses` what it reads of its module's names (and of others'), `gap` the blank lines
    before it, `section` the last heading above it.
    """

    names: frozenset[str]
    uses: frozenset[str]
    text: str
    imported: ast.Import | ast.ImportFrom | None = None
    gap: int = 0
    section: str = ""
    block: bool = False


@cache
def parts_of(source: str) -> tuple[Part, ...]:
    """The statements of a module, without its docstring; each name of an import by itself."""
    lines = source.splitlines()
    found: list[Part] = []
    above, section = 0, ""
    for at, node in enumerate(ast.parse(source).body):
        start = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        between, above = lines[above : start - 1], node.end_lineno or node.lineno
        if at == 0 and isinstance(node, ast.Expr):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            found += [_import(node, alias) for alias in node.names]
            continue
        section = next((x for x in reversed(between) if x.startswith(HEADING)), section)
        comments = [x for x in between if x.startswith("#") and not x.startswith(HEADING)]
        text = "\n".join([*comments, *lines[start - 1 : above]])
        blanks = next((i for i, x in enumerate(between) if x), len(between))
        block = isinstance(node, ast.FunctionDef | ast.ClassDef)
        found.append(Part(frozenset(defined(node)), uses(text), text, None, blanks, section, block))
    return tuple(found)


def _import(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> Part:
    """One alias of an import."""
    name = alias.asname or alias.name.partition(".")[0]
    alone = ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, [alias], node.level)
    return Part(frozenset({name}), frozenset(), "", alone)


def defined(node: ast.stmt) -> Iterator[str]:
    """The names that a statement of the top level binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
        return
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    for target in targets:
        if target is not None:
            yield from (x.id for x in ast.walk(target) if isinstance(x, ast.Name))


def uses(text: str) -> frozenset[str]:
    """The names that a text reads and that no function of its own holds."""
    found: set[str] = set()
    top = symtable.symtable(text, "part", "exec")
    todo = [top]
    while todo:
        table = todo.pop()
        todo += table.get_children()
        found |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (table is top or s.is_global())}
    for node in ast.walk(ast.parse(text)):  # some versions of Python keep annotations out of the tables
        for said in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if said is not None:
                found |= {x.id for x in ast.walk(said) if isinstance(x, ast.Name)}
    return frozenset(found)


def reached(parts: Iterable[Part], roots: Iterable[str]) -> frozenset[str]:
    """The names that `roots` come to need, themselves among them, by way of what statements read."""
    needs: dict[str, set[str]] = {}
    found = set(roots)
    for part in parts:
        for name in part.names:
            needs.setdefault(name, set()).update(part.uses)
        if not part.names:  # it does something: that it is there is all its use
            found |= part.uses
    todo = [*found]
    while todo:
        new = needs.get(todo.pop(), set()) - found
        found |= new
        todo += new
    return frozenset(found)


def kept(parts: Sequence[Part], names: frozenset[str]) -> str:
    """The text of the statements that define any of these names (or none at all), below the headings that they had;
    without imports."""
    text, before, section = "", False, ""
    for part in parts:
        if part.imported is not None or (part.names and not part.names & names):
            continue
        gap = 2 if part.block or before else part.gap
        if part.section != section:
            text += ("\n" * 3 if text else "") + part.section
            gap = 2 if part.block else 1
            section = part.section
        text += "\n" * (gap + 1 if text else 0) + part.text
        before = part.block
    return text


def in_two(text: str, late: frozenset[str]) -> tuple[str, str]:
    """A module's text as what can stand before the definitions of `late`, and what reads one of them as it is run.

    Mostly the latter: then all of it.
    """
    first: list[str] = []
    then: list[str] = []
    late_by_now = set(late)
    lines = text.splitlines()
    unformatted = any(x in FORMATTING for x in lines)
    lines = [x for x in lines if x not in FORMATTING]
    above = 0
    tree = ast.parse("\n".join(lines)).body
    for node in tree:
        end = len(lines) if node is tree[-1] else node.end_lineno or node.lineno
        own, above = lines[above:end], end
        if at_once(node) & late_by_now:
            late_by_now.update(defined(node))
            then += own
        else:
            first += own
    if len(first) <= len(then):
        return "", text
    return _formatted(first, unformatted), _formatted(then, unformatted)


def _formatted(lines: Sequence[str], unformatted: bool) -> str:
    text = "\n".join(lines).strip("\n")
    if not text:
        return ""
    return f"{FORMATTING[0]}\n{text}\n{FORMATTING[1]}\n" if unformatted else f"{text}\n"


def at_once(node: ast.stmt) -> frozenset[str]:
    """The names that a statement reads as it is run, which of a function are its decorators and defaults."""
    if not isinstance(node, ast.FunctionDef):
        return uses(ast.unparse(node))
    said = [*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
    return frozenset(x.id for n in said for x in ast.walk(n) if isinstance(x, ast.Name))
