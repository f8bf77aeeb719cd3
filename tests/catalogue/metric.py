"""Golden files of the metric pack: which loss each belongs to, and what it calls by another name."""

from __future__ import annotations

from math import pi

from torch import Tensor
from torch.nn.functional import softplus

from tests.catalogue.golden import Row, changed, turned

EMB = {"emb": "x", "labels": "y"}
HEAD = {"emb": "x", "W": "w"}
FACE = {"W": "w", "labels": "target"}
PROXIES = {"emb": "x", "proxies": "w", "labels": "target"}
COLUMNS = turned(w=(1, 0))  # the file has a class in a column
WCDAS = ("pi_used", "s", "gamma")


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
    "wcdas__boranhan": Row("wcdas", FACE | {"g_raw": "g", "s_raw": "scale"}, leaves=WCDAS, how=changed(scale=learnt)),
    "wcdas_fixed_s__boranhan": Row(
        "wcdas", FACE | {"g_raw": "g", "s_raw": "scale"}, leaves=WCDAS, how=changed(scale=fixed)
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
}

MISSING: dict[str, str] = {  # names of the catalogue that have no file yet, and why
    "opl": "to do",
    "cacr": "to do",
    "cacr_detached": "to do",
    "nt_xent": "to do",
    "nt_xent_labels": "to do",
    "info_nce": "to do",
    "clip_contrastive": "to do",
    "focal_contrastive": "to do",
    "supcon": "to do",
    "supcon_single_view": "to do",
    "soft_ce_contrastive": "to do",
    "recalibrated_contrastive": "to do",
    "focal_soft_contrastive": "to do",
    "triplet_all": "to do",
    "triplet_all_soft": "to do",
    "contrastive_pair": "to do",
    "n_pairs": "to do",
    "lifted_structure": "to do",
    "multi_similarity": "to do",
    "nca": "to do",
    "angular": "to do",
    "tuplet_margin": "to do",
    "fast_ap": "to do",
    "vicreg": "to do",
    "gumbel_contrastive": "to do",
    "dimco": "to do",
    "amarx": "to do",
    "mcr2": "to do",
    "e2mc": "to do",
    "cprd": "to do",
    "tsim_diversity": "to do",
    "clip_loss": "to do",
    "softclip": "to do",
    "ntxent": "to do",
    "triplet_batch_hard": "to do",
    "matrix_entropy": "to do",
    "von_neumann_entropy": "to do",
    "repa_alignment": "to do",
    "decov": "to do",
    "byol_loss": "to do",
    "ccsl": "to do",
    "hoc_loss": "to do",
}
