"""Golden files of the metric pack: which loss each belongs to, and what it calls by another name."""

from __future__ import annotations

from math import pi

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lossdsl.runtime.module import Loss
from tests.catalogue.golden import Row, as_bool, changed, plain, times, turned

EMB = {"emb": "x", "labels": "y"}
HEAD = {"emb": "x", "W": "w"}
FACE = {"W": "w", "labels": "target"}
PROXIES = {"emb": "x", "proxies": "w", "labels": "target"}
PAIRS = {"img": "image", "txt": "text", "labels": "y"}
COLUMNS = turned(w=(1, 0))  # the file has a class in a column
WCDAS = ("pi_used", "s", "gamma")


def views(loss: Loss, given: dict[str, Tensor]) -> Tensor:
    """Two views of a row as one input."""
    return plain(loss, {"z": torch.stack([given["z1"], given["z2"]], 1)})


def stacked(loss: Loss, given: dict[str, Tensor]) -> Tensor:
    """Two views of a row as rows of one label."""
    both = plain(loss, {"z": torch.cat([given["z1"], given["z2"]]), "y": torch.cat([given["y"]] * 2)})
    return 0.1 / 0.07 * both


def two_of_three(loss: Loss, given: dict[str, Tensor]) -> Tensor:
    """Two rows of each of three sets, in turn."""
    return plain(loss, given | {"y": torch.tensor([0, 1, 2, 0, 1, 2])})


def learnt(raw: Tensor) -> Tensor:
    """The scale of that code, which writes 3.14 for pi."""
    return (softplus(raw) + 1).reshape(()) * pi / 3.14


def fixed(raw: Tensor) -> Tensor:
    return 250 * pi / 3.14 + 0 * raw.reshape(())


