"""Golden files of the info pack: which loss each belongs to, and what it calls by another name."""

from __future__ import annotations

from tests.catalogue.golden import Row, plain

SCORES = {"scores": "f"}
TABLE: dict[str, Row] = {
    "tent_entropy__dequanwang-tent": Row("tent_entropy"),
    "tent_entropy__mpmath-stress": Row("tent_entropy", leaves=("labels",)),
    "wdm_dual__formula": Row("wdm_dual", SCORES),
    "flow_nll__formula": Row("flow_nll"),
    "stochastic_flow_kl__formula": Row("stochastic_flow_kl", {"dS": "ds"}),
    "rate_distortion__formula": Row("rate_distortion", {"lmbda": "lam", "likelihoods": "likelihood"}),
    "fnf_symmetric_kl__formula": Row(
        "fair_normalizing_flow", {"logp1_z1": "own1", "logp2_z1": "other1", "logp1_z2": "other2", "logp2_z2": "own2"}
    ),
    "dependent_flow_nll__formula": Row("dependent_flow_nll", {"logdet": "ld"}),
    "attention_entropy_regularizer__nandan91": Row(
        "attention_entropy_regularizer", {"attn": "a", "threshold": "theta"}, leaves=("loss_coeff",), reduction="sum"
    ),
    "renyi_entropy__formula": Row("renyi_entropy"),
    "gini_simpson__formula": Row("gini_simpson"),
    "tsallis_entropy__jinx630": Row("tsallis_entropy"),
    "tsallis_entropy__mpmath-stress": Row("tsallis_entropy", leaves=("labels",)),
    "adaptive_debiased_tsallis_entropy__jinx630": Row("adaptive_debiased_tsallis"),
    "mine_ema_surrogate__formula": Row("mine", SCORES),
    "mine_lower_bound__ermongroup": Row("mine_lower_bound", SCORES),
    "soft_token_entropy_bonus__formula": Row("information_maximisation"),
    "gan_hinge_d__formula": Row("gan_hinge_d"),
    "gan_hinge_g__formula": Row("gan_hinge_g", how=lambda f, x: plain(f, {"fake": x["fake"]})),
    "gan_nonsaturating_d__formula": Row("gan_nonsaturating_d"),
    "infonce_bound__ermongroup": Row("infonce_bound", SCORES),
    "nwj_bound__ermongroup": Row("nwj_bound", SCORES),
    "js_fgan_bound__ermongroup": Row("js_fgan_bound", SCORES),
    "js_nwj_bound__ermongroup": Row("js_nwj_bound", SCORES),
    "smile_bound__ermongroup": Row("smile_bound", {**SCORES, "clip": "tau"}),
    "donsker_varadhan_bound__ermongroup": Row("dv_bound", SCORES),
    "range_partition_entropy__formula": Row("range_partition_entropy", {"X": "x", "anchors": "anchor"}),
    "black_box_brier__formula": Row("black_box_proper", {"model_counts": "m", "target_counts": "t"}),
}

MISSING: dict[str, str] = {  # names of the catalogue that have no file yet, and why
}
