"""The figures that the C++ backend is measured by: each with its bar, value and gradient, as ratios within one run.

    python benchmarks/figures.py [PART[=LOSS,…] …]     parts: wide, narrow, small, eager, every, summary, half,
                                                       images, composite
    THP_MEM_ALLOC_ENABLE=1 python benchmarks/figures.py wide      with torch's own memory in huge pages

Gradients are checked against float64 before anything is timed. `e` is `torch.exp(x, out=y)` on the same shape, `t` the
plan's transcendentals an element, as `lossdsl explain` shows them.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from baselines import BY_HAND, LIBRARY
from rows import EVERY, LOSSES, REGISTRY, discovered
from torch import Tensor

import lossdsl
from lossdsl import bench
from lossdsl.bench.candidates import by_autograd
from lossdsl.bench.timing import timed as interleaved
from lossdsl.source.text import Source

TEXTS = discovered()
KEPT = Path(__file__).with_name("out") / "every.jsonl"
BATCH = 12
BARS = {"eager": (2.5, 5.0), "compile": (1.5, 2.0)}  # times slower than ours: each, and the geometric mean
FIRST = """loss first_term
input logits[N, C]
input teacher[N, C]: fixed
input target[N]: index C
return logsumexp(logits) - logits[target]
"""
THREE = """loss three_terms
input logits[N, C]
input target[N]: index C
p = softmax(logits)
ce = logsumexp(logits) - logits[target]
return ce + 1e-4 * logsumexp(logits)^2 - 0.01 * entropy(p)
"""
FOUR = """loss four_terms
input logits[N, C]
input teacher[N, C]: fixed
input target[N]: index C
p = softmax(logits)
ce = logsumexp(logits) - logits[target]
return ce + 1e-4 * logsumexp(logits)^2 - 0.01 * entropy(p) + 0.5 * kl(softmax(teacher), p)
"""


def main() -> None:
    parts: dict[str, Callable[[Sequence[str]], None]] = {
        "wide": wide,
        "narrow": narrow,
        "small": small,
        "eager": eager,
        "every": every,
        "summary": summary,
        "half": half,
        "images": images,
        "composite": composite,
    }
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    for part in sys.argv[1:] or [p for p in parts if p != "summary"]:
        name, _, chosen = part.partition("=")
        parts[name](chosen.split(",") if chosen else EVERY if name in ("every", "summary") else LOSSES)


def say(what: str, measured: float, bar: float, more: str = "") -> None:
    print(f"{what:58} {measured:6.2f}  bar {bar:5.2f}  {'ok' if measured <= bar else 'OVER'}  {more}", flush=True)


def timed(
    name: str,
    n: int,
    c: int,
    rounds: int,
    baselines: Sequence[str] = ("clone", "copy", "exp"),
    others: dict[str, Callable[..., Tensor]] | None = None,
    dtype: torch.dtype = torch.float32,
    inplace: bool = False,
) -> bench.Report:
    """A loss of the std pack on the C++ backend."""
    axes = lossdsl.load(f"std/{name}").checked.axes
    sizes = {a.name: n if a.batch else c for a in axes}
    return bench.measure(
        TEXTS[f"std/{name}"],
        REGISTRY,
        sizes,
        backends=("cpu",),
        baselines=baselines,
        others=others,
        dtype=dtype,
        rounds=rounds,
        inplace=inplace,
    )


def spread(report: bench.Report) -> str:
    c, k = report.timings["clone"], report.timings["cpu"]
    text = f"cpu {k.median * 1e3:.2f} ms, clone {c.median * 1e3:.2f} ({c.low * 1e3:.2f} to {c.high * 1e3:.2f})"
    return text + ("" if k.peak is None else f", peak {k.peak / 2**20:.1f} MiB")


def wide(names: Sequence[str]) -> None:
    """Wide rows: against a clone of each tensor that gets a gradient."""
    for n, c in ((1024, 32000), (256, 128256)) if "cross_entropy" in names else ():
        report = timed("cross_entropy", n, c, 30, inplace=True)
        say(f"cross_entropy {n}x{c} / clone", report.ratio("cpu", "clone"), 1.3, spread(report))
        k, copy = (report.timings[x] for x in ("inplace", "copy"))
        what = f"{k.median * 1e3:.2f} ms, copy {copy.median * 1e3:.2f} ({copy.low * 1e3:.2f} to {copy.high * 1e3:.2f})"
        say(f"cross_entropy {n}x{c} in place / copy", k.median / copy.median, 1.5, what)
    for name in names:
        report = timed(name, 1024, 32000, 9)
        say(f"{name} 1024x32000 / clone", report.ratio("cpu", "clone"), 1.6, spread(report))


def narrow(names: Sequence[str]) -> None:
    """Narrower rows: against a clone and the plan's transcendentals."""
    for n, c in ((4096, 1000), (65536, 100), (65536, 10)):
        for name in names:
            report = timed(name, n, c, 30)
            times = {k: v.median for k, v in report.timings.items()}
            floor = times["clone"] + report.exps * times["exp"]
            say(f"{name} {n}x{c} / (clone + {report.exps:.1f} e)", times["cpu"] / floor, 1.3, spread(report))


