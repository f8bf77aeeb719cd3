"""Codes of calls of a built loss (E06xx)."""

from __future__ import annotations

from lossdsl.source.codes.record import ErrorCode

CODES: tuple[ErrorCode, ...] = ()