TABLE: dict[str, Row] = {
    "triplet_margin__torch": Row("triplet_margin"),
    "circle_pair__pml_m0.25_g8.0": Row("circle_pair", EMB),
    "circle_pair__pml_m0.4_g80.0": Row("circle_pair", EMB),
    "circle_pair__fastreid": Row("circle_pair", EMB),
    "circle_pair__pml_avgnonzero": Row("circle_pair", EMB, params={"rows": "active"}),
    "circle_loss_batch__pytorch-metric-learning": Row("circle_pair", EMB),
    "circle_pair_batch__tinyzeamays": Row("circle_pair_batch", EMB),
    "circle_loss__tinyzeamays": Row("circle_loss", {"sp": "positive", "sn": "negative"}),
    "circle_class__fastreid_m0.25_s32": Row("circle_class"),
    "arcface__pytorch-metric-learning": Row("arcface", FACE),
    "arcface__pml_W": Row("arcface", HEAD, how=COLUMNS),
    "arcface__insightface": Row("combined_margin", FACE | {"m": "m2"}),
    "combined_margin_m2__insightface": Row("combined_margin", FACE),
    "combined_margin_filter__insightface": Row("combined_margin", FACE | {"interclass_filtering_threshold": "cut"}),
    "arcface_cosine__fastreid": Row("arcface_cosine"),
    "arcface_straight_through__insightface": Row("arcface_straight_through"),
    "cosface__insightface": Row("cosface", FACE),
    "cosface__pml_W": Row("cosface", HEAD, how=COLUMNS),
    "cosface__pytorch-metric-learning": Row("cosface", FACE),
    "cosface_cosine__fastreid": Row("cosface_cosine"),
    "sphereface__pml_W_m4": Row("sphereface", HEAD, leaves=("scale",), how=COLUMNS),
    "l_softmax__pml_W_m3": Row("l_softmax", HEAD, how=COLUMNS),
    "normalized_softmax__pml": Row("normalized_softmax", HEAD, how=COLUMNS),
    "cosine_softmax_ce__formula": Row("cosine_softmax_ce", FACE | {"g": "scale"}),
    "distarc__official_objects": Row(
        "distarc", HEAD | {"k_ang": "k_angle", "k_dist": "k_distance"}, inputs=("radius",), how=COLUMNS
    ),
    "partial_fc_cosface__insightface": Row("partial_fc", FACE),
    "madacos__bassyess-cfcd": Row("madacos", FACE, leaves=("method_B",)),
    "wcdas__boranhan": Row(
        "wcdas",
        FACE | {"g_raw": "g", "s_raw": "scale"},
        leaves=WCDAS,
        how=changed(scale=learnt),
        differs="that code writes 3.14 for pi",
    ),
    "wcdas_fixed_s__boranhan": Row(
        "wcdas",
        FACE | {"g_raw": "g", "s_raw": "scale"},
        leaves=WCDAS,
        how=changed(scale=fixed),
        differs="that code writes 3.14 for pi",
    ),
    "dsimplex_ce__miccunifi": Row("dsimplex_ce", FACE, leaves=("num_classes",)),
    "proxy_nca__pml_softmax": Row("proxy_nca", PROXIES),
    "proxy_anchor__pml": Row("proxy_anchor", PROXIES | {"margin": "m"}),
    "harmonic_loss__grow-crystals": Row("harmonic_loss", FACE, leaves=("distance",)),
    "harmonic_euclidean__maxwellmg": Row("harmonic_euclidean", FACE, leaves=("eps",)),
    "harmonic_manhattan__maxwellmg": Row("harmonic_manhattan", FACE, leaves=("eps",)),
    "harmonic_cosine__maxwellmg": Row("harmonic_cosine", FACE, leaves=("eps",)),
    "harmonic_minkowski__maxwellmg": Row("harmonic_minkowski", FACE, leaves=("eps",)),
    "harmonic_chebyshev__maxwellmg": Row("harmonic_chebyshev", FACE, leaves=("eps", "smooth")),
    "harmonic_canberra__maxwellmg": Row("harmonic_canberra", FACE, leaves=("eps",)),
    "harmonic_bray_curtis__maxwellmg": Row("harmonic_bray_curtis", FACE, leaves=("eps", "variant")),
    "harmonic_hamming_soft__maxwellmg": Row("harmonic_hamming_soft", FACE, leaves=("eps",)),
    "harmonic_mahalanobis_diag__maxwellmg": Row("harmonic_mahalanobis", FACE, leaves=("eps", "variant")),
    "opl__official_gamma0.5": Row(
        "opl", EMB, leaves=("eps",), rtol=1e-6, differs="that code adds 1e-6 to both counts, here of 8 or more pairs"
    ),
    "opl__official_gamma2.0": Row(
        "opl", EMB, leaves=("eps",), rtol=1e-6, differs="that code adds 1e-6 to both counts, here of 8 or more pairs"
    ),
    "cacr__official_small_scale": Row("cacr", {"views": "v"}),
    "cacr_detached__formula": Row("cacr_detached", {"views": "v"}),
    "nt_xent__supcontrast_simclr": Row("nt_xent", how=views),
    "nt_xent_labels__pml": Row("nt_xent_labels", EMB),
    "ntxent__pytorch-metric-learning": Row("ntxent", EMB | {"temperature": "tau"}),
    "info_nce__formula_tau0.1": Row("info_nce"),
    "clip_contrastive__sparsecbm": Row("clip_contrastive"),
    "clip_loss__formula": Row("clip_loss", PAIRS | {"logit_scale": "scale"}),
    "focal_contrastive__rovit_a0.25_g2.0": Row("focal_contrastive", {"logits": "sim"}, reduction="sum"),
    "focal_contrastive__rovit_a0.5_g1.0": Row("focal_contrastive", {"logits": "sim"}),
    "supcon__supcontrast": Row(
        "supcon",
        {"labels": "y"},
        leaves=("base_tau",),
        how=stacked,
        differs="that code multiplies by tau over a second temperature of 0.07",
    ),
    "supcon_rmt__formula": Row("supcon", {"feat": "z", "temperature": "tau"}, how=two_of_three),
    "supcon_single_view__pml": Row("supcon_single_view", EMB | {"emb": "z"}),
    "soft_ce_contrastive__recalcon": Row("soft_ce_contrastive", PAIRS),
    "recalibrated_contrastive__recalcon": Row("recalibrated_contrastive", PAIRS),
    "focal_soft_contrastive__recalcon": Row("focal_soft_contrastive", PAIRS),
    "triplet_all__pml_m0.2": Row("triplet_all", EMB),
    "triplet_all__pml_avgnonzero": Row("triplet_all", EMB, params={"triplets": "active"}),
    "triplet_all_soft__pml": Row("triplet_all_soft", EMB),
    "triplet_batch_hard__pytorch-metric-learning": Row("triplet_batch_hard", EMB, leaves=("distance",)),
    "contrastive_pair__pml": Row("contrastive_pair", EMB),
    "n_pairs__pml": Row("n_pairs", EMB),
    "lifted_structure__pml": Row("lifted_structure", EMB | {"neg_margin": "margin"}, leaves=("pos_margin",)),
    "multi_similarity__pml": Row("multi_similarity", EMB),
    "nca__pml": Row("nca", EMB | {"softmax_scale": "scale"}),
    "angular__pml": Row("angular", EMB | {"alpha_deg": "alpha"}),
    "tuplet_margin__pml": Row("tuplet_margin", EMB | {"margin_deg": "slack", "scale": "s"}),
    "fast_ap__pml": Row("fast_ap", EMB, params={"edges": 11}, leaves=("num_bins",)),
    "siglip__formula": Row("siglip"),
    "barlow_twins__formula": Row("barlow_twins"),
    "vicreg__pml": Row("vicreg", {"z1": "a", "z2": "b", "invariance": "inv", "variance": "v", "covariance": "c"}),
    "gumbel_contrastive__sparsecbm_tau0.7": Row("gumbel_contrastive", {"noise0": "g0", "noise1": "g1"}),
    "dimco__formula_lam0.5": Row("dimco", {"code_logits": "code", "labels": "y"}),
    "amarx__formula_lam0.3": Row("amarx", {"W": "w", "mean": "mu"}, how=as_bool("old")),
    "mcr2__ryanchankh-mcr2": Row(
        "mcr2",
        rtol=1e-8,
        names={"Z": "z", "num_classes": "classes"},
        leaves=("gam1", "gam2"),
        differs="that code adds 1e-8 to each class's count",
    ),
    "e2mc_hypercube__formula": Row("e2mc", {"Z": "x"}, leaves=("m",)),
    "e2mc_hypersphere__formula": Row("e2mc", {"Z": "x"}, params={"cdf": "gauss"}, leaves=("m",)),
    "cprd__formula": Row("cprd", {"n_valid": "valid"}),
    "tsim_diversity_loss__ambroiseodt": Row(
        "tsim_diversity", how=times(-1), differs="the file holds the diversity, the loss is minus it"
    ),
    "softclip__formula": Row("softclip", PAIRS),
    "matrix_entropy__formula": Row("matrix_entropy", {"H": "x"}),
    "von_neumann_entropy__jaeill-vne": Row("von_neumann_entropy", {"H": "x"}),
    "repa_alignment__formula": Row("repa_alignment"),
    "decov__formula": Row("decov"),
    "byol__formula": Row("byol_loss"),
    "ccsl_reconstructed__formula": Row("ccsl"),
    "hoc_loss__miccunifi": Row("hoc_loss", {"feat_new": "new", "feat_old": "old", "labels": "y"}),
}

MISSING: dict[str, str] = {  # names of the catalogue that have no file yet, and why
}
