"""The language, sentence by sentence: each case is a few lines of a file against the same mathematics typed in torch.

Value and gradients are those of the module of the torch backend, in float64, against torch's autograd; tensors are
drawn anew for each case. The quick suite draws a sample, `make test-all` runs all of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax, normalize, one_hot, relu

import lossdsl
from tests.losses import FULL

HEAD = "loss t\ninput x[N, C]\ninput y[N]: index C\n"
PAIRS = "loss t\ninput x[N, D]\ninput y[N]: label\n"
INF = float("inf")
FIXED = ("q", "r", "w")  # names that stand for inputs without a gradient


@dataclass(frozen=True)
class Case:
    """Lines behind a head, and what they are worth; `more` are inputs besides x and y, `how` the call's keywords."""

    lines: str
    worth: Callable[..., Tensor]
    head: str = HEAD
    more: dict[str, Tensor] = field(default_factory=dict)
    how: dict[str, Any] = field(default_factory=dict)


def draw(seed: int) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return {
        "x": torch.randn(5, 3, generator=g, dtype=torch.float64),
        "y": torch.randint(0, 3, (5,), generator=g),
    }


def real(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def hot(y: Tensor, n: int = 3) -> Tensor:
    return one_hot(y, n).double()


def at(x: Tensor, y: Tensor) -> Tensor:
    return x.gather(-1, y[..., None])[..., 0]


EYE = torch.eye(5, dtype=torch.bool)
MASK = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0]], dtype=torch.bool)
FULLER = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1], [0, 1, 0]], dtype=torch.bool)
SOME = torch.tensor([True, False, True, True, False])


def same(y: Tensor) -> Tensor:
    return (y[:, None] == y[None]) & ~EYE


