"""Golden files of the ranking pack: which loss each belongs to, and what it calls by another name."""

from __future__ import annotations

from tests.catalogue.golden import Row

TABLE: dict[str, Row] = {}

MISSING: dict[str, str] = {  # names of the catalogue that have no file yet, and why
    "decoupled_softmax": "to do",
    "soft_topk": "to do",
    "xmc_softmax_all": "to do",
    "xmc_bce": "to do",
    "softmax_loss_rec": "to do",
    "psl": "to do",
    "bsl": "to do",
    "sl_at_k": "to do",
    "ranking_softmax": "to do",
    "pld": "to do",
    "list_mle": "to do",
    "coco_milp_vcl": "to do",
    "rce_kd": "to do",
    "mw_loss": "to do",
    "rerank_pointwise_bce": "to do",
    "ranknet": "to do",
    "lambda_loss": "to do",
    "listnet": "to do",
    "listmle": "to do",
    "approx_ndcg": "to do",
    "pointwise_rmse": "to do",
}
