"""Claims settled by sympy: written out for 2 and 3 classes, with every real a symbol, in a child process."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import sympy

from lossdsl.derive.claims.cases import cases
from lossdsl.derive.claims.scalars import NotWrittenError
from lossdsl.derive.limits import compute_at_most, ring_after
from lossdsl.derive.symbolic.algebra import Algebra, vanishes
from lossdsl.derive.symbolic.limits import limit
from lossdsl.derive.symbolic.signs import never_negative, proper
from lossdsl.derive.symbolic.terms import Floor, Round, lift
from lossdsl.derive.transport import from_json
from lossdsl.registry import Registry

NODE = "aux.node"
STEPS = (Floor, Round, sympy.floor, sympy.ceiling, sympy.sign, sympy.Piecewise, sympy.core.relational.Relational)


def settle(request: Mapping[str, Any], registry: Registry) -> bool:
    """Whether the request's claim is shown. Kinds: zero, constant, limit, proper."""
    kind = request["kind"]
    graph = from_json(request["graph"])
    for classes, extents in request["sizes"]:
        for case in cases(graph, [NODE], classes, request["shifts"], request["sums"], extents=extents, stick=False):
            a = Algebra(registry, case, request.get("param", ""), request["sums"])
            entries = [a.expression(n) for n in case.outputs[NODE].values()]
            if kind == "proper":
                if not proper(a, entries):
                    return False
                continue
            request = {**request, "inputs": [leaf.name for leaf in graph.leaves if leaf.role == "input"]}
            for e in entries:
                if not _SHOWN[kind](a, e, request):
                    return False
    return True


def _zero(a: Algebra, e: Any, request: Mapping[str, Any]) -> bool:
    return vanishes(a, e)


def _constant(a: Algebra, e: Any, request: Mapping[str, Any]) -> bool:
    """Its derivative in every symbol of an input is 0; params may stay."""
    groups = a.groups
    e = e.subs({g[-1]: 1 - sympy.Add(*g[:-1]) for g in groups}, simultaneous=True)
    read = request["inputs"]
    inputs = [x for name, x in a.symbols.items() if name.removeprefix("p.").partition("[")[0] in read]
    moving = [x for x in inputs if e.has(x)]
    if any(part.has(*moving) for part in e.atoms(*STEPS)):  # what jumps has a derivative of 0, too
        return False
    return all(vanishes(a, sympy.diff(e, x)) for x in moving)


def _limit(a: Algebra, e: Any, request: Mapping[str, Any]) -> bool:
    x = a.symbol(request["param"])
    to = sympy.oo if request["to"] == "inf" else lift(Fraction(request["to"]))
    return all(vanishes(a, limit(a, e, x, to, side)) for side in request["sides"])


def _sign(a: Algebra, e: Any, request: Mapping[str, Any]) -> bool:
    return never_negative(a, e)


_SHOWN = {"zero": _zero, "constant": _constant, "limit": _limit, "sign": _sign}


def answers(requests: Sequence[Mapping[str, Any]], registry: Registry, timeout: float) -> Iterator[bool]:
    """Each request settled or not, in `timeout` seconds of computing; whatever sympy can't do is no proof."""
    for request in requests:
        try:
            with _clock(timeout):
                shown = settle(request, registry)
        except (_OutOfTimeError, NotWrittenError, NotImplementedError, ValueError, TypeError, KeyError):
            shown = False
        except (sympy.PolynomialError, RecursionError, ZeroDivisionError):
            shown = False
        yield shown


class _OutOfTimeError(Exception):
    """The clock has run out."""


@contextmanager
def _clock(seconds: float) -> Iterator[None]:
    """Raises _OutOfTimeError when this process has computed that long (without such a clock, the parent's runs)."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: object) -> None:
        raise _OutOfTimeError

    compute_at_most(2 * seconds + 1)  # for what the signal doesn't end: a power of two large numbers
    signal.signal(signal.SIGPROF, ring)
    ring_after(seconds)
    try:
        yield
    finally:
        ring_after(0)
