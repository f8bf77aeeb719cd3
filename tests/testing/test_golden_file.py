"""The numbers that lossdsl.testing ships are those of the catalogue's golden files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import lossdsl.testing.conformance.golden as golden
from tests.catalogue.golden import FOLDER, number
from tests.catalogue.std import TABLE

SHIPPED = (
    "bce__optax",
    "brier__formula",
    "cross_entropy__torch",
    "cross_entropy__mpmath-stress",
    "focal__ldam_gamma2.0",
    "focal__mpmath_extreme_gamma0.5",
    "generalized_cross_entropy__apl_q0.7",
    "jsd__formula_beta0.1",
    "kd_kl__mdistiller_T4",
    "label_smoothing_ce__torch_eps0.1",
    "mean_absolute_error__mpmath_extreme",
    "poly1_ce__optax",
    "sigmoid_focal__optax",
    "soft_target_ce__torch",
    "weighted_cross_entropy__torch",
    "z_loss_ce__formula",
)


def made(stem: str) -> dict[str, Any]:
    """A golden file in the names of its loss."""
    row, file = TABLE[stem], json.loads((FOLDER / f"{stem}.json").read_text())

    def name(x: str) -> str:
        return row.names.get(x, x)

    outputs = file["outputs"]
    by_row = row.reduction == "none" or (not row.reduction and file["reduction"].startswith("none"))
    reduction = "none" if by_row else row.reduction or ("sum" if file["reduction"].startswith("sum") else "mean")
    gradients = {k.removeprefix("grad_").removesuffix("_rows"): v for k, v in outputs.items() if k.startswith("grad_")}
    return {
        "loss": row.loss,
        "source": file["source"],
        "params": {name(k): number(v) for k, v in file["params"].items() if k not in row.leaves} | row.params,
        "reduction": reduction,
        "inputs": {name(k): v for k, v in file["inputs"].items() if k not in row.leaves},
        "value": outputs["loss_rows"] if by_row and "loss_rows" in outputs else outputs["loss"],
        "gradients": {name(k): v for k, v in gradients.items()},
    }


def test_the_shipped_numbers_are_the_catalogues() -> None:
    """LOSSDSL_UPDATE_GOLDEN=1 writes the file anew."""
    wanted = json.dumps({stem: made(stem) for stem in SHIPPED}, indent=None, separators=(",", ":"), sort_keys=True)
    wanted = wanted.replace('},"', '},\n"') + "\n"
    path = Path(golden.__file__).parent / "golden.json"
    if os.environ.get("LOSSDSL_UPDATE_GOLDEN") == "1":
        path.write_text(wanted, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == wanted
