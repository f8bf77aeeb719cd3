"""Any file under 64 KiB is compiled, or refused, within 5 seconds and 1 GiB: files made to take long.

Each is compiled whole, to the module's text, in one process of its own; its processor time is measured there. What is
quadratic where it need not be takes minutes here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

FULL = os.environ.get("LOSSDSL_FULL_TESTS") == "1"
SECONDS = 5  # the worst took 2 when this was written
BYTES = 1 << 30  # torch among them
HEAD = "loss t\ninput x[N, C]\ninput y[N]: index C\n"
PAIRS = "loss t\ninput x[N, D]\n"


def each(n: int, line: Callable[[int], str]) -> str:
    return "".join(line(i) for i in range(n))


def chain(n: int, step: str, first: str = "x[y]", last: str = "", head: str = HEAD) -> str:
    """a0 = first, then n times a step from `A` to the next; `I` is its number."""
    lines = each(n, lambda i: f"a{i + 1} = " + step.replace("A", f"a{i}").replace("I", str(i + 2)) + "\n")
    return f"{head}a0 = {first}\n{lines}return a{n}{last}\n"


def wide(n: int, term: str, head: str = HEAD) -> str:
    """A sum of n terms, each of its own number `I`."""
    return chain(n, f"A + {term}", "0", " + x[y]" if head == HEAD else "", head)


FILES = {
    "gates within a log-sum-exp": chain(40, "A * sigmoid(A) + I.5", "x").replace("return a40", "return logsumexp(a40)"),
    "a chain": chain(300, "sin(A) + A"),
    "a long chain": chain(1500, "sin(A) + A"),
    "exponentials in a chain": chain(300, "exp(A) * A + 1"),
    "two hundred sums": wide(200, "sum[C](sin(I * x))"),
    "too many sums": wide(600, "sum[C](sin(I * x))"),
    "fifty softmaxes": wide(50, "sum[C](softmax(I * x)^2)"),
    "too many softmaxes": wide(200, "sum[C](softmax(I * x)^2)"),
    "softmax of softmax of …": chain(10, "softmax[C](A)", "x", "[y]"),
    "a hundred times": chain(100, "softmax[C](A)", "x", "[y]"),
    "nested means": chain(30, "sin(A - mean[C](A))", "x", "[y]"),
    "many nested means": chain(100, "sin(A - mean[C](A))", "x", "[y]"),
    "nested log-sum-exps": chain(30, "A - logsumexp[C](A * I)", "x", "[y]"),
    "many nested log-sum-exps": chain(200, "A - logsumexp[C](A * I)", "x", "[y]"),
    "nested maxima": chain(100, "A * max[C](A)", "x", "[y]"),
    "nested products": chain(40, "sin(A) + prod[C](A)", "x", "[y]"),
    "nested running sums": chain(40, "sin(cumsum[C](A))", "x", "[y]"),
    "picks": wide(500, "sin(x[C -> I])"),
    "shifts": chain(40, "sin(A[C -> C + 1]) + A", "x", "[y]"),
    "shifts that double": chain(20, "A[N -> N + 1] * A"),
    "choices": chain(60, "if A > I then A[N -> N + 1] else sin(A)"),
    "orders": wide(30, "sum[KI](x[descending[C -> KI](sin(I * x))] * KI)"),
    "roots": wide(10, "root(t in [-100, 100]: sum[C](sigmoid(x * I - t)) - 1)"),
    "determinants": wide(30, "logdet[D, D'](sum[N](x * x[D -> D']) + I * (D == D'))", PAIRS),
    "spectra": wide(10, "sum[KI](eigvals[D, D' -> KI](sum[N](x * x[D -> D']) + I * (D == D')))", PAIRS),
    "pairs": chain(40, "sin(A) + mean[N'](A where N != N')", "sum[D](x * x')", "", PAIRS).replace(
        "return a40", "return mean[N'](a40)"
    ),
    "many axes": f"loss t\ninput x[N, {', '.join(f'A{i}' for i in range(300))}]\n"
    f"return sum[{', '.join(f'A{i}' for i in range(300))}](sin(x))\n",
    "many inputs": "loss t\n" + each(300, lambda i: f"input x{i}[N, C{i}]\n") + "a0 = 0\n"
    + each(300, lambda i: f"a{i + 1} = a{i} + sum[C{i}](exp(x{i}))\n") + "return a300\n",
    "many params": HEAD + each(300, lambda i: f"param p{i} = {i}\n") + "a0 = x[y]\n"
    + each(300, lambda i: f"a{i + 1} = a{i} * p{i} + 1\n") + "return a300\n",
    "many losses": wide(100, "focal(x * I, y, gamma = I)"),
    "many outputs": HEAD + each(200, lambda i: f"o{i} = sum[C](sin({i + 2} * x))\n")
    + f"output {', '.join(f'o{i}' for i in range(200))}\nreturn x[y]\n",
    "many examples": HEAD + "return x[y]\n" + "example x = [[1, 2]], y = [0] gives 1\n" * 1200,
    "many claims": HEAD + "return x[y]^2\n" + each(1500, lambda i: f"claim loss >= {-i}\n"),
    "many conditions": HEAD + each(100, lambda i: f"input m{i}[N]: bool\naxis N where m{i}\n") + "return x[y]\n",
    "defaults of defaults": HEAD + "input d0[N] = x[y]\n"
    + each(100, lambda i: f"input d{i + 1}[N] = sin(d{i}) + sum[C](x)\n") + "return d100\n",
    "sizes that double": HEAD + "axis K0 = size(C)\n"
    + each(60, lambda i: f"axis K{i + 1} = size(K{i}) + size(K{i})\n") + "return x[y] + sum[K60](K60)\n",
    "defs that double": HEAD + "def f0(v) = sum[C](sin(v) * v)\n"
    + each(9, lambda i: f"def f{i + 1}(v) = f{i}(2 * v) + f{i}(2 * v + 1)\n") + "return f9(x)\n",
    "defs in a ring": HEAD + each(500, lambda i: f"def f{i}(v) = f{(i + 1) % 500}(v)\n") + "return f0(x[y])\n",
    "powers of constants": HEAD + "a = " + "^".join(["9"] * 90) + "\nreturn x[y]^a + 2^99999\n",
    "fractions without end": chain(900, "A * 1.00000000000000000000001 + 0.333333333333333", "3", " + x[y]"),
    "fractions of fractions": chain(900, "1 / (A + I.7777777777777)", "1/3", " + x[y]"),
    "squares of squares": chain(900, "A * A", "3", " + x[y]"),
    "a polynomial": chain(60, "(A + I) * (A - I)"),
    "pipes": HEAD + "return sum[C](x" + " |> temperature(2) |> softcap(3)" * 45 + ")\n",
    "thirty levels of sums": HEAD + "return " + "sum[C](x * " * 30 + "x" + ")" * 30 + "\n",
    "thirty levels of log-sum-exps": HEAD + "return " + "logsumexp[C](x * " * 30 + "x" + ")" * 30 + "\n",
    "a long docstring": f'loss t\n"""{"word " * 12_000}"""\ninput x[N]\nreturn x\n',
    "slips on every line": HEAD + each(1500, lambda i: f"a{i} = logit{i} + softmaxx(x, d{i})\n") + "return x[y]\n",
}  # fmt: skip

RUN = """
import json, resource, sys, time
from lossdsl.api import registry
from lossdsl.pipeline import build
from lossdsl.source.diagnostic import DiagnosticError
from lossdsl.source.text import Source

known, found = registry(), {}
build(Source("first.loss", "loss t\\ninput x[N]\\nreturn x\\n"), known, "torch")
for name, text in json.load(sys.stdin).items():
    started = time.process_time()
    try:
        what = len(build(Source("t.loss", text), known, "torch").artifact.text)
    except DiagnosticError as error:
        what = sorted({d.code for d in error.diagnostics})
    found[name] = [what, time.process_time() - started]
found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps(found))
"""


@pytest.mark.parametrize("part", range(4))
def test_every_file_ends_in_time(part: int) -> None:
    names = [n for i, n in enumerate(FILES) if i % 4 == part][:: 1 if FULL else 6]
    assert all(len(FILES[n].encode()) <= 64 * 1024 for n in names)
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps({n: FILES[n] for n in names}),
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found.pop("memory") < BYTES
    assert {name: seconds for name, (_, seconds) in found.items() if seconds > SECONDS} == {}
    refused = [what for what, _ in found.values() if isinstance(what, list)]
    assert {code for codes in refused for code in codes} <= {
        "E0801",
        "E0410",
        "E0206",
        "E0201",
        "E0202",
        "E0309",
        "E0405",
    }