CASES: dict[str, Case] = {
    # 1. the shape of a file
    "a statement goes on inside brackets": Case("return sum[C](\n  x\n  * x\n)", lambda x, y: (x * x).sum(1).mean()),
    "and after an operator": Case("return sum[C](x) +\n  1", lambda x, y: x.sum(1).mean() + 1),
    "and before an operator": Case("return sum[C](x)\n  + 1", lambda x, y: x.sum(1).mean() + 1),
    "and before then and else": Case(
        "return sum[C](if x > 0\n  then x\n  else 2 * x)", lambda x, y: torch.where(x > 0, x, 2 * x).sum(1).mean()
    ),
    "and before where": Case("return sum[C](x\n  where C != y)", lambda x, y: (x * (1 - hot(y))).sum(1).mean()),
    "and before a pipe": Case("return x[y]\n  |> relu()", lambda x, y: relu(at(x, y)).mean()),
    "a pipe binds looser than arithmetic": Case("return x[y] + 1 |> relu()", lambda x, y: relu(at(x, y) + 1).mean()),
    "a sign binds tighter than a product, looser than a power": Case(
        "return sum[C](2 * -x^2)", lambda x, y: (-2 * x**2).sum(1).mean()
    ),
    "powers go to the right": Case("return sum[C]((1 + x^2)^2^0.5)", lambda x, y: ((1 + x**2) ** 2**0.5).sum(1).mean()),
    "not, and, or": Case(
        "return sum[C](x where not C == 0 and x > 0 or x < -1)",
        lambda x, y: (x * (((torch.arange(3) != 0) & (x > 0)) | (x < -1))).sum(1).mean(),
    ),
    "letters of any script": Case(
        "input γ[N]\nparam δt = 2 in (0, inf)\nreturn γ * x[y] / δt",
        lambda x, y, gamma: (gamma * at(x, y) / 2).mean(),
        more={"gamma": real(5)},
    ),
    "functions and values have separate names": Case(
        "exp = 2 * x[y]\nreturn exp + exp(exp)",
        lambda x, y: (2 * at(x, y) + (2 * at(x, y)).exp()).mean(),
    ),
    "an input by default fills its axes": Case("input a[C] = 1\nreturn sum[C](a * x)", lambda x, y: x.sum(1).mean()),
    "a default reads params and earlier inputs": Case(
        "param t = 2 in (0, inf)\ninput v[N, C] = x / t\nreturn sum[C](v^2)", lambda x, y: ((x / 2) ** 2).sum(1).mean()
    ),
    "a fixed input": Case(
        "input q[N, C]: fixed\nreturn sum[C](q * x)",
        lambda x, y, q: (q.detach() * x).sum(1).mean(),
        more={"q": real(5, 3)},
    ),
    "a scalar input": Case(
        "input sigma\nreturn sigma * x[y]", lambda x, y, sigma: (sigma * at(x, y)).mean(), more={"sigma": real()}
    ),
    "a vector param": Case(
        "param coef[K] = [1, 0.5]\nreturn sum[K](coef * x[C -> K])", lambda x, y: (x[:, 0] + x[:, 1] / 2).mean()
    ),
    "an int param sizes an axis": Case(
        "param k: int = 2 in [1, inf)\naxis K = k\nreturn sum[K](x[descending[C -> K](x)])",
        lambda x, y: x.topk(2, 1).values.sum(1).mean(),
    ),
    "a mode picks a function": Case(
        "param m = b in {a, b}\ndef a(v) = v\ndef b(v) = v^2\nreturn m(x[y])", lambda x, y: (at(x, y) ** 2).mean()
    ),
    "a mode of the prelude": Case("param r = mean in {mean, norm}\nreturn r[C](x)", lambda x, y: x.mean(1).mean()),
    "several batch axes": Case(
        "batch B, T\ninput x[B, T, C]\nreturn logsumexp[C](x)",
        lambda x: x.logsumexp(-1).mean(),
        head="loss t\n",
        more={"x": real(2, 4, 3)},
    ),
    "two batches are two axes": Case(
        "input u[M]\nreturn mean[N, M](relu(1 - x[y] + u))",
        lambda x, y, u: relu(1 - at(x, y)[:, None] + u[None]).mean(),
        more={"u": real(4)},
    ),
    # 2. axes
    "operators join axes": Case(
        "input v[C]\nreturn logsumexp[C](x + v)", lambda x, y, v: (x + v).logsumexp(1).mean(), more={"v": real(3)}
    ),
    "an axis is its index": Case("return sum[C](C * x)", lambda x, y: (torch.arange(3) * x).sum(1).mean()),
    "a one-hot matrix": Case("return sum[C]((C == y) * x)", lambda x, y: at(x, y).mean()),
    "a prefix": Case(
        "return sum[C](x * sum[C'](x[C -> C'] where C' <= C))", lambda x, y: (x * x.cumsum(1)).sum(1).mean()
    ),
    "the size of an axis": Case("return sum[C](x) / size(C)", lambda x, y: x.mean(1).mean()),
    "the size of a batch axis": Case("return size(N) * x[y]", lambda x, y: 5 * at(x, y).mean()),
    "copies in declarations": Case(
        "input f[N, N']\nreturn logsumexp[N'](f) - f[N' -> N]",
        lambda f: (f.logsumexp(1) - f.diagonal()).mean(),
        head="loss t\n",
        more={"f": real(4, 4)},
    ),
    "a prime moves rows on": Case(
        "return mean[N'](sqdist[D](x, x'))",
        lambda x, y: ((x[:, None] - x[None]) ** 2).sum(-1).mean(1).mean(),
        head=PAIRS,
    ),
    "a prime of a matrix": Case(
        "s = dot[D](x, x')\nreturn sum[N', N''](s * s')",
        lambda x, y: ((x @ x.T) @ (x @ x.T)).sum(1).mean(),
        head=PAIRS,
    ),
    "positives": Case(
        "return sum[N'](dot[D](x, x') where y == y' and N != N')",
        lambda x, y: ((x @ x.T) * same(y)).sum(1).mean(),
        head=PAIRS,
    ),
    "a transpose": Case(
        "input f[N, N']\nreturn logsumexp[N'](f[N -> N', N' -> N])",
        lambda f: f.logsumexp(0).mean(),
        head="loss t\n",
        more={"f": real(4, 4)},
    ),
    "the entry before": Case(
        "batch B\ninput u[B, T]\nreturn sum[T](u * u[T -> T - 1])",
        lambda u: (u[:, 1:] * u[:, :-1]).sum(1).mean(),
        head="loss t\n",
        more={"u": real(3, 4)},
    ),
    "a subset": Case(
        "input s[K]: index C\nreturn logsumexp[K](x[C -> s])",
        lambda x, y, s: x[:, s].logsumexp(1).mean(),
        more={"s": torch.tensor([2, 0, 2])},
    ),
    "a pick": Case("return x[y]", lambda x, y: at(x, y).mean()),
    "a number for an axis": Case("return x[C -> 1]", lambda x, y: x[:, 1].mean()),
    "an index expression": Case(
        "return sum[C](x[C -> mod(C + y, 3)] * C)",
        lambda x, y: (x.gather(1, (torch.arange(3) + y[:, None]) % 3) * torch.arange(3)).sum(1).mean(),
    ),
    "a new name makes a copy": Case(
        "return sum[C, E](x * x[C -> E])", lambda x, y: (x[:, :, None] * x[:, None]).sum((1, 2)).mean()
    ),
    "reductions of several axes": Case("return sum[N, C](x^2)", lambda x, y: (x**2).sum(), how={}),
    "prod": Case("return prod[C](x)", lambda x, y: x.prod(1).mean()),
    "max and min": Case("return max[C](x) - min[C](x)", lambda x, y: (x.amax(1) - x.amin(1)).mean()),
    "argmax": Case("return x[C -> argmax[C](x)]", lambda x, y: x.amax(1).mean()),
    "count": Case(
        "return sum[C](x) / (1 + count[C](x where x > 0))",
        lambda x, y: (x.sum(1) / (1 + (x > 0).sum(1))).mean(),
    ),
    "sum counts a bool": Case("return x[y] * sum[C](x > 0)", lambda x, y: (at(x, y) * (x > 0).sum(1)).mean()),
    "var": Case("return var[C](x)", lambda x, y: x.var(1).mean()),
    "norm": Case("return norm[C](x)", lambda x, y: x.norm(dim=1).mean()),
    "any and all": Case(
        "return if any[C](x > 1) and not all[C](x > 0) then x[y] else 0",
        lambda x, y: (at(x, y) * ((x > 1).any(1) & ~(x > 0).all(1))).mean(),
    ),
    "a mask": Case(
        "return logsumexp[C](x where C != y)",
        lambda x, y: x.masked_fill(hot(y).bool(), -INF).logsumexp(1).mean(),
    ),
    "softmax under a mask": Case(
        "input m[N, C]: bool\nreturn sum[C](softmax[C](x where m) * C)",
        lambda x, y, m: (x.masked_fill(~m, -INF).softmax(1).nan_to_num() * torch.arange(3)).sum(1).mean(),
        more={"m": FULLER},
    ),
    "normalize under a mask": Case(
        "input m[N, C]: bool\nreturn sum[C](normalize[C](x where m) * C)",
        lambda x, y, m: (normalize(x * m, dim=1) * torch.arange(3)).sum(1).mean(),
        more={"m": FULLER},
    ),
    "sum over nothing": Case(
        "input m[N, C]: bool\nreturn sum[C](x where m)", lambda x, y, m: (x * m).sum(1).mean(), more={"m": MASK}
    ),
    "mean over nothing": Case(
        "input m[N, C]: bool\nreturn mean[C](x where m)",
        lambda x, y, m: ((x * m).sum(1) / m.sum(1).clamp(min=1)).mean(),
        more={"m": MASK},
    ),
    "prod over nothing": Case(
        "input m[N, C]: bool\nreturn prod[C](x where m)",
        lambda x, y, m: torch.where(m, x, 1).prod(1).mean(),
        more={"m": MASK},
    ),
    "logsumexp over nothing": Case(
        "input m[N, C]: bool\nreturn exp(logsumexp[C](x where m))",
        lambda x, y, m: (x.exp() * m).sum(1).mean(),
        more={"m": MASK},
    ),
    "max over nothing": Case(
        "input m[N, C]: bool\nreturn max(max[C](x where m), -9)",
        lambda x, y, m: torch.where(m, x, torch.tensor(-9.0, dtype=torch.float64)).amax(1).mean(),
        more={"m": MASK},
    ),
    "argmax over nothing is absent": Case(
        "input m[N, C]: bool\nreturn x[C -> argmax[C](x where m)]",
        lambda x, y, m: x.masked_fill(~m, -INF).amax(1)[m.any(1)].mean(),
        more={"m": MASK},
    ),
    "cumsum skips the masked": Case(
        "input m[N, C]: bool\nreturn sum[C](cumsum[C](x where m))",
        lambda x, y, m: ((x * m).cumsum(1) * m).sum(1).mean(),
        more={"m": MASK},
    ),
    "an order": Case(
        "pi = descending[C -> K](x)\nreturn sum[K](x[pi] * K)",
        lambda x, y: (x.sort(1, descending=True).values * torch.arange(3)).sum(1).mean(),
    ),
    "ascending": Case(
        "return sum[K](x[ascending[C -> K](x)] * K)", lambda x, y: (x.sort(1).values * torch.arange(3)).sum(1).mean()
    ),
    "absent entries last": Case(
        "input m[N, C]: bool\nreturn sum[K](x[descending[C -> K](x where m)] * (K + 1))",
        lambda x, y, m: (
            (present(x.masked_fill(~m, -INF).sort(1, descending=True).values) * torch.arange(1, 4)).sum(1).mean()
        ),
        more={"m": MASK},
    ),
    "an order with fewer entries than places": Case(
        "axis K = 5\nreturn mean[K](x[descending[C -> K](x)]^2)", lambda x, y: (x**2).mean(1).mean()
    ),
    "the index of a longer axis": Case(
        "param coef[K] = [1, 0.5, 2, 9]\nreturn sum[K](coef * x[C -> K])",
        lambda x, y: (x * torch.tensor([1, 0.5, 2])).sum(1).mean(),
    ),
    "rank": Case(
        "return sum[C](x * rank[C](x))", lambda x, y: (x * x.argsort(1, descending=True).argsort(1)).sum(1).mean()
    ),
    "topk": Case("return sum[C](x where topk[C](x, 2))", lambda x, y: x.topk(2, 1).values.sum(1).mean()),
    "quantile": Case("return quantile[C](x, 0.25)", lambda x, y: torch.quantile(x, 0.25, dim=1).mean()),
    "without a bracket over the axis that isn't the batch": Case("return sum(x)", lambda x, y: x.sum(1).mean()),
    # 3. what isn't there
    "a condition on an axis": Case(
        "batch B, T\ninput u[B, T]\ninput m[B, T]: bool\naxis T where m\nreturn mean[B, T](u^2)",
        lambda u, m: (u**2)[m].mean(),
        head="loss t\n",
        more={"u": real(5, 3), "m": MASK},
    ),
    "two conditions hold together": Case(
        "input m[N, C]: bool\naxis C where m\naxis C where C > 0\nreturn sum[C](x)",
        lambda x, y, m: (x * m * (torch.arange(3) > 0)).sum(1).mean(),
        more={"m": MASK},
    ),
    "a condition removes rows": Case(
        "input m[N]: bool\naxis N where m\nreturn sum[N'](dot[C](x, x')) / size(N)",
        lambda x, y, m: (x[m] @ x[m].T).mean(1).mean(),
        more={"m": SOME},
    ),
    "a condition with a relevance": Case(
        "batch B\ninput s[B, L]\ninput r[B, L]: fixed\naxis L where r >= 0\nreturn logsumexp[L](s)",
        lambda s, r: s.masked_fill(r < 0, -INF).logsumexp(1).mean(),
        head="loss t\n",
        more={"s": real(3, 3), "r": torch.tensor([[1.0, -1, 2], [0, 0, 0], [3, -1, -1]], dtype=torch.float64)},
    ),
    "reading outside is absent": Case("return mean[C](x[C -> C + 1])", lambda x, y: x[:, 1:].mean(1).mean()),
    "an absent row isn't counted": Case("return x[C -> y + 1]", lambda x, y: at(x, (y + 1).clamp(max=2))[y < 2].mean()),
    "labels at another place": Case(
        "batch B, T\ninput z[B, T, V]\ninput g[B, S]: index V\nreturn -log_softmax[V](z)[g[S -> T + 1]]",
        lambda z, g: cross_entropy(z[:, :3].reshape(-1, 4), g[:, 1:4].reshape(-1)),
        head="loss t\n",
        more={"z": real(2, 4, 4), "g": torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0]])},
    ),
    # 4. the outermost reduction
    "a mean with where": Case("return mean[N](x[y] where y > 0)", lambda x, y: at(x, y)[y > 0].mean()),
    "a weighted mean": Case(
        "input w[N]: fixed\nreturn mean[N](x[y] weighted w)",
        lambda x, y, w: (at(x, y) * w).sum() / w.sum(),
        more={"w": real(5).abs()},
    ),
    "a weighted mean, rows": Case(
        "input w[N]: fixed\nreturn mean[N](x[y] weighted w)",
        lambda x, y, w: at(x, y) * w,
        more={"w": real(5).abs()},
        how={"reduction": "none"},
    ),
    "the caller's sum": Case("return x[y]", lambda x, y: at(x, y).sum(), how={"reduction": "sum"}),
    "a number for the denominator": Case("return x[y]", lambda x, y: at(x, y).sum() / 7, how={"denominator": 7}),
    "all elements": Case(
        "return mean[N](x[y] where y > 0)", lambda x, y: at(x, y)[y > 0].sum() / 5, how={"denominator": "elements"}
    ),
    "rows, with absent ones 0": Case(
        "return mean[N](x[y] where y > 0)", lambda x, y: at(x, y) * (y > 0), how={"reduction": "none"}
    ),
    "a batch loss": Case("return -log(mean[N](softmax(x)[y]))", lambda x, y: -at(x.softmax(1), y).mean().log()),
    # 5. kinds
    "prob given as a distribution": Case(
        "input p[N, C]: prob C\nreturn -sum[C](p * log_softmax(x))",
        lambda x, y, p: -(p * log_softmax(x, 1)).sum(1).mean(),
        more={"p": real(5, 3).softmax(1)},
    ),
    "prob given as labels": Case(
        "input p[N, C]: prob C\nreturn -sum[C](p * log_softmax(x))",
        lambda x, y, p: cross_entropy(x, p),
        more={"p": torch.tensor([0, 2, 1, 1, 0])},
    ),
    "bool given as 0 and 1": Case(
        "input m[N]: bool\nreturn if m then x[y] else 0", lambda x, y, m: (at(x, y) * m).mean(), more={"m": SOME.long()}
    ),
    "if takes the gradient of its branch": Case(
        "return sum[C](if x > 0 then log(x) else 0)",
        lambda x, y: torch.where(x > 0, torch.where(x > 0, x, 1).log(), 0).sum(1).mean(),
    ),
    "nothing times infinity": Case(
        "return sum[C](relu(x) * log(relu(x)))",
        lambda x, y: torch.where(x > 0, x * torch.where(x > 0, x, 1).log(), 0).sum(1).mean(),
    ),
    "clip": Case("return sum[C](clip(x, -0.5, 0.5))", lambda x, y: x.clip(-0.5, 0.5).sum(1).mean()),
    "clip by tensors": Case(
        "input lo[N]\nreturn sum[C](clip(x, lo, lo + 1))",
        lambda x, y, lo: torch.minimum(torch.maximum(x, lo[:, None]), lo[:, None] + 1).sum(1).mean(),
        more={"lo": real(5)},
    ),
    "logdet": Case(
        "return logdet[D, D']((D == D') + sum[N](x * x[D -> D']))",
        lambda x, y: torch.linalg.slogdet(torch.eye(3) + x.T @ x).logabsdet,
        head=PAIRS,
    ),
    "eigvals": Case(
        "return sum[K](K * eigvals[D, D' -> K](sum[N](x * x[D -> D'])))",
        lambda x, y: (torch.linalg.eigvalsh(x.T @ x) * torch.arange(3)).sum(),
        head=PAIRS,
    ),
    "solve": Case(
        "a = (D == D') + sum[N](x * x[D -> D'])\nreturn sum[D'](solve[D, D'](a, x)^2)",
        lambda x, y: (torch.linalg.solve(torch.eye(3, dtype=x.dtype) + x.T @ x, x.T) ** 2).sum(0).mean(),
        head=PAIRS,
    ),
    "root": Case(
        "t = root(t in [-50, 50]: sum[C](sigmoid(x - t)) - 1)\nreturn t * x[y]",
        lambda x, y: (threshold(x) * at(x, y)).mean(),
    ),
    "detach": Case("return detach(x[y]) * x[y]", lambda x, y: (at(x, y).detach() * at(x, y)).mean()),
    "straight_through": Case(
        "return straight_through(relu(x[y]), x[y]^2)",
        lambda x, y: (relu(at(x, y)) - at(x, y) ** 2).detach().mean() + (at(x, y) ** 2).mean(),
    ),
    "a card of the prelude": Case(
        "input q[C]: fixed in [0, 1]\nz = x |> clip_norm(1.0) |> temperature(0.5) |> prior(q, 1) |> margin(y, 0.35)\n"
        "return cross_entropy(z, y) + poly(1 - softmax(z)[y], [1.0, 0.5])",
        lambda x, y, q: card(x, y, q),
        more={"q": torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)},
    ),
    "a loss, its targets the rows": Case(
        "return cross_entropy(dot[D](x, x'), N)", lambda x, y: cross_entropy(x @ x.T, torch.arange(5)), head=PAIRS
    ),
    "a loss with its param": Case(
        "return focal(x, y, gamma = 3)",
        lambda x, y: (-((1 - at(x.softmax(1), y)) ** 3) * at(log_softmax(x, 1), y)).mean(),
    ),
    "a def with an index": Case(
        "def m(z, t: index A, by) = if A == t then z - by else z\nreturn cross_entropy(m(x, y, 0.5), y)",
        lambda x, y: cross_entropy(x - 0.5 * hot(y), y),
    ),
    "an axis of a def": Case(
        "def centred[A](v) = v - mean[A](v)\nreturn sum[C](centred[C](x)^2)",
        lambda x, y: ((x - x.mean(1, keepdim=True)) ** 2).sum(1).mean(),
    ),
    # 6. numerical meaning
    "a class of probability 0": Case(
        "return -log_softmax[C](if C == 2 and y != 2 then -inf else x)[y]",
        lambda x, y: cross_entropy(x.masked_fill((torch.arange(3) == 2) & (y != 2)[:, None], -INF), y),
    ),
}


