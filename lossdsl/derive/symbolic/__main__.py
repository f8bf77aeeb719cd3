"""`python -m lossdsl.derive.symbolic` prints the table of partial derivatives; --write writes it into its place."""

from __future__ import annotations

import sys
from pathlib import Path

import lossdsl.primitives
from lossdsl.derive.symbolic.table import table_text
from lossdsl.primitives.scan import declared_primitives


def main(arguments: list[str]) -> int:
    """Prints the table, or writes it with --write."""
    text = table_text(declared_primitives())
    if "--write" in arguments:
        Path(lossdsl.primitives.__path__[0], "table.py").write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