def small(names: Sequence[str]) -> None:
    """Overhead: against torch's own functions where there are some, else against the composite."""
    for n, c in ((32, 10), (410, 10)):
        for name in names:
            by_hand = LIBRARY.get(name) or BY_HAND.get(name)
            report = timed(name, n, c, 300, ("clone", "eager"), {"torch": by_hand} if by_hand else None)
            against = "torch" if "torch" in report.timings else "eager"
            bar = 1.25 if name in LIBRARY and n == 32 else 0.7 if n == 32 else 1.0
            k, b = (report.timings[x].median * 1e6 for x in ("cpu", against))
            say(f"{name} {n}x{c} / {against}", k / b, bar, f"cpu {k:.0f} us, {against} {b:.0f}")


def eager(names: Sequence[str]) -> None:
    """How much quicker than torch, eager and compiled."""
    for name in names:
        by_hand = LIBRARY.get(name) or BY_HAND.get(name)
        others: dict[str, Callable[..., Tensor]] = {"hand": by_hand} if by_hand else {}
        if by_hand:
            others["compiled"] = torch.compile(by_hand, dynamic=False)
        report = timed(name, 1024, 32000, 7, ("clone",) if by_hand else ("clone", "eager", "compile"), others)
        a, b = ("hand", "compiled") if by_hand else ("eager", "compile")
        say(f"{name} 1024x32000 / {a}", report.ratio("cpu", a), 1 / 2.5)
        if b in report.timings:
            say(f"{name} 1024x32000 / {b}", report.ratio("cpu", b), 1 / 1.5)


def every(names: Sequence[str]) -> None:
    """All losses that are a number a row of classes, against a clone, what one writes by hand in torch, and that
    compiled. First a batch is built, compiled (10 to 40 s a loss the first time) and checked, then it is timed."""
    for start in range(0, len(names), BATCH):
        for one in [prepared(name) for name in names[start : start + BATCH]]:
            keep(one)
    summary(names)


def prepared(name: str, baselines: Sequence[str] = ("clone", "eager", "compile")) -> bench.Prepared:
    """A loss of the list at 1024x32000, checked: a baseline that is beyond the bound is timed all the same."""
    axes = lossdsl.load(f"std/{name}").checked.axes
    return bench.prepare(
        TEXTS[f"std/{name}"],
        REGISTRY,
        {a.name: 1024 if a.batch else 32000 for a in axes},
        backends=("cpu",),
        baselines=baselines,
        inaccurate=True,
    )


def keep(one: bench.Prepared, rounds: int = 3) -> None:
    """Time it, and add what was found to those before."""
    report = one.timed(rounds, sets=1, warm_up=1)
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    with KEPT.open("a", encoding="utf-8") as file:
        file.write(json.dumps(report.as_json()) + "\n")
    ratios = {b: report.ratio("cpu", b) for b in BARS if b in report.timings}
    print(report.loss, *(f"{r:.2f} x {b}" for b, r in ratios.items()), report.failures or "", flush=True)


