from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lossdsl.cli import group

RIGHT = "loss half\ninput x[N]\nreturn x / 2\nexample x = [3] gives 1.5\n"
WRONG = "loss half\ninput x[N]\nreturn y / 2 + z\n"

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Calls the command line in this process: run("check", path) -> exit_code, stdout, stderr."""

    def call(*arguments: object, stdin: str | bytes | None = None) -> Result:
        result = CliRunner().invoke(group, [str(a) for a in arguments], input=stdin, prog_name="lossdsl")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


@pytest.fixture
def right(tmp_path: Path) -> Path:
    path = tmp_path / "right.loss"
    path.write_text(RIGHT)
    return path


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.loss"
    path.write_text(WRONG)
    return path
