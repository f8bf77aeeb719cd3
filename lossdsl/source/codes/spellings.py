"""Codes of spellings that other languages have, and of what stands in the wrong place (E0128 and on)."""

from __future__ import annotations

from lossdsl.source.codes.record import ErrorCode, in_body

CODES: tuple[ErrorCode, ...] = (
    in_body(
        "E0128",
        "an operator spelled as in another language",
        "z = if x > 0 && x < 1 then x else 0",
        "Booleans are joined by the words `and`, `or`, `not`; comparisons are == != < <= > >=.",
        "Write the word, or the comparison.",
    ),
    in_body(
        "E0129",
        "a method or an attribute",
        "z = x.mean()",
        "Values are numbers at each index of their axes; functions stand in front of them.",
        "Write `mean[C](x)`.",
    ),
    in_body(
        "E0130",
        "an operator that does not exist",
        "z = x // 2",
        "The operators are + - * / ^; everything else is a function with a name. A name gets one value, once.",
        "Write `floor(a / b)`, `mod(a, b)`, `dot[D](a, b)`, or assign to a new name.",
    ),
    in_body(
        "E0131",
        "two statements on a line",
        "z = x; u = z",
        "A statement ends with its line.",
        "Put the second one on the next line.",
    ),
    in_body(
        "E0132",
        "a value that goes nowhere",
        "exp(x)",
        "A line gives a name its value or returns it; nothing else happens in a file.",
        "Write `name = …` or `return …`.",
    ),
    in_body(
        "E0133",
        "an operator is missing",
        "z = 2 x",
        "A product needs its `*`: side by side, two values could as well be a call or a misspelled name.",
        "Put the operator or the comma between them.",
    ),
    in_body(
        "E0134",
        "`where` outside a reduction",
        "z = x where x > 0",
        "`where` and `weighted` say over which entries, and with which weights, a reduction runs.",
        "Write it inside the brackets of one, `mean[N](e where m)`, or choose with `if m then e else 0`.",
    ),
    in_body(
        "E0135",
        "a text in an expression",
        "z = norm[C](x, kind='l2')",
        "There are no strings: modes are plain names, and functions are called by theirs.",
        "Take the quotes off.",
    ),
    ErrorCode(
        "E0136",
        "round brackets where axes or inputs are declared",
        "Square brackets hold axes. The inputs of a file are declared one by one, not as arguments of its head.",
        "loss a\ninput x(N, C)\nreturn sum[C](x)\n",
        "Write `input x[N, C]`.",
    ),
    in_body(
        "E0137",
        "a declaration in the wrong order",
        "param t = 1: int",
        "A declaration reads: name and axes, kind, default, interval.",
        "Write `param t: int = 1 in [0, 9]`.",
    ),
    in_body(
        "E0138",
        "the left side of an assignment is more than a name",
        "z[N, C] = exp(x)",
        "Only a name is assigned; its axes and kind follow from the expression. A function starts with `def`.",
        "Write `z = …`, or `def f(x) = …`.",
    ),
    in_body(
        "E0139",
        "a param without a default",
        "param t in [0, 1]",
        "A loss can be built from its name alone, so every param has a value to start from.",
        "Write `param t = 1 in [0, 1]`.",
    ),
    ErrorCode(
        "E0140",
        "a hundred errors",
        "So many errors have one cause: the file is no .loss file, or a bracket or quote swallowed half of it.",
        "loss a\n" + "nothing\n" * 101 + "return 1\n",
        "Mend the first errors and look again.",
    ),
)
