"""Time budgets: the processor time that each kind of test may take, printed and enforced at the end of a run.

A kind is a folder of tests/, or a plugin. Seconds are summed over the workers of `make test` and the processes that
tests start, so that another program on the machine can't make a run fail; they hold from empty caches. A folder that is
not in the table fails the run too: a new kind of test is given a budget when it is born.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pluggy
import pytest

BUDGETS = {
    "api": 200,
    "artifacts": 150,
    "backends": 200,
    "bad": 30,
    "bench": 120,
    "catalogue": 400,
    "check": 120,
    "cli": 200,
    "derive": 300,
    "examples": 60,
    "gallery": 60,
    "golden": 60,
    "heads": 120,
    "ir": 120,
    "kernel": 60,
    "lossdsl-cpu": 500,
    "lossdsl-opencl": 150,
    "lsp": 60,
    "migrating": 60,
    "packaging": 150,
    "plan": 120,
    "plugins": 120,
    "primitives": 150,
    "reductions": 30,
    "reference": 60,
    "reports": 120,
    "runtime": 300,
    "source": 15,
    "std": 300,
    "syntax": 150,
    "testing": 60,
    "triton": 200,
}

FULL = os.environ.get("LOSSDSL_FULL_TESTS") == "1"
HERE = Path(__file__).parent


def processor_time() -> float:
    """Seconds that this process and those it has waited for have computed."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Clock:
    """Notes in each report what its phase took, where the test runs."""

    def __init__(self) -> None:
        self.last = processor_time()

    def pytest_runtest_logstart(self) -> None:
        self.last = processor_time()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pluggy.Result[pytest.TestReport], None]:
        outcome = yield
        now = processor_time()
        outcome.get_result().user_properties.append(("processor", now - self.last))
        self.last = now


class Budgets:
    """Adds up what the tests of each kind take, where the reports come together."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        parts = Path(report.nodeid.split("::")[0]).parts
        kind = parts[1] if len(parts) > 2 and parts[0] in (HERE.name, "plugins") else ""
        # properties gather from phase to phase: the last is this one's; a worker that crashed has left none
        taken = [value for name, value in report.user_properties if name == "processor"]
        self.spent[kind] += taken[-1] if taken else 0.0
        self.tests[kind] += report.when == "call"

    def verdict(self, kind: str) -> str:
        """Why this kind fails the run, or nothing."""
        if kind not in BUDGETS:
            return "has no budget: add it to tests/conftest.py" if kind else ""
        if self.spent[kind] > BUDGETS[kind] and not FULL:
            return "overran its budget"
        return ""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and any(self.verdict(kind) for kind in self.spent):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.spent:
            return
        terminalreporter.section("processor time of each kind of test")
        for kind in sorted(self.spent):
            budget = f"of {BUDGETS[kind]:>4} s" if kind in BUDGETS else ""
            line = f"{kind or 'tests/*.py':<14} {self.tests[kind]:>6} tests {self.spent[kind]:>8.1f} {budget:<9}"
            reason = self.verdict(kind)
            terminalreporter.line(f"{line} {reason}".rstrip(), red=bool(reason))


@pytest.fixture(autouse=True)
def the_backend_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """`backend="auto"` means torch in tests/, whatever is installed beside it; a plugin's own tests choose it."""
    monkeypatch.setenv("LOSSDSL_DISABLE", "cpu,opencl")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: runs only in `make test-all`, where products are taken whole")
    config.pluginmanager.register(Clock(), "lossdsl-clock")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Budgets(), "lossdsl-budgets")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if FULL:
        return
    kept = [item for item in items if item.get_closest_marker("full") is None]
    left_out = [item for item in items if item.get_closest_marker("full") is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
