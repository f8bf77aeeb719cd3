"""Losses without their matrix: times against the bare matrix products, peak memory, and how both grow.

    python benchmarks/heads.py CASE…             time and peak of each case, in a fresh process
    python benchmarks/heads.py growth --plot heads.svg

Times are the best of `--rounds` calls for value and gradients, candidates in turn; peaks are VmHWM after a reset, less
what was resident before. CASES has the cases; those of a loss with a head take its name.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import lossdsl

Run = Callable[[], object]
HEADS = ("cross_entropy", "focal", "label_smoothing_ce", "symmetric_cross_entropy", "z_loss_ce")
CASES = (*HEADS, "confident", "ignored", "kd_kl", "clip_loss", "nt_xent", "arcface")
TILE = 384
N, D, C = 4096, 512, 32000
GROWTH = [("N", n, 4000) for n in (1024, 2048, 4096, 8192, 16384, 32768)] + [
    ("C", 4096, c) for c in (1000, 2000, 4000, 8000, 16000, 32000)
]


def products(x: Tensor, w: Tensor, back: bool = True, sweeps: int = 1) -> Run:
    """The bare matrix products on tiles: each tile `sweeps` times, with `back` the two of its gradient."""
    x, w = x.detach(), w.detach()
    z = torch.empty(TILE, len(w))
    dx, dw = torch.empty_like(x), torch.zeros_like(w)

    def run() -> None:
        for sweep in range(sweeps):
            for start in range(0, len(x), TILE):
                part = x[start : start + TILE]
                tile = torch.mm(part, w.t(), out=z[: len(part)])
                if back and sweep == sweeps - 1:
                    torch.mm(tile, w, out=dx[start : start + TILE])
                    dw.addmm_(tile.t(), part)

    return run


def gradient(loss: Callable[..., Tensor], given: list[Tensor | None]) -> Run:
    wanted = [x for x in given if x is not None and x.requires_grad]
    return lambda: torch.autograd.grad(loss(*given), wanted)


def states(n: int, d: int, c: int, spread: float = 2.0) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states and weights whose products have this standard deviation, and targets."""
    hidden, weight = torch.randn(n, d), torch.randn(c, d) * (spread / d**0.5)
    return hidden.requires_grad_(), weight.requires_grad_(), torch.randint(0, c, (n,))


