"""Warnings: what is allowed and probably not meant."""

from __future__ import annotations

import re

from lossdsl.check.context import Context
from lossdsl.check.typed import CheckedLoss
from lossdsl.source.diagnostic import Diagnostic
from lossdsl.syntax.ast import LossDef

_IGNORE = re.compile(r"#\s*lossdsl:\s*ignore\s+([A-Z0-9, ]+)")


def lint(cx: Context, loss: LossDef, checked: CheckedLoss) -> tuple[Diagnostic, ...]:
    """The warnings of a loss that is right, without those that a comment `# lossdsl: ignore W0501` silences."""
    ignored = {code for m in _IGNORE.finditer(cx.source.text) for code in re.findall(r"W\d{4}", m.group(1))}
    found = [w for w in cx.warnings if w.code not in ignored]
    return tuple(sorted(found, key=lambda d: d.labels[0].span.start))
