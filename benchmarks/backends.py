"""Which backend runs which loss as a fused kernel: `make tables` runs this, which writes benchmarks/backends.md."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from lossdsl.api import registry
from lossdsl.coverage import NO, Covered, coverage
from lossdsl.pipeline import middle
from lossdsl.source.text import Source

TABLE = Path(__file__).with_name("backends.md")
HEAD = """# Which backend runs which loss, and how

Written by `make tables`. For value and gradient of a training step: *fused* is kernels alone, *tiles* is a matrix in
blocks, never whole, *partly* has library calls or passes over whole arrays beside kernels, *composed* is one pass over
memory an operation, *no* says what a backend has no words for (`backend="auto"` then takes the next). The number is
bytes an element of the largest input, float32, long axes.

"""


def cells(full: str) -> list[str]:
    """A row of the table: the loss, and what each backend makes of it."""
    known = registry()
    file = known.losses[full]
    made = middle(Source(file.path, file.read()), known)
    return [full, *map(cell, coverage(made, known).values())]


def cell(c: Covered) -> str:
    return f"no: {c.reason}".replace("|", "/") if c.how == NO else str(c)


def table(rows: list[list[str]]) -> str:
    names = sorted(registry().backends)
    lines = [HEAD, "| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for i, name in enumerate(names, 1):
        words = Counter(row[i].split(",")[0].split(" ")[0].rstrip(":") for row in rows)
        lines[0] += f"{name}: {', '.join(f'{n} {word}' for word, n in words.most_common())}  \n"
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def main() -> None:
    rows = []
    for full in sorted(registry().losses):
        rows.append(cells(full))
        print(f"\r{len(rows)} of {len(registry().losses)}", end="", file=sys.stderr)
    TABLE.write_text(table(rows))


if __name__ == "__main__":
    main()
