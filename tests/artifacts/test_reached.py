"""Standalone modules hold what of the runtime they reach, below their own kernels, and nothing else."""

from __future__ import annotations

import ast
import os

import pytest

from lossdsl.api import registry, source_of
from lossdsl.artifacts import standalone
from lossdsl.artifacts.reached import Part, in_two, kept, parts_of, reached, uses
from lossdsl.artifacts.standalone import Runtime
from lossdsl.artifacts.tiles import RUNTIME as TILES
from lossdsl.backends.manager import BackendError
from lossdsl.pipeline import build

FULL = bool(os.environ.get("LOSSDSL_FULL_TESTS"))
SOURCE = '''"""What it is."""

from __future__ import annotations

import math
import numpy as np
from typing import Any, cast


# --- first ----------------------------------------------------------------------------

# of a circle
TURN = 2 * math.pi
HALF = TURN / 2


def area(r: Radius, other: Any = None) -> float:
    """r may be one."""
    def square(x):
        return x * x

    return HALF * square(r.value)


class Radius:
    value: float = 1.0


# --- second ---------------------------------------------------------------------------


def unused(area):
    return [np for np in area(TURN)]


TABLE = {"area": area}
TABLE |= {"unused": unused}
'''


def text(*roots: str) -> str:
    parts = parts_of(SOURCE)
    return kept(parts, reached(parts, roots))


def test_what_is_read_is_kept_and_what_is_not_is_left_out() -> None:
    assert text("HALF") == (
        "# --- first ----------------------------------------------------------------------------\n\n"
        "# of a circle\nTURN = 2 * math.pi\nHALF = TURN / 2"
    )
    assert "class Radius" in text("area")  # an annotation
    assert "unused" not in text("area")
    assert "# --- second" not in text("area")
    assert "def area" not in text("unused")  # its argument, and no function
    assert "TURN = " in text("unused")
    everything = frozenset().union(*(p.names for p in parts_of(SOURCE)))
    assert text("TABLE") == kept(parts_of(SOURCE), everything)
    assert text() == ""


def test_imports_stand_by_the_names_that_they_bind() -> None:
    bound = {n: ast.unparse(p.imported) for p in parts_of(SOURCE) for n in p.names if p.imported is not None}
    assert bound["np"] == "import numpy as np"
    assert bound["cast"] == "from typing import cast"
    assert "math" in uses("TURN = 2 * math.pi")
    assert not {"np", "cast"} & reached(parts_of(SOURCE), ["area"])


def test_a_statement_that_binds_nothing_is_kept_with_what_it_reads() -> None:
    parts = (*parts_of(SOURCE), Part(frozenset(), frozenset({"unused"}), "unused([])"))
    assert "def unused" in kept(parts, reached(parts, []))


def test_what_runs_at_import_stands_behind_what_it_needs() -> None:
    body = "def helper(x=1):\n    return late(x)\n\n\n@late\ndef marked():\n    return 2\n\n\nPLACE = marked()\n"
    first, then = in_two(
        body + "\n\ndef long():\n    return (\n        1,\n        2,\n        3,\n    )\n", frozenset({"late"})
    )
    assert [n.name for n in ast.parse(first).body if isinstance(n, ast.FunctionDef)] == ["helper", "long"]
    assert "def marked" in then
    assert "PLACE = " in then  # it reads what came to be late
    assert (
        in_two("X = late(\n1,\n2,\n3,\n4,\n5,\n)\n\n\ndef f():\n    pass\n", frozenset({"late"}))[0] == ""
    )  # mostly late


@pytest.mark.parametrize("backend", ["torch", "triton", "cpu"])
def test_no_name_of_the_embedded_runtime_is_defined_twice(backend: str) -> None:
    """Names of all that can be embedded, with every backend's own, and with what the backend prints."""
    if backend not in registry().backends:
        pytest.skip("the C++ backend is not installed")
    for loss in ("focal", "clip_loss"):
        built = build(source_of(loss), registry(), backend)
        runtime = Runtime((*standalone.RUNTIME, *TILES, *built.emitted.runtime))
        names = runtime.names()  # raises for one defined twice
        printed = {n for p in parts_of(built.emitted.functions) for n in p.names}
        assert "functional" in names
        assert not printed & names


def test_a_name_defined_twice_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = standalone.source_of("lossdsl.runtime.call") + "\n\ndef bind():\n    pass\n"
    real = standalone.source_of
    monkeypatch.setattr(standalone, "source_of", lambda m: twice if m == "lossdsl.runtime.call" else real(m))
    with pytest.raises(Exception, match=r"lossdsl\.runtime\.call defines bind again"):
        Runtime().names()


def own_names(module: str) -> set[str]:
    return {n for p in parts_of(standalone.source_of(f"lossdsl.runtime.{module}")) if not p.imported for n in p.names}


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_kernels_come_first_and_unreached_parts_do_not_come(backend: str) -> None:
    made = build(source_of("focal"), registry(), backend, standalone=True).artifact.text
    defined = [n.name for n in ast.parse(made).body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    first = "_value_rows" if backend == "triton" else "value"
    assert defined.index(first) < defined.index("Signature") < defined.index("Focal")
    left_out = own_names("inplace") | own_names("ready") | own_names("images") | own_names("precise")
    assert not left_out & set(defined)
    if backend == "triton":
        assert "lgamma_" not in defined
        assert "Multiply" not in defined
    needs = "torch and triton" if backend == "triton" else "torch"
    assert f"# standalone: needs {needs}, and nothing of lossdsl. Here are its kernels" in made.split('"""')[0]
    precise = build(source_of("focal"), registry(), backend, standalone=True, precise=True).artifact.text
    assert "def in_double" in precise
    assert "in_double(\n" in precise


@pytest.mark.parametrize("loss", sorted(registry().losses) if FULL else ["dice", "triplet", "clip_loss", "list_mle"])
def test_all_that_modules_read_is_there(loss: str) -> None:
    """No name is read that nothing defines: what a function reads shows when it is called, and not before."""
    import builtins

    for backend in ("torch", "triton", "cpu"):
        if backend not in registry().backends:
            continue
        try:
            made = build(source_of(loss), registry(), backend, standalone=True).artifact.text
        except BackendError:  # it has no words for this loss
            continue
        known = {n for p in parts_of(made) for n in p.names} | set(dir(builtins)) | {"__name__"}
        assert not uses(made) - known
