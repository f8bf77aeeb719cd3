"""Golden files of the llm pack: which loss each belongs to, and what it calls by another name."""

from __future__ import annotations

from torch import Tensor, stack
from torch.nn.functional import pad

from lossdsl.runtime.module import Loss
from tests.catalogue.golden import Row, as_bool, plain, times

POLICY = {"policy_chosen_logps": "chosen", "policy_rejected_logps": "rejected"}
POLICY |= {"ref_chosen_logps": "ref_chosen", "ref_rejected_logps": "ref_rejected", "label_smoothing": "eps"}
TRL = ("completion_mask", "discopop_tau")

GRPO = {"logps": "logp", "old_logps": "old", "ref_logps": "ref", "advantages": "adv"}
GRPO |= {"epsilon_low": "eps_low", "epsilon_high": "eps_high"}
LIGER = ("loss_type", "beta", "ref_logps", "importance_sampling_level")
UNLEARN = {"labels": "target", "ref_logits": "ref"}
DISTIL = {"student_logits": "student", "teacher_logits": "teacher", "temperature": "t"}
RANGE = ("epsilon_low", "epsilon_high")


def lengths(loss: Loss, given: dict[str, Tensor]) -> Tensor:
    """The lengths of answers from their masks: those of the chosen ones first."""
    chosen, rejected = given["completion_mask"].sum(1).split(given["chosen"].shape[0])
    rest = {name: value for name, value in given.items() if name != "completion_mask"}
    return plain(loss, rest | {"len_chosen": chosen, "len_rejected": rejected})


def masked(loss: Loss, given: dict[str, Tensor]) -> Tensor:
    """What the file has for each of two masked modalities, along one axis."""
    stacked = {
        "mu": ("mask0_mu", "mask1_mu"),
        "logvar": ("mask0_logvar", "mask1_logvar"),
        "evidence": ("ev0", "ev1"),
    }
    found = {to: stack([given[name] for name in names]) for to, names in stacked.items() if names[0] in given}
    return plain(loss, found | {"logits": given["logits"], "target": given["target"]})


def active(loss: Loss, given: dict[str, Tensor]) -> Tensor:
    """No class of these files is masked, and their noise is scaled already."""
    return plain(loss, given | {"active": given["target"] >= 0, "noise": given["noise"] / loss.sigma})


