"""What a backend says of itself."""

from __future__ import annotations

import ast
import subprocess
import sys

from lossdsl.api import registry
from lossdsl.backends.api import API, OLDEST_API, Availability
from lossdsl.backends.manager import function
from lossdsl.testing.conformance.calling import Backend, UsableBackend

HEAVY = ("torch", "triton", "numpy", "sympy", "lark", "pyopencl", "jax", "cupy")


class RecordTests(Backend):
    """These hold where the backend can't be used, too."""

    def test_the_record_is_whole(self) -> None:
        spec = self.spec
        assert OLDEST_API <= spec.api <= API
        assert spec.name == self.backend
        assert spec.doc.strip(), "doc says in a sentence what the backend is"
        assert spec.devices
        assert all(device == "*" or device.isidentifier() for device in spec.devices)
        name, _, version = spec.distribution.rpartition(" ")
        assert name
        assert version

    def test_the_probe_answers_in_words(self) -> None:
        answer = function(self.spec, "probe")()
        assert isinstance(answer, Availability)
        assert answer.device if answer.ok else answer.reason

    def test_finding_the_backend_loads_nothing_heavy(self) -> None:
        """`lossdsl list` imports the plugin; what it needs for working stays behind `emit` and `probe`."""
        code = (
            "import sys; from lossdsl.plugins import survey; "
            f"assert {self.backend!r} in survey()[0].backends; "
            f"print(*[m for m in {HEAVY!r} if m in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == []


class DeclaredTests(RecordTests, UsableBackend):
    def test_one_text_for_one_plan(self) -> None:
        from lossdsl.pipeline import build

        source = self.built("focal").built.source
        again = build(source, registry(), self.backend, device=self.place)
        assert again.artifact.text == self.built("focal").built.artifact.text

    def test_the_text_names_lines_of_imports_alone(self) -> None:
        """`imports` are sorted into the module's own, so each is one import statement."""
        for line in self.built("focal").built.emitted.imports:
            [statement] = ast.parse(line).body
            assert isinstance(statement, ast.Import | ast.ImportFrom)

    def test_a_standalone_module_needs_neither_lossdsl_nor_the_backend(self) -> None:
        """What the functions import of the backend's package is listed in `runtime`, and embedded."""
        from lossdsl.pipeline import build

        made = build(self.built("focal").built.source, registry(), self.backend, device=self.place, standalone=True)
        own = self.spec.emit.partition(":")[0].partition(".")[0]
        names = {
            alias.name if isinstance(node, ast.Import) else node.module or ""
            for node in ast.walk(ast.parse(made.artifact.text))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert not {name for name in names if name.partition(".")[0] in ("lossdsl", own)}
        assert made.artifact.load()
