"""Other people's cross-entropies as `lossdsl bench --against` calls them: each takes (logits, target), or with a head
(hidden, weight, target), and gives the mean. What isn't installed is an ImportError."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def rival(name: str, headed: bool) -> Callable[..., Any]:
    """The function behind a short name, or behind MODULE:FUNCTION; ImportError, AttributeError or ValueError for one
    that isn't there."""
    if name in RIVALS:
        return RIVALS[name](headed)
    module, _, attribute = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), attribute)
    return found


def label(name: str) -> str:
    """What a report calls it."""
    return name.rpartition(":")[2]


def _torch(headed: bool) -> Callable[..., Any]:
    """torch's own, in 2.12 and later fused with the product."""
    from torch.nn import functional

    if not headed:
        return functional.cross_entropy
    found: Callable[..., Any] | None = getattr(functional, "linear_cross_entropy", None)
    if found is None:
        raise ImportError("this torch has no torch.nn.functional.linear_cross_entropy")
    return found


def _liger(headed: bool) -> Callable[..., Any]:
    """Liger-Kernel's, whose fused form takes the weight first."""
    module = import_module("liger_kernel.transformers")
    if not headed:
        plain: Callable[..., Any] = module.LigerCrossEntropyLoss()
        return plain
    fused = module.LigerFusedLinearCrossEntropyLoss()
    return lambda hidden, weight, target: fused(weight, hidden, target)


def _cut(headed: bool) -> Callable[..., Any]:
    """Apple's Cut Cross-Entropy, which is only of a product."""
    if not headed:
        raise ValueError("cut_cross_entropy takes hidden states: say --head linear")
    found: Callable[..., Any] = import_module("cut_cross_entropy").linear_cross_entropy
    return found


def _quack(headed: bool) -> Callable[..., Any]:
    """QuACK's, which reduces only where it is told to."""
    if headed:
        chunked = import_module("quack.linear_cross_entropy").chunked_linear_cross_entropy
        return lambda hidden, weight, target: chunked(hidden, weight, target, reduction="mean")
    plain = import_module("quack.cross_entropy").cross_entropy
    return lambda logits, target: plain(logits, target, reduction="mean")


RIVALS = {"linear_cross_entropy": _torch, "liger": _liger, "cut_cross_entropy": _cut, "quack": _quack}
