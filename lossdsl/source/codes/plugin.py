"""Codes of plugins and packs (E07xx)."""

from __future__ import annotations

from lossdsl.source.codes.record import ErrorCode

CODES: tuple[ErrorCode, ...] = ()
