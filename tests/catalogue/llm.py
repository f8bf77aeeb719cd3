"""Golden files of the llm pack: which loss each belongs to, and what it calls by another name."""

from __future__ import annotations

from torch import Tensor

from lossdsl.runtime.module import Loss
from tests.catalogue.golden import Row, plain, times

POLICY = {"policy_chosen_logps": "chosen", "policy_rejected_logps": "rejected"}
POLICY |= {"ref_chosen_logps": "ref_chosen", "ref_rejected_logps": "ref_rejected", "label_smoothing": "eps"}
TRL = ("completion_mask", "discopop_tau")


def lengths(loss: Loss, given: dict[str, Tensor]) -> Tensor:
    """The lengths of answers from their masks: those of the chosen ones first."""
    chosen, rejected = given["completion_mask"].sum(1).split(given["chosen"].shape[0])
    rest = {name: value for name, value in given.items() if name != "completion_mask"}
    return plain(loss, rest | {"len_chosen": chosen, "len_rejected": rejected})


TABLE: dict[str, Row] = {
    "dpo__eric-mitchell": Row("dpo", POLICY),
    "cdpo__eric-mitchell": Row("dpo", POLICY),
    "trl_dpo_sigmoid__trl": Row("dpo", POLICY, leaves=TRL),
    "ipo__eric-mitchell": Row("ipo", POLICY),
    "trl_dpo_ipo__trl": Row("ipo", POLICY, leaves=("label_smoothing", "discopop_tau"), how=lengths),
    "trl_dpo_hinge__trl": Row("dpo_hinge", POLICY, leaves=("label_smoothing", *TRL)),
    "trl_dpo_robust__trl": Row("dpo_robust", POLICY, leaves=TRL),
    "trl_dpo_exo_pair__trl": Row("dpo_exo_pair", POLICY, leaves=TRL),
    "trl_dpo_nca_pair__trl": Row("dpo_nca_pair", POLICY, leaves=("label_smoothing", *TRL)),
    "trl_dpo_bco_pair__trl": Row("dpo_bco_pair", POLICY, leaves=("label_smoothing", *TRL)),
    "trl_dpo_sppo_hard__trl": Row("dpo_sppo_hard", POLICY, leaves=("label_smoothing", *TRL)),
    "trl_dpo_aot__trl": Row("dpo_aot", POLICY, leaves=TRL, reduction="mean", how=times(8)),
    "trl_dpo_aot_unpaired__trl": Row("dpo_aot_unpaired", POLICY, leaves=TRL, reduction="mean", how=times(8)),
    "trl_dpo_apo_zero__trl": Row("dpo_apo_zero", POLICY, leaves=("label_smoothing", *TRL)),
    "trl_dpo_apo_down__trl": Row("dpo_apo_down", POLICY, leaves=("label_smoothing", *TRL)),
    "trl_dpo_discopop__trl": Row(
        "dpo_discopop", POLICY | {"discopop_tau": "tau"}, leaves=("label_smoothing", "completion_mask")
    ),
    "trl_dpo_sigmoid_norm__trl": Row(
        "dpo_sigmoid_norm", POLICY, leaves=("label_smoothing", "discopop_tau"), how=lengths
    ),
    "trl_dpo_f_forward_kl__trl": Row("dpo_f_forward_kl", POLICY, leaves=TRL),
    "trl_dpo_f_js_divergence__trl": Row("dpo_f_js", POLICY, leaves=TRL),
    "kto__liger-kernel": Row("kto", {"logps": "logp", "ref_logps": "ref"}),
    "kto_weighted__formula": Row(
        "kto",
        {"logps": "logp", "ref_logps": "ref", "desirable_weight": "w_desirable", "undesirable_weight": "w_undesirable"},
    ),
    "simpo__princeton-nlp": Row(
        "simpo", {"chosen_avg_logps": "chosen", "rejected_avg_logps": "rejected", "gamma_beta_ratio": "ratio"}
    ),
    "cpo__trl": Row("cpo", {"chosen_logps": "chosen", "rejected_logps": "rejected"}, leaves=("simpo_gamma",)),
    "alphapo__trl": Row("alphapo", {"chosen_logps": "chosen", "rejected_logps": "rejected", "simpo_gamma": "gamma"}),
    "orpo_or_term__trl": Row("orpo", {"chosen_avg_logps": "chosen", "rejected_avg_logps": "rejected"}, {"nll": 0.0}),
    "reward_model_bt__formula": Row("reward_model_bt"),
}

MISSING: dict[str, str] = {  # names of the catalogue that have no file yet, and why
    "mixce": "to do",
    "cvar_ce": "to do",
    "feature_matching_pg": "to do",
    "dco": "to do",
    "rlcd_pg": "to do",
    "sac_actor": "to do",
    "sac_critic": "to do",
    "sac_temperature": "to do",
    "ce_u": "to do",
    "gradient_ascent_unlearning": "to do",
    "npo": "to do",
    "simnpo": "to do",
    "undial": "to do",
    "wga": "to do",
    "satimp": "to do",
    "pdu_forget": "to do",
    "quantile_advantage_pg": "to do",
    "grpo": "to do",
    "bnpo": "to do",
    "dapo": "to do",
    "dr_grpo": "to do",
    "gspo": "to do",
    "cispo": "to do",
    "sapo": "to do",
    "vespo": "to do",
    "grpo_two_sided": "to do",
    "luspo": "to do",
    "generalized_jsd": "to do",
    "soft_clamp": "to do",
    "synib": "to do",
    "contrastive_token": "to do",
    "unlikelihood_token": "to do",
    "emo1": "to do",
    "emo2": "to do",
    "gem": "to do",
    "eisl": "to do",
    "masked_diffusion_lm": "to do",
    "ppo_clip": "to do",
}
