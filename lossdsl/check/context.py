"""What one run of the checker carries along, and the scopes in which names are looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lossdsl.check.terms import POISON, Exhausted, Terms
from lossdsl.check.typed import Input, Param, Term
from lossdsl.check.types import Type, base_axis
from lossdsl.registry import LossFile, Registry
from lossdsl.source.diagnostic import Diagnostic, Label
from lossdsl.source.text import Source, Span
from lossdsl.syntax.ast import Def, Expr, LossDef
from lossdsl.syntax.gaps import NONE, Gaps

MOST_STEPS = 100_000
DEEPEST = 160


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A def with the scope it was written in."""

    definition: Def
    scope: Scope


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """`axis T where mask` of a callee: what it says of the axis that T stands for, and of copies of that.

    `others` are what the callee's other axes stand for, which may be copies of the same axis.
    """

    axis: str
    mask: Term
    others: frozenset[str]

    def covers(self, axis: str) -> bool:
        """Whether it speaks of that axis."""
        return axis == self.axis or (base_axis(axis) == base_axis(self.axis) and axis not in self.others)


@dataclass(slots=True, eq=False)
class Scope:
    """The names that an expression sees: values, functions and axes have separate spaces.

    `axes` gives for a base name the axes it stands for here (several where one batch axis of a callee covers several
    of the caller's); names that it lacks are looked up in `parent`, the scope around a def. Copies of the bases in
    `plain` keep their names; of others, `copies` holds those given out so far, and `used` are axes that a copy may not
    capture. `batch` are axes, `rows` their names in this scope's text. `site` is the place in the user's file for text
    that isn't in it (prelude, losses used as functions), `title` says whose it is.
    """

    values: dict[str, Term]
    functions: dict[str, Function]
    axes: dict[str, tuple[str, ...]]
    batch: tuple[str, ...]
    rows: tuple[str, ...] = ()
    parent: Scope | None = None
    plain: frozenset[str] = frozenset()
    used: set[str] = field(default_factory=set)
    copies: dict[str, tuple[str, ...]] = field(default_factory=dict)
    orders: dict[str, Term] = field(default_factory=dict)  # axes declared by `axis K = …` in a callee
    later: dict[str, Span] = field(default_factory=dict)
    written: dict[str, Expr] = field(default_factory=dict)  # what the text assigns, read or not yet
    assigning: str = ""
    modes: dict[str, str] = field(default_factory=dict)
    conditions: list[Condition] = field(default_factory=list)  # of a loss used as a function
    site: Span | None = None
    title: str = ""

    def at(self, span: Span) -> Span:
        """Where to point for something at `span` of this scope's text."""
        return span if self.site is None else self.site


@dataclass(slots=True, eq=False)
class Context:
    """The state of one run."""

    source: Source
    registry: Registry
    terms: Terms
    expr: Callable[[Context, Scope, Expr], Term]
    chosen: Mapping[str, str]
    gaps: Gaps = NONE
    inputs: dict[str, Input] = field(default_factory=dict)
    params: dict[str, Param] = field(default_factory=dict)
    sizes: dict[str, Term | None] = field(default_factory=dict)  # every base axis, and its size where no input binds it
    aliases: dict[str, tuple[str, Span]] = field(default_factory=dict)  # axis names that are copies: E -> C'
    shown: dict[str, str] = field(default_factory=dict)  # the copy C' -> E, for messages
    spread: dict[str, int] = field(default_factory=dict)  # most primes of a base in the file's text
    diagnostics: list[Diagnostic] = field(default_factory=list)
    reported: set[tuple[str, Span]] = field(default_factory=set)
    warnings: list[Diagnostic] = field(default_factory=list)
    memo: dict[tuple[object, ...], Term] = field(default_factory=dict)
    known: list[str] = field(default_factory=list)  # functions of the language, the prelude and the packs
    aliases_of: dict[str, list[LossFile]] | None = None  # losses by their other names, once they are asked for
    parsed: dict[str, LossDef] = field(default_factory=dict)
    active: list[str] = field(default_factory=list)  # functions being inlined
    dependencies: dict[str, str] = field(default_factory=dict)
    name: str = ""  # of the file
    circles: set[str] = field(default_factory=set)  # values defined in a circle that was reported
    called: set[str] = field(default_factory=set)  # defs and modes of the file that are used
    missing: set[str] = field(default_factory=set)  # modes that name no function, reported
    declaring: bool = False
    promised: set[str] = field(default_factory=set)  # inputs that are declared further down
    uses: list[tuple[Span, str, str, Type | None]] = field(default_factory=list)
    steps: int = 0
    depth: int = 0
    roots: int = 0

    def error(
        self, scope: Scope, code: str, message: str, span: Span, caret: str = "", fix: str = "", *others: Label
    ) -> Term:
        """Report a mistake and give the term that stands for it."""
        if self.gaps.batch and code.startswith("E03"):  # of axes: it may follow from what can't be read
            return POISON
        where = scope.at(span)
        if scope.site is not None:
            message = f"in {scope.title}: {message}"
            others = ()
        if (code, where) not in self.reported:
            self.reported.add((code, where))
            self.diagnostics.append(Diagnostic(code, message, (Label(where, caret), *others), fix))
        return POISON

    def warn(self, code: str, message: str, span: Span, caret: str = "", fix: str = "") -> None:
        """Report a finding that doesn't stop the file."""
        if (code, span) not in self.reported:
            self.reported.add((code, span))
            self.warnings.append(Diagnostic(code, message, (Label(span, caret),), fix, "warning"))

    def note(self, role: str, scope: Scope, name: str, span: Span, term: Term | None = None) -> None:
        """Keep what a name of the file's own text stands for, for editors."""
        if scope.site is None:
            self.uses.append((span, role, name, None if term is None else term.type))

    def step(self) -> None:
        """Count one expression; Exhausted when there are too many."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Exhausted(f"checking it takes more than {MOST_STEPS} steps")

    def text(self, scope: Scope, span: Span, otherwise: str = "this") -> str:
        """The source of an expression for use in a message, in backticks, if it is short."""
        if scope.site is not None:
            return otherwise
        text = " ".join(self.source.text[span.start : span.end].split())
        return f"`{text}`" if 0 < len(text) <= 48 else otherwise

    def show_axes(self, axes: frozenset[str] | tuple[str, ...]) -> str:
        """[N, C] as the file calls them."""
        names = sorted(axes, key=self.axis_order) if isinstance(axes, frozenset) else axes
        return "[" + ", ".join(self.shown.get(a, a) for a in names) + "]" if names else "no axes"

    def axis_order(self, axis: str) -> tuple[int, int]:
        """The canonical order: bases as they were met, copies behind their base."""
        base = base_axis(axis)
        known = list(self.sizes)
        return (known.index(base) if base in self.sizes else len(known), len(axis))

    def new_axis(self, name: str, size: Term) -> str:
        """A fresh axis of its own with that size, named like `name`."""
        candidate, n = name, 0
        while candidate in self.sizes and self.sizes[candidate] is not size:
            n += 1
            candidate = f"{name}_{n}"
        self.sizes[candidate] = size
        return candidate
