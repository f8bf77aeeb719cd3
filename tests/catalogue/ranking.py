"""Golden files of the ranking pack: which loss each belongs to, and what it calls by another name."""

from __future__ import annotations

import torch
from torch import Tensor

from lossdsl.runtime.module import Loss
from tests.catalogue.golden import Row, plain

LABELS = {"multilabel": "target"}
LIST = {"scores": "s", "relevance": "r"}
COCO = {"probs": "p", "solutions": "solution", "values": "cost", "temperature": "t", "weight_norm": "scale"}
PSL = ("activation", "method")
PAD = ("eps", "pad")
LAMBDA = ("eps", "log")


def first(loss: Loss, given: dict[str, Tensor]) -> Tensor:
    """The first entry of each list is the relevant one."""
    r = torch.zeros_like(given["s"])
    r[:, 0] = 1
    return plain(loss, given | {"r": r})


TABLE: dict[str, Row] = {
    "bpr__official": Row("bpr"),
    "decoupled_softmax__dexml": Row("decoupled_softmax", LABELS),
    "soft_topk__dexml_K3_alpha5": Row("soft_topk", LABELS | {"K": "k"}, leaves=("n_iter",)),
    "xmc_softmax_all__dexml": Row("xmc_softmax_all", LABELS),
    "xmc_bce__dexml": Row("xmc_bce", LABELS),
    "softmax_loss_rec__official": Row("softmax_loss_rec"),
    "psl__official_tanh_method1": Row("psl", leaves=PSL),
    "psl__official_relu_method1": Row("psl", params={"act": "hinge"}, leaves=PSL),
    "psl__official_atan_method1": Row("psl", params={"act": "atan"}, leaves=PSL),
    "psl__official_tanh_method2": Row("psl_batch", leaves=PSL),
    "bsl__official": Row("bsl"),
    "sl_at_k__official": Row("sl_at_k", inputs=("beta",)),
    "ranking_softmax__optax": Row("ranking_softmax", {"logits": "s", "labels": "r"}),
    "pld__formula_paper": Row("pld", {"T": "t"}),
    "list_mle__formula_teacher_order": Row("list_mle"),
    "listmle__allrank": Row("listmle", LIST, leaves=PAD),
    "listnet__allrank": Row(
        "listnet", LIST, leaves=PAD, rtol=1e-8, differs="that code adds 1e-10 to the softmax of the scores"
    ),
    "listnet_binary__allrank": Row(
        "listnet",
        LIST,
        params={"aim": "share"},
        leaves=PAD,
        rtol=1e-8,
        differs="that code adds 1e-10 to the softmax of the scores",
    ),
    "rerank_listwise_ce__formula": Row("ranking_softmax", LIST, how=first),
    "ranknet__allrank": Row("ranknet", LIST, leaves=PAD),
    "ranknet_gtdiff__allrank": Row("ranknet", LIST, params={"weight": "gap"}, leaves=PAD),
    "rerank_pairwise_logistic__formula": Row("ranknet", LIST, how=first),
    "lambda_loss_lambdarank__allrank": Row(
        "lambda_loss", LIST, params={"scheme": "lambdarank"}, leaves=LAMBDA, reduction="sum"
    ),
    "lambda_loss_ndcgloss2__allrank": Row(
        "lambda_loss", LIST, params={"scheme": "ndcg2"}, leaves=LAMBDA, reduction="sum"
    ),
    "lambda_loss_ndcgloss2pp__allrank": Row("lambda_loss", LIST, leaves=LAMBDA, reduction="sum"),
    "lambda_loss_ranknet__allrank": Row("lambda_loss", LIST, params={"scheme": "even"}, leaves=LAMBDA, reduction="sum"),
    "lambda_loss_ndcgloss1__allrank": Row("lambda_loss_ndcg1", LIST, leaves=(*LAMBDA, "mu"), reduction="sum"),
    "approx_ndcg__allrank": Row("approx_ndcg", LIST, leaves=PAD),
    "pointwise_rmse__allrank": Row("pointwise_rmse", LIST | {"no_of_levels": "levels"}, leaves=("pad",)),
    "rerank_pointwise_bce__formula": Row("rerank_pointwise_bce", LIST),
    "coco_milp_vcl__formula": Row("coco_milp_vcl", COCO),
    "rce_kd__woriazzc": Row(
        "rce_kd",
        {"student_logits": "student", "teacher_logits": "teacher"},
        rtol=1e-7,
        reduction="sum",
        differs="that code has masks and epsilons of its own",
    ),
    "mw_loss__formula": Row("mw_loss"),
}

MISSING: dict[str, str] = {  # names of the catalogue that have no file yet, and why
}