def summary(names: Sequence[str]) -> None:
    """The last figures of each loss in a table, with the means."""
    lines = KEPT.read_text(encoding="utf-8").splitlines()
    last = {row["loss"]: row for row in map(json.loads, lines)}
    found = [last[name] for name in names if name in last]
    head = (
        "| loss | ours, ms | clone | eager, times slower | compiled, times slower | peak of ours and of eager, MiB | |"
    )
    table = [head, "|---|---|---|---|---|---|---|"]
    for row in found:
        t = row["timings"]
        times = ["" if b not in t else mark(t[b]["median"] / t["cpu"]["median"], bar[0]) for b, bar in BARS.items()]
        peaks = " and ".join("" if b not in t else f"{t[b]['peak'] / 2**20:.0f}" for b in ("cpu", "eager"))
        why = "; ".join(f"{b}: {reason}" for b, reason in row["failures"].items())
        ms = [f"{t[b]['median'] * 1e3:.1f}" for b in ("cpu", "clone")]
        table.append(f"| {row['loss']} | {' | '.join([*ms, *times, peaks, why])} |")
    for b, (bar, mean_bar) in BARS.items():
        ratios = [t[b]["median"] / t["cpu"]["median"] for t in (row["timings"] for row in found) if b in t]
        mean = math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1))
        under = sum(r < bar for r in ratios)
        table.append(
            f"\n{b}: {len(ratios)} of {len(names)} losses, geometric mean {mean:.2f} (bar {mean_bar}); "
            f"{under} below {bar}, the least {min(ratios, default=0):.2f}"
        )
    print("\n".join(table))


def mark(ratio: float, bar: float) -> str:
    return f"{ratio:.1f}" if ratio >= bar else f"**{ratio:.2f}**"


def half(_: Sequence[str]) -> None:
    """bfloat16: time, and the gradient in units of the last place."""
    report = timed("cross_entropy", 1024, 32000, 15, dtype=torch.bfloat16)
    say("cross_entropy 1024x32000 bfloat16 / clone", report.ratio("cpu", "clone"), 1.5, spread(report))
    z = (torch.randn(64, 32000) * 4).bfloat16().requires_grad_()
    y = torch.randint(0, 32000, (64,))
    loss = lossdsl.loss("cross_entropy", backend="cpu", reduction="sum")
    (grad,) = torch.autograd.grad(loss(z, y), [z])
    exact = z.detach().double().requires_grad_()
    (wanted,) = torch.autograd.grad(F.cross_entropy(exact, y, reduction="sum"), [exact])
    mantissa, exponent = torch.frexp(wanted.abs())
    ulp = torch.ldexp(torch.ones_like(mantissa), exponent.clamp_min(-125) - 8)
    say("gradient in bfloat16 ulps", float(((grad.double() - wanted).abs() / ulp).max()), 1.0)


def images(_: Sequence[str]) -> None:
    """(N, C, H, W), the classes apart in memory."""
    z = torch.randn(4, 19, 512, 512, requires_grad=True)
    y = torch.randint(0, 19, (4, 512, 512))
    for name, alpha in (("cross_entropy", None), ("focal", torch.ones(19))):
        loss = lossdsl.loss(name, backend="cpu")
        ours = loss if alpha is None else lambda a, b, f=loss, w=alpha: f(a, b, alpha=w)
        runs = {"cpu": by_autograd(ours, [0]), "clone": lambda given: [given[0].detach().clone()]}
        runs["torch"] = by_autograd(F.cross_entropy if alpha is None else focal_of_images, [0])
        found, wanted = runs["cpu"]([z, y]), runs["torch"]([z, y])
        assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-9) for a, b in zip(found, wanted, strict=True)), name
        t = interleaved(runs, [[z, y]], 12, "cpu")
        k, c, e = (t[x].median * 1e3 for x in ("cpu", "clone", "torch"))
        say(f"{name} (4, 19, 512, 512) / clone", k / c, 1.5, f"cpu {k:.1f} ms, clone {c:.1f}, torch {e:.1f}")
        say(f"{name} (4, 19, 512, 512) / torch", k / e, 1 / 2.8)


def focal_of_images(z: Tensor, y: Tensor) -> Tensor:
    logp = torch.log_softmax(z, 1).gather(1, y[:, None]).squeeze(1)
    return (-((1 - logp.exp()) ** 2) * logp).mean()


def composite(_: Sequence[str]) -> None:
    """Four terms that share their statistics, against the first of them."""
    texts = {"first": FIRST, "three": THREE, "four": FOUR}
    sizes = {"N": 1024, "C": 32000}
    reports = {}
    for name, text in texts.items():
        source = Source(f"{name}.loss", text)
        reports[name] = bench.measure(source, REGISTRY, sizes, backends=("cpu",), baselines=("clone", "exp"), rounds=12)
    four, three, one = (reports[k].timings["cpu"].median for k in ("four", "three", "first"))
    say("the three terms of the logits 1024x32000 / the first alone", three / one, 1.25, f"{three * 1e3:.1f} ms")
    say("four terms 1024x32000 / the first alone", four / one, 1.25, f"{four * 1e3:.1f} ms, {one * 1e3:.1f}")


if __name__ == "__main__":
    main()
