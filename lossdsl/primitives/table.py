"""Partial derivatives that sympy derived."""

from __future__ import annotations

from lossdsl.primitives.record import Formulas

TABLE: dict[str, Formulas] = {}
