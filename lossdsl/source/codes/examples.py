"""Codes of examples and claims that don't hold (E09xx)."""

from __future__ import annotations

from lossdsl.source.codes.record import ErrorCode

CODES: tuple[ErrorCode, ...] = (
    ErrorCode(
        code="E0901",
        title="an example gives another value than the file says",
        reason="An example pins what the equation means. Its value is computed at 50 digits from the file's own "
        "equation, and must agree with every digit that is given; a whole number is meant exactly.",
        example="loss half\ninput x[N]\nreturn x / 2\nexample x = [3] gives 1.4\n",
        fix="correct the equation, or write the value that it gives: `gives 1.5`",
    ),
    ErrorCode(
        code="E0902",
        title="an example's tensors don't fit the loss",
        reason="An example is a call: each input has the axes it is declared with, every axis has one size, and inputs "
        "without a default are given.",
        example="loss half\ninput x[N]\nreturn x / 2\nexample x = [[3]] gives 1.5\n",
        fix="give each input a list as deep as it has axes: `x = [3]`",
    ),
    ErrorCode(
        code="E0903",
        title="a claim is false",
        reason="A claim is proved by rewriting, by signs, by curvature, by intervals over the whole domain or by "
        "algebra, or it is tried at points to 40 digits. At the point that is shown, which is as small as it could be "
        "made, it does not hold.",
        example="loss half\ninput x[N]\nreturn x / 2\nclaim loss >= 0\n",
        fix="correct the equation, or say for which inputs the claim holds: `input x[N] in [0, inf)`",
    ),
    ErrorCode(
        code="E0904",
        title="a claim that can't be decided",
        reason="Claims are equations and bounds of `loss`, equations of `grad(x)`, bounds of `lipschitz(x)`, and the "
        "properties `shift_invariant(x)`, `symmetric(target)`, `convex(x)` and `proper`. A limit, `when p -> v`, is of "
        "an equation of the loss; symmetry is about an index, properness about a row of logits and a target.",
        example="loss half\ninput x[N]\nreturn x / 2\nclaim proper\n",
        fix="state one of these, or say it in the docstring",
    ),
)
