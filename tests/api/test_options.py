"""What means nothing is refused where it is said, with what was meant."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

import lossdsl
from lossdsl.bench import Report, Timing, table
from lossdsl.cli.compile import command

LOGITS, TARGET = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]), torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"precise": "yes"}, TypeError, "precise is True or False, not 'yes'"),
        ({"debug": 1}, TypeError, "debug is True or False, not 1"),
        ({"denominator": -1}, ValueError, "denominator is a number from 0 on, or a 0-d tensor, not -1"),
        ({"denominator": math.nan}, ValueError, "denominator is a number from 0 on, or a 0-d tensor, not nan"),
        ({"denominator": math.inf}, ValueError, "denominator is a number from 0 on, or a 0-d tensor, not inf"),
        ({"denominator": True}, ValueError, "denominator is a number from 0 on, or a 0-d tensor, not True"),
        ({"class_dim": 0}, ValueError, "class_dim is 1 or -1, not 0"),
        ({"class_dim": "last"}, ValueError, "class_dim is 1 or -1, not 'last'"),
        ({"check": True}, TypeError, "check is given at each call: loss_fn(…, check=True)"),
        ({"aux": True}, TypeError, "aux is given at each call: loss_fn(…, aux=True)"),
        ({"memory": "64MiB"}, TypeError, "cross_entropy takes no memory: that is for tiles"),
        ({"inplace": True}, ValueError, "cross_entropy can't be inplace"),
    ],
)
def test_an_option_that_means_nothing(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        lossdsl.loss("cross_entropy", backend="torch", **options)


def test_a_denominator_at_the_call() -> None:
    loss_fn = lossdsl.loss("cross_entropy", backend="torch")
    with pytest.raises(ValueError, match="from 0 on"):
        loss_fn(LOGITS, TARGET, denominator=-2)
    assert loss_fn(LOGITS, TARGET, denominator=0).item() == 0.0
    whole = loss_fn(LOGITS, TARGET, reduction="sum")
    torch.testing.assert_close(loss_fn(LOGITS, TARGET, denominator=torch.tensor(4)), whole / 4)


def test_compile_flags() -> None:
    with pytest.raises(TypeError, match="precise is True or False"):
        lossdsl.compile("cross_entropy", "torch", precise="yes")  # type: ignore[arg-type]


def test_an_attribute_that_is_nearly_a_param() -> None:
    """Assigned, it would lie there and be read by nothing."""
    loss_fn = lossdsl.loss("focal", backend="torch")
    with pytest.raises(AttributeError, match="focal has no param 'gama'; did you mean 'gamma'"):
        loss_fn.gama = 1.0
    with pytest.raises(AttributeError, match="did you mean 'reduction'"):
        loss_fn.reductions = "sum"
    loss_fn.gamma = 1.0  # the param itself, what a user adds, and what torch sets go on
    loss_fn.weight_in_total = 0.5
    loss_fn._of_a_framework = "gamma"
    loss_fn.eval()
    assert loss_fn.gamma == 1.0


def test_a_folder_that_is_made_is_told(tmp_path: Path) -> None:
    call = ["cross_entropy", "--backend", "torch", "-o"]
    for out, told in ((tmp_path / "new" / "deep" / "ce.py", True), (tmp_path / "new" / "ce.py", False)):
        run = CliRunner().invoke(command, [*call, str(out)])
        assert run.exit_code == 0, run.output
        assert out.is_file()
        assert (f"made the folder {tmp_path / 'new'}\n" in run.stderr) == told


@pytest.mark.parametrize(("clone", "told"), [(1e-5, False), (1e-3, True)])
def test_a_ratio_to_the_time_of_a_call_is_none(clone: float, told: bool) -> None:
    """A copy of twelve numbers takes what any call takes, and says nothing of memory."""
    timings = {name: Timing(t, t, t, None) for name, t in (("torch", 2e-3), ("clone", clone))}
    report = Report("l", (("N", 4),), "float32", 2, 3, timings)
    text = table(report)
    assert ("/ clone" in text) == told
    assert ("no ratio to clone" in text) != told