def padded(loss: Loss, given: dict[str, Tensor]) -> Tensor:
    """Noise for the places where an n-gram fits, filled up to all places."""
    size = given["logits"].shape[1]
    noise = {name: pad(given[name], 2 * (0, size - given[name].shape[1])) for name in ("noise2", "noise3")}
    return plain(loss, given | noise)


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
    "trl_dpo_aot__trl": Row(
        "dpo_aot", POLICY, leaves=TRL, reduction="mean", how=times(8), differs="the file sums the 8 pairs"
    ),
    "trl_dpo_aot_unpaired__trl": Row(
        "dpo_aot_unpaired", POLICY, leaves=TRL, reduction="mean", how=times(8), differs="the file sums the 8 pairs"
    ),
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
    "grpo__liger-kernel": Row("grpo", GRPO, leaves=("loss_type",), how=as_bool("mask")),
    "bnpo__liger-kernel": Row("bnpo", GRPO, leaves=LIGER, how=as_bool("mask")),
    "dapo__liger-kernel": Row("dapo", GRPO, leaves=LIGER, how=as_bool("mask")),
    "dr_grpo__liger-kernel": Row(
        "dr_grpo", GRPO | {"max_completion_length": "length"}, leaves=LIGER, how=as_bool("mask")
    ),
    "gspo__liger-kernel": Row("gspo", GRPO, leaves=LIGER, how=as_bool("mask")),
    # An absolute cap on the ratio under the name of epsilon_high.
    "cispo__liger-kernel": Row(
        "cispo", GRPO | {"epsilon_high": "cap"}, leaves=("epsilon_low", *LIGER), how=as_bool("mask")
    ),
    "sapo__liger-kernel": Row("sapo", GRPO, leaves=(*RANGE, *LIGER), how=as_bool("mask")),
    "vespo__liger-kernel": Row("vespo", GRPO, leaves=(*RANGE, *LIGER), how=as_bool("mask")),
    "grpo_two_sided__liger-kernel": Row("grpo_two_sided", GRPO, leaves=LIGER, how=as_bool("mask")),
    "quantile_advantage_pg__formula": Row(
        "quantile_advantage_pg", {"logps": "logp", "rewards": "reward", "K": "k"}, aux={"advantage": "advantage"}
    ),
    "ppo_clip__formula": Row(
        "ppo_clip",
        {
            "logps": "logp",
            "old_logps": "old",
            "values": "v",
            "old_values": "old_v",
            "returns": "target",
            "clip": "eps",
            "vf_coef": "c_v",
            "ent_coef": "c_entropy",
            "vf_clip": "clip_v",
        },
    ),
    "sac_actor__formula": Row("sac_actor"),
    "sac_discrete_actor__formula": Row("sac_discrete_actor"),
    "sac_critic__formula": Row("sac_critic"),
    "sac_temperature__formula": Row("sac_temperature"),
    "ce_u__open-unlearning": Row("ce_u", UNLEARN),
    "gradient_ascent__formula": Row("gradient_ascent_unlearning", UNLEARN),
    "npo__open-unlearning": Row("npo", UNLEARN),
    "simnpo__open-unlearning": Row("simnpo", UNLEARN),
    "undial__open-unlearning": Row("undial", UNLEARN),
    "wga__open-unlearning": Row("wga", UNLEARN),
    "satimp__open-unlearning": Row("satimp", UNLEARN),
    "pdu_forget__formula": Row("pdu_forget"),
    "mixce__formula_eta0.5": Row("mixce"),
    "mixce__formula_eta0.1": Row("mixce"),
    "cvar_ce__formula_alpha0.3": Row("cvar_ce"),
    "feature_matching_pg__formula": Row("feature_matching_pg", {"phi_star": "star", "seq_logp": "logp"}),
    "dco_n8__formula": Row("dco", {"labels": "target", "N": "n"}),
    "dco_n256__formula": Row("dco", {"labels": "target", "N": "n"}),
    "dco_n8__mpmath-stress": Row("dco", {"labels": "target", "N": "n"}),
    "dco_n256__mpmath-stress": Row("dco", {"labels": "target", "N": "n"}),
    "dco_sequence__formula": Row("dco_sequence", {"tok_logps": "logp", "N": "n"}),
    "generalized_jsd_b00__trl": Row("generalized_jsd", DISTIL),
    "generalized_jsd_b01__trl": Row("generalized_jsd", DISTIL),
    "generalized_jsd_b05__trl": Row("generalized_jsd", DISTIL),
    "generalized_jsd_b10__trl": Row("generalized_jsd", DISTIL),
    "generalized_jsd_b05__mpmath-stress": Row("generalized_jsd", DISTIL | {"logits": "student"}, leaves=("labels",)),
    "soft_clamp_jsd__formula": Row("soft_clamp", DISTIL, leaves=("k_paper",), aux={"d": "d", "C": "cap"}),
    "masked_diffusion_lm__formula": Row("masked_diffusion_lm", {"labels": "target"}, how=as_bool("masked")),
    "unlikelihood_token__facebookresearch": Row(
        "unlikelihood_token", {"labels": "target", "rank_alpha": "alpha", "clamp_min": "tiny", "padding_idx": "pad"}
    ),
    "contrastive_token__ct-loss": Row(
        "contrastive_token", {"labels": "target", "ct_length": "ct", "preced_m_negatives": "prec", "pad_id": "pad"}
    ),
    "emo1__drsy-emo": Row("emo1", {"labels": "target", "E": "e"}, leaves=("cost",)),
    "emo2__drsy-emo": Row("emo2", {"labels": "target", "E": "e"}, leaves=("cost",)),
    "gem_linear__liziniu-gem": Row("gem", {"labels": "target"}, leaves=("h",)),
    "gem_logsigmoid__liziniu-gem": Row("gem", {"labels": "target"}),
    "synib_gaussian__kkontras": Row("synib_gaussian", {"labels": "target"}, leaves=("prior",), how=masked),
    "synib_dirichlet__kkontras": Row(
        "synib_dirichlet", {"labels": "target"}, leaves=("prior_conc", "alpha"), how=masked
    ),
    "synib_unimodal_anchor__kkontras": Row(
        "synib_unimodal_anchor", {"masked_logits": "masked", "unimodal_logits": "unimodal"}, leaves=("weight",)
    ),
    "rlcd_pg_norm__formula": Row("rlcd_pg", {"eps": "noise"}, leaves=("G", "w_sph", "w_rps"), how=active),
    "rlcd_pg_loo__formula": Row(
        "rlcd_pg", {"eps": "noise"}, {"baseline": "leave_one_out"}, leaves=("G", "w_sph", "w_rps"), how=active
    ),
    "rlcd_reparam__formula": Row("rlcd_reparam", {"eps": "noise"}, leaves=("G",), how=active),
    "eisl__guangyliu": Row("eisl", {"labels": "target", "floor": "log_floor"}, leaves=("ngrams",), how=padded),
    "eisl_no_noise__guangyliu": Row("eisl", {"labels": "target", "floor": "log_floor"}, leaves=("ngrams",), how=padded),
    "unlikelihood_single__mpmath-stress": Row("unlikelihood", {"labels": "target"}),
    "hard_clip_jsd__formula": Row("hard_clip_jsd", DISTIL),
}

MISSING: dict[str, str] = {  # names of the catalogue that have no file yet, and why
}
