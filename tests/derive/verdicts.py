"""What became of every claim of the library, as a table: `python -m tests.derive.verdicts` decides all and writes it.

The table is what a run of all found last, kept so that the figures can be counted in a moment. It isn't trusted:
`make test` decides a sample anew, `make test-all` all of it.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from lossdsl.api import registry
from lossdsl.derive.claims.decide import decide
from lossdsl.pipeline import front
from lossdsl.source.text import Source

TABLE = Path(__file__).with_suffix(".tsv")
Row = tuple[str, str, str, str]  # loss, claim, status, how


def decided(full: str) -> list[Row]:
    """The verdicts of one loss."""
    path = Path(registry().losses[full].path)
    made = front(Source(str(path), path.read_text()), registry())
    found = decide(made.lossdef, made.checked, registry())
    return [(full, " ".join(v.claim.split()), v.status, v.detail if v.status == "proved" else "") for v in found]


def library() -> list[str]:
    """The full names of the losses of the packs."""
    return sorted(full for full in registry().losses if "/" in full)


def read() -> list[Row]:
    """The table's rows."""
    rows = [tuple(line.split("\t")) for line in TABLE.read_text(encoding="utf-8").splitlines()]
    assert all(len(row) == 4 for row in rows)
    return rows  # type: ignore[return-value]


def kind_of(claim: str) -> str:
    """Which of the kinds of claims it is."""
    for word in ("shift_invariant", "symmetric", "convex", "lipschitz", "proper", "grad"):
        if claim.startswith(word):
            return word
    return "limit" if "->" in claim else "identity" if claim.startswith("loss ==") else "bound"


def counts(row: Row) -> bool:
    """Whether it says more than the definition: not a sign that the expression shows by its form, nor a gradient,
    which the derivation itself gives."""
    _, claim, _, how = row
    return kind_of(claim) != "grad" and not how.startswith("by the range of the expression")


def main() -> None:
    with ProcessPoolExecutor(2) as workers:
        rows = [row for rows in workers.map(decided, library()) for row in rows]
    TABLE.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
