"""Golden files of the segmentation pack: which loss each belongs to, and what it calls by another name."""

from __future__ import annotations

from tests.catalogue.golden import Row

TABLE: dict[str, Row] = {
    "dice_multiclass__monai": Row("dice_multiclass"),
}

MISSING: dict[str, str] = {  # names of the catalogue that have no file yet, and why
    "self_adj_dice_binary": "to do",
    "self_adj_dice": "to do",
    "self_adj_dice_all": "to do",
    "generalized_dice": "to do",
    "soft_jaccard_loss": "to do",
    "focal_tversky_loss": "to do",
    "lovasz_softmax": "to do",
    "lovasz_hinge": "to do",
    "wce_lovasz": "to do",
    "heteroscedastic_softmax": "to do",
    "dice_binary": "to do",
    "tversky": "to do",
    "jaccard_metric_loss": "to do",
    "dice_semimetric_loss": "to do",
    "sensitivity_specificity": "to do",
    "repri": "to do",
}
