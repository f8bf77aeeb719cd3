"""What other libraries call the losses that are here: the tables of `examples/migrating/`, one a library.

A row of such a table holds a call of the library, its further names, the call of lossdsl that gives the same, and what
differs. A wheel holds the folder as `lossdsl/migrating`; an editable install leaves it where it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path

SHORT = {"smp": "segmentation_models_pytorch", "pml": "pytorch_metric_learning", "torchvision": "torch"}
_CODE = re.compile(r"`([^`]+)`")
_NAME = re.compile(r"[A-Za-z_][\w.]*(?=\()")
_TYPE = re.compile(r'_type="(\w+)"')
_OURS = re.compile(r"\bloss\(\"(\w+)\"")


@dataclass(frozen=True, slots=True)
class Row:
    library: str  # "kornia"
    theirs: str  # FocalLoss(alpha=None, gamma=2.0)(maps, labels)
    also: tuple[str, ...]  # focal_loss
    ours: str  # loss("focal", gamma=2)(maps, labels)
    note: str  # where they differ; "1e-8: …" says how far they agree

    @property
    def names(self) -> tuple[str, ...]:
        """Every name under which the library knows it: those that the call uses, its types, and the further ones."""
        return (*_NAME.findall(self.theirs), *_TYPE.findall(self.theirs), *self.also)

    @property
    def losses(self) -> tuple[str, ...]:
        """The losses that our call is made of."""
        return tuple(dict.fromkeys(_OURS.findall(self.ours)))


def folder() -> Path:
    """Where the tables are."""
    installed = Path(str(files("lossdsl"))) / "migrating"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "examples" / "migrating"


def read_rows() -> tuple[Row, ...]:
    """The rows of all tables, in the order of libraries and lines."""
    rows = []
    for path in sorted(folder().glob("*.md")):
        if path.stem != "README":
            rows += [
                _row(path.stem, line) for line in path.read_text(encoding="utf-8").splitlines() if line[:3] == "| `"
            ]
    return tuple(rows)


def _row(library: str, line: str) -> Row:
    left, right, note = (cell.strip() for cell in line.strip().strip("|").split("|"))
    theirs, *also = _CODE.findall(left)
    return Row(library, theirs, tuple(also), right.strip("`"), note.replace("`", ""))


def alike(rows: Iterable[Row], wanted: str) -> tuple[Row, ...]:
    """The rows that a name means: `kornia.FocalLoss`, `torch.nn.CrossEntropyLoss`, `FocalLoss`, `focal_loss`, or that
    of a loss that is here. Capitals and underscores make no difference; a row whose first name it is comes first."""
    library, rest = _library(wanted), wanted.partition(".")[2]
    known = {row.library for row in rows}
    bare = _bare(rest if library in known and rest else wanted)
    found = [row for row in rows if library not in known or row.library == library]
    if library in known and not rest:
        return tuple(found)
    hits = [row for row in found if bare in map(_bare, (*row.names, *row.losses))]
    return tuple(sorted(hits, key=lambda row: _bare(row.names[0]) != bare))


def optional(rows: Iterable[Row], loss: str, option: str) -> Row | None:
    """The row that gives what `option=` asks for, of a function that without it is `loss` here, if one says so.

    `weight` of `cross_entropy` is torch's `nn.CrossEntropyLoss(weight=…)`, which is another loss.
    """
    rows = tuple(rows)
    theirs = {(row.library, row.names[0]) for row in rows if row.losses == (loss,)}
    asked = re.compile(rf"[(,]\s*{re.escape(option)}=")
    found = (row for row in rows if (row.library, row.names[0]) in theirs and asked.search(row.theirs))
    return next(found, None)


def near(rows: Iterable[Row], wanted: str) -> tuple[str, ...]:
    """Up to three names that the given one is likely a slip of, with their libraries; the named library's first."""
    library = _library(wanted)
    rows = sorted(rows, key=lambda row: row.library == library)  # a later one takes a name's place
    names = {_bare(name): f"{row.library}.{name}" for row in rows for name in row.names}
    close = get_close_matches(_bare(wanted), names, n=3, cutoff=0.6)
    return tuple(names[name] for name in close)


def _library(name: str) -> str:
    first = name.partition(".")[0]
    return SHORT.get(first, first)


def _bare(name: str) -> str:
    return name.rsplit(".", 1)[-1].replace("_", "").lower()
