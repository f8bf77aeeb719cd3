"""Everything that a program may hold: right, or refused with NotSupportedError. Never a wrong number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lossdsl.api import registry
from lossdsl.backends.api import BackendSpec, KernelProgram, NotSupportedError
from lossdsl.backends.manager import BackendError
from lossdsl.plan.text import parse_kernel
from lossdsl.primitives.record import Primitive
from lossdsl.testing.conformance.calling import (
    UsableBackend,
    call,
    check,
    drawn,
    emit_programs,
    interpreted,
)

_ROW = "input logits[N, C]\ninput target[N]: index C\n"

# A construct each that a row-wise loss hasn't: texts, since a pack with such a loss need not be installed.
TEXTS = {
    "a statistic of the batch": _ROW + "p = softmax(logits)\nt = C == target\n"
    "return mean[C](1 - (2 * sum[N](p * t) + 1) / (sum[N](p + t) + 1))\n",
    "pairs of rows": "input x[N, D]\ninput y[N]: label\n"
    "d = sum[D]((x - x')^2)\nreturn sum[N'](d where y == y' and N != N') / size(N)\n",
    "pairs of what rows picked": "input z[N, C]\ninput t[N]: index C\ninput w[C]\n"
    "e = w[t] - z[t]\nreturn sum[N'](tanh(e * e'))\n",
    "a softmax over the batch": "input a[N, D], b[N, D]\n"
    "s = dot[D](a, b[N -> N'])\nreturn -log_softmax[N'](s)[N' -> N]\n",
    "a product of matrices": "input x[N, D]\ninput w[C, D]\ninput target[N]: index C\n"
    "return -log_softmax(dot[D](x, w))[target]\n",
    "an order": "input score[N, C]\ninput gain[N, C]: fixed\n"
    "pi = descending[C -> K](score)\nreturn sum[K](gain[pi] / (K + 1) * score[pi])\n",
    "a running sum": "input x[N, C]\nreturn sum[C](cumsum[C](x)^2)\n",
    "a root": "input z[N, C]\nt = root(t in [max[C](z) - 1, max[C](z)]: sum[C](relu(z - t)) - 1)\n"
    "return sum[C](relu(z - t)^2)\n",
    "sequences": "input logits[N, T, C]\ninput target[N, T]: index C\n"
    "return mean[T](-log_softmax[C](logits)[target])\n",
    "two axes of rows": "input logits[N, T, C]\ninput target[N, T]: index C\nbatch N, T\n"
    "return -log_softmax[C](logits)[target]\n",
    "a mask": "input x[N, C]\ninput keep[N, C]: bool\naxis C where keep\nreturn logsumexp[C](x) - mean[C](x)\n",
    "an index that repeats": "input pair[N, K]: index C\ninput m[C]\nreturn sum[K](exp(m[pair]) * (K + 1))\n",
    "extremes": "input x[N, C]\nreturn max[C](x) - min[C](x) + max[C](x * x)\n",
    "one number a row": "input x[N]\ninput y[N]: fixed\nreturn softplus(-x * y) + tanh(x)^2\n",
    "a matrix's determinant": "input x[N, D]\nreturn logdet[D, D'](sum[N](x * x[D -> D']) + (D == D'))\n",
}

REDUCTIONS = ("sum", "prod", "max", "min", "argmax", "count", "logsumexp", "ties")
_KINDS = {"argmax": "int", "count": "int"}
_SECOND = {"logsumexp": "real", "ties": "int"}


def _typed(kind: str) -> str:
    return "" if kind == "real" else f": {kind}"


def reduction_program(names: Sequence[str], masked: bool) -> KernelProgram:
    """Reductions over the classes of each row, of x where keep holds."""
    lines = ["kernel reductions.value", "axes N, C", "in x[N, C]: real", "in keep[N, C]: bool"]
    body, stores = ["    v[N, C] = load x[N, C]", "    k[N, C]: bool = load keep[N, C]"], []
    for name in names:
        kind, second = _KINDS.get(name, "real"), _SECOND.get(name)
        values = f"r_{name}[N]{_typed(kind)}"
        lines.append(f"out {name}[N]: {kind}")
        stores.append(f"  store {name}[N] = r_{name}")
        if second:
            values += f", s_{name}[N]{_typed(second)}"
            lines.append(f"out {name}_second[N]: {second}")
            stores.append(f"  store {name}_second[N] = s_{name}")
        operand, where = "true" if name == "count" else "v", " where k" if masked else ""
        body.append(f"    {values} = reduce {name} over C ({operand}){where}")
    return parse_kernel("\n".join([*lines, "for N:", "  for C:", *body, *stores]) + "\n")


def primitive_program(records: Sequence[Primitive]) -> KernelProgram:
    """Primitives, entry by entry, each with arguments of its own."""
    lines, body = ["kernel primitives.value", "axes N"], []
    for record in records:
        names = [f"{x}_{record.name}" for x in "xyz"[: record.arity]]
        kinds = [
            "bool" if record.argument_kind == "bool" or (record.name == "select" and x == "x") else "real"
            for x in "xyz"[: record.arity]
        ]
        kind = record.kind if record.kind in ("bool", "int") else "bool" if record.argument_kind == "bool" else "real"
        lines += [f"in {x}[N]: {k}" for x, k in zip(names, kinds, strict=True)]
        lines.append(f"out r_{record.name}[N]: {kind}")
        body += [f"  {x}_1[N]{_typed(k)} = load {x}[N]" for x, k in zip(names, kinds, strict=True)]
        body.append(f"  v_{record.name}[N]{_typed(kind)} = {record.name}({', '.join(x + '_1' for x in names)})")
        body.append(f"  store r_{record.name}[N] = v_{record.name}")
    return parse_kernel("\n".join([*lines, "for N:", *body]) + "\n")


def samples(records: Sequence[Primitive]) -> dict[str, Any]:
    """The samples of each record as arrays of one length: shorter ones are repeated."""
    length = max(len(record.samples) for record in records)
    given = {}
    for record in records:
        table = np.resize(np.array(record.samples, dtype=float), (length, record.arity))
        for i, x in enumerate("xyz"[: record.arity]):
            as_bool = record.argument_kind == "bool" or (record.name == "select" and x == "x")
            given[f"{x}_{record.name}"] = table[:, i] != 0 if as_bool else table[:, i]
    return given


Results = Mapping[str, Tensor] | str  # the results by buffer, or why the program is refused


def results(
    spec: BackendSpec, program: KernelProgram, given: Mapping[str, Any], place: str, dtype: torch.dtype
) -> Results:
    """What a backend gives for a program, or its reason for refusing it."""
    try:
        module: ModuleType = emit_programs(spec, [program])
    except NotSupportedError as error:
        reason = str(error)
        assert reason.strip(), "the message of NotSupportedError names what isn't supported"
        return reason
    found = call(module.value, program, given, place, dtype)
    return dict(zip((b.name for b in program.buffers if b.role == "out"), found, strict=True))


@cache
def all_primitives(spec: BackendSpec, place: str, dtype: torch.dtype) -> Results:
    """All at once, so that a slow compiler runs once."""
    records = tuple(registry().primitives[name] for name in sorted(registry().primitives))
    return results(spec, primitive_program(records), _in_dtype(samples(records), dtype), place, dtype)


def _in_dtype(given: Mapping[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    return {k: torch.as_tensor(x).to(dtype) if np.asarray(x).dtype == float else x for k, x in given.items()}


class ConstructTests(UsableBackend):
    @pytest.mark.parametrize("construct", TEXTS)
    def test_a_construct_is_right_or_refused(self, construct: str) -> None:
        text = f"loss construct\n{TEXTS[construct]}"
        try:
            made = self.built(text)
        except BackendError as error:
            made, reason = None, str(error)
        if made is None:
            assert f"backend {self.backend!r} can't print this loss: " in reason
            pytest.skip(f"refused: {reason}")
        for name in ("value", "gradient"):
            kernel = made.kernels[name]
            given = drawn(kernel.graph, kernel.program, ignored=True, N=7, C=5, D=3)
            given |= {f"size {axis}": 5 if axis in "CK" else 7 for axis in kernel.program.axes}
            found = self.run(kernel, made.module, given)
            check(kernel.program, found, interpreted(kernel.program, given), 1e-9)

    @pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
    @pytest.mark.parametrize("width", [6, 150])
    def test_reductions_are_right_or_refused(self, width: int, masked: bool) -> None:
        """Rows with ties, infinities, and nothing in them, too; each by itself where they are refused together."""
        rng = np.random.default_rng(3)
        x = np.round(rng.normal(size=(9, width)) * 2) / 2
        x[2, 1:] = -np.inf
        keep = rng.random((9, width)) < 0.6
        keep[4] = False
        keep[2, 0] = True  # where nothing is more than -inf, any place will do as the argmax
        given = {"x": x, "keep": keep}
        groups: list[Sequence[str]] = [REDUCTIONS]
        for names in groups:
            program = reduction_program(names, masked)
            found = results(self.spec, program, given, self.place, torch.float64)
            if not isinstance(found, str):
                check(program, list(found.values()), interpreted(program, given), 1e-12)
            elif len(names) > 1:
                groups += [[name] for name in names]

    @pytest.mark.parametrize("name", sorted(registry().primitives))
    def test_a_primitive_is_right_or_refused(self, name: str) -> None:
        """At the samples of its record: kinks, ends of the domain, large and tiny, in double and in single."""
        record = registry().primitives[name]
        program = primitive_program([record])
        for dtype in (torch.float64, torch.float32):
            found = all_primitives(self.spec, self.place, dtype)
            given = _in_dtype(samples([record]), dtype)
            if isinstance(found, str):
                found = results(self.spec, program, given, self.place, dtype)
            if isinstance(found, str):
                pytest.skip(f"refused: {found}")
            result = found[f"r_{name}"].cpu().numpy().astype(float)[: len(record.samples)]
            exact = interpreted(program, given, "mpmath")[f"r_{name}"].astype(float)
            bound = 8e-15 * max(record.ulp, 1) if dtype == torch.float64 else record.ulp * 2.0**-23
            least, most = (1e-300, np.inf) if dtype == torch.float64 else (1.2e-38, np.finfo(np.float32).max)
            wanted = np.where(np.abs(exact) > most, np.copysign(np.inf, exact), exact)
            np.testing.assert_allclose(result, wanted, rtol=bound, atol=least, err_msg=f"{name} in {dtype}")