def candidates(case: str, shape: tuple[int, int, int] = (N, D, C)) -> dict[str, Run]:
    """What is timed: ours first, what it is compared with after it."""
    torch.manual_seed(0)
    if case == "kd_kl":
        hidden, weight, _ = states(*shape)
        other, table, _ = (x.detach() for x in states(*shape))
        loss = lossdsl.loss(case, head={"student": "linear", "teacher": "linear"})
        two = products(other, table, back=False)
        one = products(hidden, weight)
        return {
            "ours": gradient(loss, [hidden, weight, None, other, table, None]),
            "matmuls": lambda: (one(), two()),
        }
    if case in ("clip_loss", "nt_xent"):
        n, d = 16384, 256
        pair = case == "clip_loss"
        given = [torch.randn(n, d) for _ in "ab"] if pair else [torch.randn(n // 2, 2, d)]
        given = [x.requires_grad_() for x in given]
        x = torch.nn.functional.normalize(torch.randn(n, d), dim=1)
        return {"ours": gradient(lossdsl.loss(case), [*given]), "matmuls": products(x, x, sweeps=2)}
    if case == "arcface":
        n, d, c = 256, 128, 1_000_000
        x, w, y = states(n, d, c)
        sampled = torch.cat([y, torch.randperm(c)[: c // 10]]).unique()[: c // 10]
        sampled = torch.cat([sampled, y]).unique()
        return {
            "ours": gradient(lossdsl.loss(case), [x, w, y]),
            "sampled": gradient(lossdsl.loss("partial_fc"), [x, w, y, sampled]),
            "matmuls": products(w, x, sweeps=2),
        }
    name = {"confident": "cross_entropy", "ignored": "cross_entropy"}.get(case, case)
    hidden, weight, target = states(*shape, spread=20.0 if case == "confident" else 2.0)
    loss = lossdsl.loss(name, head="linear")
    found: dict[str, Run] = {}
    whole = target.clone()
    if case == "ignored":
        found["all rows"] = gradient(loss, [hidden, weight, None, whole])
        target[torch.randperm(len(target))[: len(target) // 2]] = -100
    found = {"ours": gradient(loss, [hidden, weight, None, target]), **found, "matmuls": products(hidden, weight)}
    if case == "cross_entropy":
        plain = lossdsl.loss(name)
        found["logits in memory"] = gradient(lambda h, w, y: plain(h @ w.t(), y), [hidden, weight, target])
        theirs = getattr(torch.nn.functional, "linear_cross_entropy", None)
        if theirs is not None:
            found["F.linear_cross_entropy"] = gradient(theirs, [hidden, weight, target])
    return found


def peak(run: Run) -> float:
    """MiB that a call holds at most beyond what is resident before it."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _status("VmRSS")
    run()
    return (_status("VmHWM") - before) / 1024


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def one(case: str, rounds: int, shape: tuple[int, int, int]) -> dict[str, object]:
    """The figures of a case; the first call of ours, which builds kernels, is on few rows where there are heads."""
    runs = candidates(case, shape)
    small = candidates(case, (64, shape[1], 512)) if case in HEADS else runs
    small["ours"]()
    peaks = {name: round(peak(run), 1) for name, run in runs.items() if name in ("ours", "sampled")}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {"case": case, "shape": shape, "seconds": {n: round(min(s), 4) for n, s in seconds.items()}, "peak": peaks}


def apart(*args: str) -> dict[str, object]:
    """A case in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--here", *args], stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def plot(rows: list[dict[str, object]], target: Path) -> None:
    """Time and peak over N and over C, on logarithmic axes, as a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    times, peaks = figure.subplots(1, 2)
    for axis, mark in (("N", "o"), ("C", "s")):
        own = [r for r, (a, _, _) in zip(rows, GROWTH, strict=True) if a == axis]
        xs = [r["shape"][0 if axis == "N" else 2] for r in own]  # type: ignore[index]
        label = f"over {axis}"
        times.loglog(xs, [r["seconds"]["ours"] for r in own], marker=mark, label=label)  # type: ignore[index]
        held = [r["peak"]["ours"] - (r["shape"][0] + r["shape"][2]) * r["shape"][1] / 2**18 for r in own]  # type: ignore[index]
        peaks.semilogx(xs, held, marker=mark, label=label)
    times.set(title="value and gradients, s", xlabel="N (C = 4000), C (N = 4096)")
    peaks.set(title="peak beyond dX and dW, MiB", xlabel="N (C = 4000), C (N = 4096)", ylim=(0, None))
    for axes in (times, peaks):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", choices=[*CASES, "growth"])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--shape", default=f"{N},{D},{C}", help="N,D,C of the heads")
    parser.add_argument("--plot", type=Path, help="where the picture of `growth` goes")
    parser.add_argument("--here", action="store_true", help="in this process, as JSON")
    given = parser.parse_args()
    for case in given.cases:
        if case == "growth":
            rows = [apart("cross_entropy", "--rounds", "1", "--shape", f"{n},128,{c}") for _, n, c in GROWTH]
            print("\n".join(json.dumps(r) for r in rows))
            if given.plot:
                plot(rows, given.plot)
        elif given.here:
            n, d, c = map(int, given.shape.split(","))
            print(json.dumps(one(case, given.rounds, (n, d, c))))
        else:
            print(json.dumps(apart(case, "--rounds", str(given.rounds), "--shape", given.shape)), flush=True)


if __name__ == "__main__":
    main()
