"""The Graph's text: golden for two small losses, and the same whenever the loss is lowered."""

from __future__ import annotations

from lossdsl.ir.dump import dump
from lossdsl.ir.lower import lower
from tests.ir.compiled import REGISTRY, checked

CROSS_ENTROPY = """loss cross_entropy
input logits[N, C]
input target[N]: index C
return -log(softmax[C](logits)[target])
"""
GOLDEN = """graph cross_entropy
axes N, C; batch N
input logits[N, C]: real, differentiable
input target[N]: index C
param @ignore_index: int
%0 = leaf[logits]                            : real[N, C]
%1 = leaf[target]                            : index C[N]
%2 = leaf[@ignore_index]                     : int
%3 = eq(%1, %2)                              : bool[N]
%4 = const[0]                                : int
%5 = select(%3, %4, %1)                      : int[N]
%6 = select(%3, %4, %0)                      : real[N, C]
%7 = logp[(C)](%6)                           : real[N, C]
%8 = pick[(C)](%7, %5)                       : real[N]
%9 = neg(%8)                                 : real[N]
%10 = select(%3, %4, %9)                     : real[N]
%11 = const[1]                               : int
%12 = select(%3, %4, %11)                    : int[N]
rows = %10
weight = %12
"""


def test_golden() -> None:
    assert dump(lower(checked(CROSS_ENTROPY), REGISTRY)) == GOLDEN


def test_log_softmax_and_logsumexp_are_the_same_graph() -> None:
    for returned in ("-log_softmax[C](logits)[target]", "logsumexp[C](logits) - logits[target]"):
        text = CROSS_ENTROPY.rsplit("return", 1)[0] + f"return {returned}\n"
        assert dump(lower(checked(text), REGISTRY)).splitlines()[5:] == GOLDEN.splitlines()[5:]
