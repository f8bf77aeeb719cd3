"""What single precision leaves of a loss: the error against the confidence of the prediction, torch's and lossdsl's.

Rows of five classes whose target leads the others by a gap, in float32. Drawn are the errors of the value and of the
target's gradient, relative to the exact number (in float64, whose own error is a billion times smaller); an error of 1
means that nothing of the number is left. It writes examples/out/accuracy.png.

    python examples/accuracy.py
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor

import lossdsl

PICTURE = Path(__file__).parent / "out" / "accuracy.png"
GAPS = torch.linspace(0, 80, 321)
FLOOR = 1e-9  # where errors of nothing are drawn
SMALLEST = 1.2e-38  # float32's: what is below has no digits there

Loss = Callable[[Tensor, Tensor], Tensor]


def focal(z: Tensor, y: Tensor) -> Tensor:
    """Focal loss as it is usually typed."""
    logs = F.cross_entropy(z, y, reduction="none")
    return (1 - torch.exp(-logs)) ** 2 * logs


def rows() -> tuple[Tensor, Tensor]:
    """Logits in float32, one row a gap, and their targets."""
    z = torch.tensor([0.3, -0.7, 0.0, -1.2, 0.1]).repeat(len(GAPS), 1)
    z[:, 2] = 0.3 + GAPS
    return z, torch.full((len(GAPS),), 2)


def errors(loss: Loss, exact: Loss) -> tuple[Tensor, Tensor]:
    """Relative errors of the values, and of the target's entry of the gradient."""
    z, y = rows()
    found = []
    for fn, dtype in ((loss, torch.float32), (exact, torch.float64)):
        x = z.to(dtype).requires_grad_()
        value = fn(x, y)
        (grad,) = torch.autograd.grad(value.sum(), x)
        found.append((value.detach().double(), grad[:, 2].double()))
    pairs = zip(*found, strict=True)
    value, gradient = (torch.where(b.abs() < SMALLEST, torch.nan, (a - b).abs() / b.abs()) for a, b in pairs)
    return value, gradient


def worst(error: Tensor) -> float:
    """The largest error of numbers that float32 has."""
    return float(error.nan_to_num(0).max())


def curves() -> dict[str, dict[str, tuple[Tensor, Tensor]]]:
    """The errors by loss and by who computes it."""
    ours = {n: lossdsl.loss(n, backend="torch", reduction="none") for n in ("cross_entropy", "focal")}
    precise = {n: lossdsl.loss(n, backend="torch", reduction="none", precise=True) for n in ours}
    torchs: dict[str, Loss] = {"cross_entropy": lambda z, y: F.cross_entropy(z, y, reduction="none"), "focal": focal}
    return {
        n: {
            "torch": errors(torchs[n], ours[n]),
            "lossdsl": errors(ours[n], ours[n]),
            "lossdsl, precise": errors(precise[n], ours[n]),
        }
        for n in ours
    }


def draw(found: dict[str, dict[str, tuple[Tensor, Tensor]]], picture: Path) -> None:
    figure, axes = plt.subplots(2, len(found), figsize=(11, 7), sharex=True, sharey=True, squeeze=False)
    for column, (name, lines) in enumerate(found.items()):
        for row, what in enumerate(("value", "gradient of the target")):
            axis = axes[row][column]
            for who, pair in lines.items():
                axis.semilogy(GAPS, pair[row].clamp(min=FLOOR), label=who, linewidth=1.2)
            axis.set_title(f"{name}: {what}")
            axis.grid(alpha=0.3)
        axes[-1][column].set_xlabel("logit of the target less the largest other")
    for row in axes:
        row[0].set_ylabel("relative error in float32")
    axes[0][0].legend()
    picture.parent.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(picture, dpi=110)
    plt.close(figure)


def main() -> None:
    found = curves()
    for name, lines in found.items():
        for who, (value, gradient) in lines.items():
            print(f"{name:>14} by {who:<17} value {worst(value):.1e}   gradient {worst(gradient):.1e}")
    draw(found, PICTURE)
    print(f"drawn: {PICTURE}")


if __name__ == "__main__":
    main()
