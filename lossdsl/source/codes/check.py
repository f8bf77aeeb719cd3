"""Codes of names, axes and kinds (E02xx-E04xx)."""

from __future__ import annotations

from lossdsl.source.codes.record import ErrorCode

CODES: tuple[ErrorCode, ...] = ()
