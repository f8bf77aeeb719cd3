"""What derivation can say it can't do."""

from __future__ import annotations

from lossdsl.source.text import Span


class NotDifferentiableError(Exception):
    """An operation without a derivative here; `derive` turns it into a Diagnostic at `origin`."""

    def __init__(self, op: str, origin: Span | None) -> None:
        self.op = op
        self.origin = origin
        super().__init__(f"{op} has no derivative")
