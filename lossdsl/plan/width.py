"""Which programs need float64 whatever comes in, by what they are made of.

Single precision loses digits where terms nearly cancel. Rules write most of these differences anew
(`lossdsl/ir/rules`); what is left of them has no better form in the values that the program has:

* what an inverse or a logarithm of a determinant loses grows with the matrix's condition, which its entries don't show;
* a cosine is known to 2^-24, so 1 - cos of nearly parallel vectors is known to no digit, and with it every weight that
  is made of it. The chord has them, but is no product of matrices;
* a gradient through a quotient of sums over samples, or through what a sample is from their mean, is a difference of
  such sums, each of them rounded; so it is where each sample is weighed against each other;
* digammas of 10^6 are told from each other by what a logarithm's last places are;
* a difference of slopes of two sigmoids, or of two directions, has no digit that both have in common
  (`plan/opposed.py`);
* the square of a vector of 10^-20 is 0, the reciprocal of a spread of 10^-40 infinite (`plan/small.py`).

Everything in such a program is float64, from the inputs as they come to results that are rounded once. Rows of classes
stay in single precision: there it costs twice the time, and their differences have been written anew.
"""

from __future__ import annotations

from lossdsl.plan.cost import statements
from lossdsl.plan.islands import LINEAR
from lossdsl.plan.kernel import Island, KernelProgram, Let, Load, Loop, Operand, Pick, Reduce, Stmt
from lossdsl.plan.opposed import directions_apart, slopes_apart
from lossdsl.plan.small import divides_by_small, rows_of_classes

STEEP = frozenset({"digamma", "trigamma"})
_THROUGH = frozenset({"add", "sub", "mul", "mulz", "div", "neg", "maximum", "clip", "select"})


def why_double(program: KernelProgram) -> str:
    """What the program holds that single precision can't do; '' where it can."""
    body = statements(program.body)
    flat = not any(isinstance(s, Loop) for s in program.body)
    for s in body:
        if isinstance(s, Island) and s.op in LINEAR:
            return f"{s.op} loses as many digits as its matrix is ill conditioned"
        if isinstance(s, Let) and s.op in STEEP:
            return f"differences of {s.op} cancel"
    if _between_computed(body) or (flat and _cosines(body)):
        return "what is made of products of computed vectors cancels"
    if flat and program.axes and f"{program.axes[0]}'" in program.axes:
        return "weights of pairs of samples cancel"
    if _differing(program, body, flat):
        return "quotients of sums over samples, and differences from their mean, cancel"
    if slopes_apart(program, body):
        return "slopes of two sigmoids cancel"
    if directions_apart(program, body) and not rows_of_classes(program, body):
        return "directions of two vectors cancel"
    if divides_by_small(program, body):
        return "a length, spread or deviation may be as small as 1e-40, and its square or reciprocal beyond"
    return ""


def _cosines(body: list[Stmt]) -> bool:
    """Whether a cosine is added up here (in kernels of tiles it comes in)."""
    sums = {v.name for s in body if isinstance(s, Reduce) for v in s.values}
    return any(isinstance(s, Let) and s.op == "within_unit" and s.args[0] in sums for s in body)


def _between_computed(body: list[Stmt]) -> bool:
    """Whether a matrix product multiplies two arrays that are both computed: vectors of unit length, say."""
    loaded: set[Operand] = set()
    for s in body:
        match s:
            case Load(value=value):
                loaded.add(value.name)
            case Let(op="select", args=(_, *branches), value=value) if all(b in loaded or b == 0 for b in branches):
                loaded.add(value.name)  # an input, masked
    products = (s for s in body if isinstance(s, Island) and s.op == "contract")
    return any(all(isinstance(a, str) and a not in loaded for a in s.args) for s in products)


def _differing(program: KernelProgram, body: list[Stmt], flat: bool) -> bool:
    """Whether something is divided by what is made of a sum over samples, without a root between; or, where the rows
    are not visited one by one, a sample's own is subtracted from such, or such from it."""
    sums: set[Operand] = set()
    samples = program.axes[:1]
    for s in body:
        match s:
            case Reduce(reduction="sum", axes=axes, values=values) if samples and samples[0] in axes:
                sums |= {v.name for v in values}
            case Let(op="div", args=(_, str() as below)) if below in sums:
                return True
            case Let(op="sub", args=args, value=value) if flat and sums & set(args) and value.axes[:1] == samples:
                return True
            case Let(op=op, args=args, value=value) if op in _THROUGH and sums & set(args):
                sums.add(value.name)
            case Pick(source=source, value=value) if source in sums:
                sums.add(value.name)
    return False
