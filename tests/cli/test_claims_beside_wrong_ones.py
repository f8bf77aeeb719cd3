"""A claim or an example that is wrong itself hides nothing of what becomes of the others."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from lossdsl.cli.check import command

TEXT = """loss l
input logits[N, C]
input target[N]: index C
return -log(softmax(logits)[target])
claim loss >= -5
claim los >= 0
claim loss >= 1/0
claim loss <= 1
claim loss >= sum[C](logits)[target]
claim shift_invariant(logits)
example logits = [[2, 0]], target = [0] gives 0.126928
example logit = [[2, 0]], target = [0] gives 3
"""


def test_all_verdicts_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "l.loss"
    path.write_text(TEXT)
    result = CliRunner().invoke(command, [str(path), "--json"])
    assert result.exit_code == 1
    (record,) = json.loads(result.stdout)
    found = {claim["claim"]: claim["status"] for claim in record["claims"]}
    assert found == {
        "loss >= -5": "proved",
        "loss <= 1": "refuted",
        "loss >= sum[C](logits)[target]": "wrong",
        "shift_invariant(logits)": "proved",
    }
    assert [e["ok"] for e in record["examples"]] == [True]
    codes = [d["code"] for d in record["diagnostics"]]
    assert codes == ["E0209", "E0414", "E0903", "E0306", "E0209"]
