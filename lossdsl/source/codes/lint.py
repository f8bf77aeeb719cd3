"""Codes of warnings (W05xx)."""

from __future__ import annotations

from lossdsl.source.codes.record import ErrorCode

CODES: tuple[ErrorCode, ...] = ()