def present(x: Tensor) -> Tensor:
    return torch.where(x > -INF, x, 0)


def threshold(x: Tensor) -> Tensor:
    """The zero of sum sigmoid(x - t) - 1 by bisection, then one Newton step that carries the gradient."""
    low, high = torch.full(x.shape[:1], -50.0, dtype=x.dtype), torch.full(x.shape[:1], 50.0, dtype=x.dtype)
    for _ in range(80):
        t = (low + high) / 2
        more = torch.sigmoid(x.detach() - t[:, None]).sum(1) > 1
        low, high = torch.where(more, t, low), torch.where(more, high, t)
    s = torch.sigmoid(x - t[:, None])
    return t + (s.sum(1) - 1) / (s * (1 - s)).sum(1).detach()


def card(x: Tensor, y: Tensor, q: Tensor) -> Tensor:
    z = x / x.norm(dim=1, keepdim=True).clamp(min=1.0)
    z = z / 0.5 + q.log() - 0.35 * hot(y)
    gone = 1 - at(z.softmax(1), y)
    return cross_entropy(z, y) + (gone + 0.5 * gone**2).mean()


def result(value: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    """The value and its gradients, zero where nothing depends on a leaf."""
    total = (value * torch.arange(1, value.numel() + 1, dtype=value.dtype).reshape(value.shape)).sum()
    if not total.requires_grad:
        return [value, *(torch.zeros_like(x) for x in leaves)]
    found = torch.autograd.grad(total, leaves, allow_unused=True)
    return [value.detach(), *(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True))]


NAMES = list(CASES) if FULL else random.Random(8).sample(list(CASES), 20)


@pytest.mark.parametrize("name", NAMES)
def test_sentence(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    path = tmp_path / "t.loss"
    path.write_text(f"{case.head}{case.lines}\n", encoding="utf-8")
    given = draw(len(name)) if case.head != "loss t\n" else {}
    given |= case.more
    order = [n for n, t in given.items() if t.is_floating_point() and n not in FIXED]
    leaves = [given[n].clone().requires_grad_() for n in order]
    full = given | dict(zip(order, leaves, strict=True))
    got = result(lossdsl.loss(path, backend="torch")(**full, **case.how), leaves)
    wanted = result(case.worth(**full), leaves)
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
