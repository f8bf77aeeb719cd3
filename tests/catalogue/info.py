"""Golden files of the info pack: which loss each belongs to, and what it calls by another name."""

from __future__ import annotations

from tests.catalogue.golden import Row

TABLE: dict[str, Row] = {
    "tent_entropy__dequanwang-tent": Row("tent_entropy"),
    "tent_entropy__mpmath-stress": Row("tent_entropy", leaves=("labels",)),
}

MISSING: dict[str, str] = {  # names of the catalogue that have no file yet, and why
    "wasserstein_dependency_measure": "to do",
    "flow_nll": "to do",
    "stochastic_flow_kl": "to do",
    "treet_dv": "to do",
    "rate_distortion": "to do",
    "fair_normalizing_flow": "to do",
    "dependent_flow_nll": "to do",
    "attention_entropy_regularizer": "to do",
    "renyi_entropy": "to do",
    "gini_simpson": "to do",
    "mine": "to do",
    "information_maximisation": "to do",
    "gan_hinge_d": "to do",
    "gan_hinge_g": "to do",
    "gan_nonsaturating_d": "to do",
    "tsallis_entropy": "to do",
    "adaptive_debiased_tsallis": "to do",
    "infonce_bound": "to do",
    "nwj_bound": "to do",
    "js_fgan_bound": "to do",
    "js_nwj_bound": "to do",
    "smile_bound": "to do",
    "dv_bound": "to do",
    "snne": "to do",
    "range_partition_entropy": "to do",
    "black_box_proper": "to do",
    "entropy_sgd_proximal": "to do",
}
