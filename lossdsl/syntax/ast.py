"""The syntax tree: what the text says, before any name is looked up.

Every node carries the span of its text. Comments are kept beside the tree (`LossDef.comments`), attached to nodes by
the formatter. Equality ignores spans, so that parse(print(x)) == x can be asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from lossdsl.source.text import Span

NOWHERE = Span(0, 0)


def _span() -> Span:
    return field(default=NOWHERE, compare=False, kw_only=True)


# --- expressions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number:
    text: str  # as written: "0.5", "1e-6"; "inf" and "pi" are Names
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Vector:
    items: tuple[Expr, ...]  # [1, 0.5] and, in examples, nested ones
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Name:
    name: str  # a value: starts with a small letter
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class AxisRef:
    name: str  # N, C', K'': the index along that axis
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Primed:
    name: str  # x' (primes = 1), x'' (2): x with every copy of a batch axis moved on
    primes: int
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Substitution:
    axis: AxisRef
    value: Expr  # `A -> value`
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Substitute:
    base: Expr  # base[A -> i, B -> j], simultaneous
    pairs: tuple[Substitution, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Pick:
    base: Expr  # base[i], short for base[A -> i] where i is of kind `index A`
    index: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class AxisMap:
    axis: AxisRef  # [A] (to is None), [A -> B], or [C = K] in the call of a loss
    to: AxisRef | None = None
    binds: bool = False  # True for `C = K`
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Argument:
    value: Expr  # body = value [where w] [weighted v]; name for `tau = 0.5`
    where: Expr | None = None
    weighted: Expr | None = None
    name: str | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Call:
    function: str  # reductions, primitives, defs, losses: the checker tells which
    axes: tuple[AxisMap, ...]
    args: tuple[Argument, ...]
    function_span: Span = _span()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Unary:
    op: Literal["-", "not"]
    value: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Binary:
    op: Literal["+", "-", "*", "/", "^", "<", "<=", ">", ">=", "==", "!=", "and", "or"]
    left: Expr
    right: Expr
    op_span: Span = _span()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: Expr
    otherwise: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Root:
    variable: str
    low: Expr
    high: Expr
    body: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Pipe:
    value: Expr
    call: Call  # the value becomes its first argument
    span: Span = _span()


Expr = Number | Vector | Name | AxisRef | Primed | Substitute | Pick | Call | Unary | Binary | If | Root | Pipe

# --- declarations ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Item:
    name: str
    axes: tuple[AxisRef, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Bounds:
    low: Expr
    high: Expr
    low_open: bool
    high_open: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Kind:
    name: Literal["real", "prob", "bool", "int", "index", "label"]
    axis: AxisRef | None = None  # prob C, index C
    list: bool = False  # `index list C`, reserved for sampled classes
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class InputDecl:
    items: tuple[Item, ...]
    kind: Kind | None = None
    fixed: bool = False
    default: Expr | None = None
    draw: str | None = None  # `~ gumbel`
    bounds: Bounds | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class ParamDecl:
    items: tuple[tuple[Item, Expr], ...]  # name[axes] = default; a mode's default is a Name
    integer: bool = False
    bounds: Bounds | None = None
    modes: tuple[Name, ...] = ()
    learnable: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class BatchDecl:
    axes: tuple[AxisRef, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class AxisDecl:
    axis: AxisRef
    size: Expr | None = None  # axis K = 3
    where: Expr | None = None  # axis T where mask
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a def: `z`, `w[A]` or `y: index A`."""

    name: str
    axis: AxisRef | None = None
    kind: Kind | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Def:
    name: str
    axes: tuple[AxisRef, ...]
    parameters: tuple[Parameter, ...]
    body: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Assign:
    name: str
    value: Expr
    name_span: Span = _span()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Output:
    names: tuple[Name, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Condition:
    """`when gamma = 0, tau -> 0`: one setting or limit of a claim."""

    name: str
    value: Expr
    limit: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Claim:
    value: Expr  # `loss == …`, `shift_invariant(logits)`, `lipschitz(logits) <= …`, `proper`
    when: tuple[Condition, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Example:
    bindings: tuple[tuple[Name, Expr], ...]
    gives: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Text:
    """A docstring or a citation, without its quotes."""

    value: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Comment:
    text: str  # with its `#`
    span: Span = _span()


Decl = InputDecl | ParamDecl | BatchDecl | AxisDecl
Statement = Def | Assign


@dataclass(frozen=True, slots=True)
class LossDef:
    """One file: a loss (whose outermost reduction is the caller's) or a map."""

    kind: Literal["loss", "map"]
    name: str
    aliases: tuple[str, ...]
    doc: Text | None
    cites: tuple[Text, ...]
    tags: tuple[str, ...]
    decls: tuple[Decl, ...]
    body: tuple[Statement, ...]
    outputs: tuple[Output, ...]
    result: Argument  # the returned expression (an Argument, since a body may carry where/weighted at top level)
    claims: tuple[Claim, ...]
    examples: tuple[Example, ...]
    comments: tuple[Comment, ...] = field(default=(), compare=False)
    name_span: Span = _span()
    span: Span = _span()
