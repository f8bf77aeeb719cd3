"""Golden files of the segmentation pack: which loss each belongs to, and what it calls by another name."""

from __future__ import annotations

from torch import Tensor

from tests.catalogue.golden import Row, changed, scalar

LABELS = {"labels": "target"}
SHANNON = ("square_denominator", "alpha")
JDT = ("mIoUD", "norm", "active")
TVERSKY = ("alpha", "beta", "gamma")
MIX = {"mIoUD": "w_data", "mIoUI": "w_image", "mIoUC": "w_class"}
REPRI = {"support_logits": "support", "query_logits": "query", "support_labels": "label", "query_valid": "valid"}


def truth(x: Tensor) -> Tensor:
    return x > 0.5


def foreground(proportions: Tensor) -> Tensor:
    return proportions[1]


TABLE: dict[str, Row] = {
    "dice_multiclass__monai": Row("dice_multiclass"),
    "dice_loss__monai": Row("dice_multiclass", LABELS),
    "dice_multiclass_squared__monai": Row("dice_multiclass", params={"power": 2.0}),
    "dice_binary__shannon_a0.0_sq0_s1.0": Row("dice_binary", leaves=SHANNON),
    "dice_binary__shannon_a0.0_sq1_s1.0": Row("dice_binary", params={"power": 2.0}, leaves=SHANNON),
    "self_adj_dice_binary__shannon_a0.6_sq0_s1.0": Row("self_adj_dice_binary", leaves=("square_denominator",)),
    "self_adj_dice_binary__shannon_a1.0_sq1_s0.0001": Row(
        "self_adj_dice_binary", params={"power": 2.0}, leaves=("square_denominator",)
    ),
    "self_adj_dice__formula_paper": Row("self_adj_dice"),
    "self_adj_dice_all__formula_paper": Row("self_adj_dice_all"),
    "generalized_dice__monai": Row(
        "generalized_dice", LABELS | {"smooth_nr": "smooth"}, leaves=("smooth_dr", "w_type")
    ),
    "generalized_dice__monai-p1": Row("generalized_dice", leaves=("w",)),
    "generalized_dice__formula": Row("generalized_dice", LABELS, params={"smooth": 0.0}, leaves=("weight",)),
    "soft_jaccard__monai": Row("soft_jaccard_loss", LABELS),
    "jaccard_l2_norm_loss__jdtlosses": Row(
        "soft_jaccard_loss",
        LABELS,
        params={"power": 2.0, "smooth": 0.002},
        leaves=(*JDT, *TVERSKY, "smooth"),
        rtol=2e-7,
        differs="that code counts the labels of an image as the square of a norm in float32: 4 are 3.99999976",
    ),
    "focal_tversky_loss__jdtlosses": Row("focal_tversky_loss", LABELS, leaves=JDT),
    "tversky__monai_a0.3_b0.7": Row("tversky", {"alpha_fp": "alpha", "beta_fn": "beta"}),
    "lovasz_softmax__berman_present": Row("lovasz_softmax"),
    "lovasz_softmax__bermanmaxim": Row("lovasz_softmax", LABELS),
    "lovasz_softmax__berman_all": Row("lovasz_softmax", params={"classes": "every"}),
    "lovasz_softmax_all__bermanmaxim": Row("lovasz_softmax", LABELS, params={"classes": "every"}),
    "lovasz_hinge__berman": Row("lovasz_hinge"),
    "lovasz_hinge__bermanmaxim": Row("lovasz_hinge", LABELS),
    "wce_lovasz__salsanext_style": Row(
        "wce_lovasz",
        {"class_weight": "weight"},
        leaves=("ignore", "clamp"),
        differs="that code drops class 0, which no row has, and clips p at 1e-8, which none reaches",
    ),
    "heteroscedastic_softmax__formula": Row("heteroscedastic_softmax", {"mean": "mu", "var": "v"}),
    "jaccard_metric_loss_soft__jdtlosses": Row(
        "jaccard_metric_loss", {"target_probs": "target"}, params={"threshold": -1.0}, leaves=JDT
    ),
    "jaccard_metric_loss_hard__jdtlosses": Row("jaccard_metric_loss", LABELS, leaves=JDT),
    "dice_semimetric_loss_soft__jdtlosses": Row(
        "dice_semimetric_loss", {"target_probs": "target"}, leaves=(*JDT, *TVERSKY)
    ),
    "fine_grained_miou_loss__jdtlosses": Row("fine_grained_miou", LABELS | MIX, leaves=("norm", *TVERSKY)),
    "sensitivity_specificity__formula": Row("sensitivity_specificity", LABELS),
    "repri__mboudiaf": Row(
        "repri",
        REPRI,
        leaves=("eps",),
        rtol=1e-7,
        differs="that code adds 1e-10 to what a logarithm takes, here down to 0.0036",
        how=changed(bias=scalar, label=truth, valid=truth, proportion=foreground),
    ),
}

MISSING: dict[str, str] = {  # names of the catalogue that have no file yet, and why
}
