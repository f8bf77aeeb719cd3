"""Training with wrong labels: cross-entropy against two losses that are ten lines of mathematics each.

scikit-learn's handwritten digits, 40 % of the training labels replaced by another digit at random, a small network,
the same for every loss: the same initial weights, batches, learning rate and number of epochs. The test labels are
right. Accuracies are those after the last epoch; nothing is stopped early and nothing is chosen by looking at the test.

Run it with `make demo`. It writes examples/out/demo.png.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import lossdsl

HERE = Path(__file__).parent
PICTURE = HERE / "out" / "demo.png"
LOSSES = {
    "cross_entropy": "cross_entropy",  # from the library
    "generalized_cross_entropy": str(HERE / "generalized_cross_entropy.loss"),
    "taylor_cross_entropy": str(HERE / "taylor_cross_entropy.loss"),  # in no library: the file is all there is
}
COLOURS = dict(zip(LOSSES, ("#c0392b", "#2471a3", "#148f77"), strict=True))
SEEDS = (0, 1, 2)
WRONG = 0.4  # share of the training labels
EPOCHS = 60
BATCH = 64
HIDDEN = 256
RATE = 2e-3

Data = tuple[Tensor, Tensor, Tensor, Tensor]


def digits(seed: int) -> Data:
    """Images and labels to train on (40 % of the labels wrong) and to test on (all right)."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(images / 16, labels, test_size=0.25, random_state=seed, stratify=labels)
    train_x, test_x = (torch.tensor(part, dtype=torch.float32) for part in parts[:2])
    train_y, test_y = (torch.tensor(part) for part in parts[2:])
    generator = torch.Generator().manual_seed(seed)
    wrong = torch.rand(len(train_y), generator=generator) < WRONG
    other = (train_y + torch.randint(1, 10, train_y.shape, generator=generator)) % 10
    return train_x, torch.where(wrong, other, train_y), test_x, test_y


def train(loss_fn: nn.Module, data: Data, seed: int, after_epoch: Callable[[], None]) -> list[float]:
    """Test accuracy after each epoch."""
    train_x, train_y, test_x, test_y = data
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    accuracies = []
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(train_x), generator=generator).split(BATCH):
            optimizer.zero_grad()
            loss_fn(model(train_x[rows]), train_y[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            accuracies.append((model(test_x).argmax(1) == test_y).double().mean().item())
        after_epoch()
    return accuracies


def shape(loss_fn: nn.Module) -> tuple[Tensor, Tensor]:
    """The loss of one row and the pull on its logit, as the model's probability of the label goes from 0 to 1."""
    p = torch.linspace(0.002, 0.998, 400, dtype=torch.float64)
    logits = torch.stack([torch.logit(p), torch.zeros_like(p)], 1).requires_grad_()
    rows = loss_fn(logits, torch.zeros(len(p), dtype=torch.long), reduction="none")
    (gradient,) = torch.autograd.grad(rows.sum(), logits)
    return torch.stack([p, rows.detach()]), torch.stack([p, gradient[:, 0].abs()])


def picture(curves: dict[str, Tensor], losses: dict[str, nn.Module]) -> None:
    """Training curves (mean, and the range over seeds) on the left; what the losses look like on the right."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.6), width_ratios=(1.5, 1, 1))
    epochs = range(1, EPOCHS + 1)
    for name, runs in curves.items():
        colour, label = COLOURS[name], name.replace("_", " ")
        left.plot(epochs, 100 * runs.mean(0), color=colour, label=label, linewidth=2)
        left.fill_between(epochs, 100 * runs.amin(0), 100 * runs.amax(0), color=colour, alpha=0.15, linewidth=0)
        value, pull = shape(losses[name])
        middle.plot(*value, color=colour, linewidth=2)
        right.plot(*pull, color=colour, linewidth=2)
    left.set(title=f"Test accuracy, {WRONG:.0%} of training labels wrong", xlabel="epoch", ylabel="%")
    left.legend(frameon=False, loc="lower left")
    middle.set(title="The loss of one sample", xlabel="probability of its label", ylim=(0, 4))
    right.set(title="The pull on its logit", xlabel="probability of its label", ylim=(0, None))
    for axis in (left, middle, right):
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=130)
    plt.close(figure)


def table_of(curves: dict[str, Tensor]) -> Table:
    """Mean and standard deviation over the seeds, and the distance from cross-entropy."""
    table = Table(title=f"Test accuracy after the last epoch, {len(SEEDS)} seeds")
    table.add_column("loss")
    table.add_column("mean ± std", justify="right")
    table.add_column("against cross-entropy", justify="right")
    last = {name: 100 * runs[:, -1] for name, runs in curves.items()}
    for name, accuracies in last.items():
        gain = accuracies.mean().item() - last["cross_entropy"].mean().item()
        against = "" if name == "cross_entropy" else f"{gain:+.1f} points"
        table.add_row(name, f"{accuracies.mean().item():.1f} ± {accuracies.std().item():.1f} %", against)
    return table


def main() -> None:
    started = time.perf_counter()
    torch.set_num_threads(1)  # the matrices are small: a second thread costs more than it brings
    console = Console()
    console.print(f"{__doc__.splitlines()[0]}\n")
    losses = {name: lossdsl.loss(target) for name, target in LOSSES.items()}
    curves: dict[str, Tensor] = {}
    columns = (TextColumn("{task.description:<27}"), BarColumn(), TextColumn("{task.fields[now]}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        for name, loss_fn in losses.items():
            task = progress.add_task(name, total=len(SEEDS) * EPOCHS, now="")
            runs = []
            for seed in SEEDS:
                runs.append(train(loss_fn, digits(seed), seed, lambda task=task: progress.advance(task)))
                progress.update(task, now=f"seed {seed}: {runs[-1][-1]:.1%}")
            curves[name] = torch.tensor(runs, dtype=torch.float64)
    console.print(table_of(curves))
    picture(curves, losses)
    took = time.perf_counter() - started
    console.print(f"Training curves and the losses' shapes: {PICTURE.relative_to(HERE.parent)} ({took:.0f} s in all)")


if __name__ == "__main__":
    main()
