"""Which construct of the language is used by which losses: `python -m tests.catalogue.coverage`.

`names.tsv` lists every loss of the catalogue with its pack and the constructs that its equation needs (a row-wise
log-sum-exp is LSE, a gather of the target GATHER, a matrix over pairs of rows PAIR, over pairs along another axis
PAIRAXIS, a sort SORT, …).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lossdsl.api import registry
from lossdsl.packs.lookup import UnknownLossError, find_loss
from lossdsl.registry import LossFile

LIST = Path(__file__).with_name("names.tsv")


@dataclass(frozen=True)
class Entry:
    name: str
    pack: str
    constructs: tuple[str, ...]


def catalogue() -> tuple[Entry, ...]:
    """Every loss that the packs promise."""
    lines = LIST.read_text().splitlines()[1:]
    return tuple(Entry(n, p, tuple(c.split())) for n, p, c in (line.split("\t") for line in lines))


def found(entry: Entry) -> LossFile | None:
    """The file of a loss, by its name or an alias, in its own pack or another."""
    losses = registry().losses
    try:
        return losses.get(f"{entry.pack}/{entry.name}") or find_loss(losses, entry.name)
    except UnknownLossError:
        return None


def users() -> dict[str, set[str]]:
    """Construct → the full names of the files that use it; two names of one file count once."""
    uses: dict[str, set[str]] = {}
    for entry in catalogue():
        file = found(entry)
        for construct in entry.constructs:
            names = uses.setdefault(construct, set())
            if file is not None:
                names.add(f"{file.pack}/{file.name}")
    return uses


def promised() -> dict[str, int]:
    """Construct → how many names of the catalogue need it."""
    entries = catalogue()
    return {c: sum(c in e.constructs for e in entries) for e in entries for c in e.constructs}


def main() -> None:
    total = promised()
    for construct, names in sorted(users().items()):
        shown = ", ".join(sorted(names)[:3]) + (", …" if len(names) > 3 else "")
        print(f"{construct:<14} {len(names):>4} of {total[construct]:<4} {shown}")


if __name__ == "__main__":
    main()
