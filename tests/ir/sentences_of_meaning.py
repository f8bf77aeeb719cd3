"""Sentences about what isn't there, the outermost reduction, kinds, and numerical meaning."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy, log_softmax, relu

from tests.ir.sentence import (
    INF,
    MASK,
    PAIRS,
    SOME,
    Case,
    at,
    card,
    hot,
    real,
    threshold,
)

CASES: dict[str, Case] = {
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
