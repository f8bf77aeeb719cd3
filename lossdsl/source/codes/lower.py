"""Codes of what is right but can't be compiled (E08xx)."""

from __future__ import annotations

from lossdsl.source.codes.record import ErrorCode

_WIDE = "\n".join(f"x{i} = " + " + ".join(f"x{i - 1}[N -> N + {k}]" for k in range(1, 9)) for i in range(1, 8))

CODES: tuple[ErrorCode, ...] = (
    ErrorCode(
        "E0801",
        "the loss written out is too large",
        "Functions and substitutions are written out before anything is compiled; a bound on the size of the result "
        "keeps the time and memory of compiling any file within limits.",
        f"loss wide\ninput x0[N]\n{_WIDE}\nreturn x7\n",
        "say it with a reduction over an axis, or split the file",
    ),
    ErrorCode(
        "E0802",
        "this can't be compiled yet",
        "The construct is part of the language, but this version has no code for it in this place.",
        "loss flat\ninput x[N]\nreturn root(t in [0, 1]: x - floor(t))\n",
        "say it another way, or report that you need it",
    ),
    ErrorCode(
        "E0803",
        "the loss can't have a head",
        "A head is multiplied out a few rows at a time, and the product is never in memory whole. What is marked reads "
        "all rows at once, for an order or an eigenvalue say.",
        "loss sorted_scores\ninput logits[N, C]\npi = descending[N -> K](logits)\n"
        "return mean[C](sum[K](logits[pi] * K))\n",
        "compute the logits before the loss, which then takes them whole",
    ),
)
