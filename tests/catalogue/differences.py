"""Where golden files are not the equation of the paper: `python -m tests.catalogue.differences` prints the table."""

from __future__ import annotations

import json

from tests.catalogue import info, llm, metric, ranking, segmentation, std
from tests.catalogue.golden import FOLDER, Row

PACKS = {"std": std, "metric": metric, "segmentation": segmentation, "ranking": ranking, "llm": llm, "info": info}


def rows() -> dict[str, Row]:
    """Every golden file's row, by the file's name."""
    return {stem: row for pack in PACKS.values() for stem, row in pack.TABLE.items()}


def detached(stem: str) -> bool:
    """Whether the file's gradient is on purpose not the derivative of its value."""
    checks = json.loads((FOLDER / f"{stem}.json").read_text()).get("finite_difference_check") or {}
    return any(not check.get("is_true_derivative", True) for check in checks.values() if isinstance(check, dict))


def main() -> None:
    found = rows()
    for stem, row in sorted(found.items()):
        if row.differs:
            print(f"{stem:<40} {row.loss:<24} to {row.rtol:.0e}  {row.differs}")
    stopped = sorted(stem for stem in found if detached(stem))
    print(f"\n{len(stopped)} files hold a stopped gradient, matched as it is: {', '.join(stopped)}")
    print(f"{sum(row.rtol <= 1e-9 for row in found.values())} of {len(found)} files are matched to 1e-9")


if __name__ == "__main__":
    main()
