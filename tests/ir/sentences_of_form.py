"""Sentences about the form of a file, and about axes."""

from __future__ import annotations

import torch
from torch.nn.functional import normalize, relu

from tests.ir.sentence import (
    FULLER,
    INF,
    MASK,
    PAIRS,
    Case,
    at,
    hot,
    present,
    real,
    same,
)

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
    "a prefix of itself alone": Case("return sum[C](cumsum[C](x))", lambda x, y: x.cumsum(1).sum(1).mean()),
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
}
