"""Time budgets: the seconds of test time that each folder of tests/ may take, printed and enforced at the end of a run.

Seconds are those of a worker, summed over both workers of `make test`, from empty caches on a slow machine. A folder
that is not in the table fails the run as one that overruns does: a new kind of test is given a budget when it is born.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

BUDGETS = {
    "api": 120,
    "artifacts": 60,
    "backends": 120,
    "bad": 30,
    "catalogue": 180,
    "check": 60,
    "cli": 120,
    "derive": 180,
    "examples": 120,
    "ir": 60,
    "kernel": 30,
    "losses": 180,
    "packs": 60,
    "plan": 60,
    "plugins": 60,
    "primitives": 60,
    "reductions": 30,
    "runtime": 150,
    "source": 15,
    "syntax": 60,
    "testing": 60,
}

FULL = os.environ.get("LOSSDSL_FULL_TESTS") == "1"
HERE = Path(__file__).parent


class Budgets:
    """Adds up how long the tests of each folder take, where the reports come together."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path = Path(report.nodeid.split("::")[0])
        kind = path.parts[1] if len(path.parts) > 2 and path.parts[0] == HERE.name else ""
        self.spent[kind] += report.duration
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
        terminalreporter.section("time a kind of test")
        for kind in sorted(self.spent):
            budget = f"of {BUDGETS[kind]:>4} s" if kind in BUDGETS else ""
            line = f"{kind or 'tests/*.py':<12} {self.tests[kind]:>6} tests {self.spent[kind]:>8.1f} {budget:<9}"
            reason = self.verdict(kind)
            terminalreporter.line(f"{line} {reason}".rstrip(), red=bool(reason))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: runs only in `make test-all`, where products are taken whole")
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
