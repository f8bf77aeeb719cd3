"""Codes of malformed text (E01xx)."""

from __future__ import annotations

from lossdsl.source.codes.record import ErrorCode, in_body

CODES: tuple[ErrorCode, ...] = (
    ErrorCode(
        "E0101",
        "the file is larger than 64 KiB, or a statement than 10 000 characters",
        "A loss is a few lines of mathematics; the limit keeps the time and memory of a compilation bounded.",
        "loss a\n" + "# a comment of forty characters, repeated\n" * 1600 + "input x[N]\nreturn x\n",
        "Split it into losses that call each other.",
    ),
    in_body(
        "E0102",
        "an expression is nested too deeply",
        "z = " + "(" * 101 + "x" + ")" * 101,
        "Brackets in brackets, or operands in operands, go at most 100 levels deep, so that every stage ends in "
        "bounded time and memory. A sum of more than 100 terms is that deep too.",
        "Give a part of the expression a name of its own.",
    ),
    in_body(
        "E0103",
        "a character that is not of the language",
        "z = 2 × x²",
        "Statements are written with letters (of any alphabet), plain digits and the operators of a keyboard. Signs "
        "that only look like them come with text copied from a paper or a web page.",
        "Type the plain character: `*` for ×, `-` for a dash, `<=` for ≤, `^2` for ².",
    ),
    in_body(
        "E0104",
        "brackets do not match",
        "z = exp((x + 1)",
        "Every bracket is closed by one of its own shape. Only intervals mix them: `in [0, inf)`.",
        "Add the missing bracket, or take the extra one out.",
    ),
    ErrorCode(
        "E0105",
        "a text is never closed",
        "A docstring stands between two triple quotes and may span lines; a citation between two quotes on one line.",
        'loss a\ncite "Somebody, 2020\ninput x[N]\nreturn x\n',
        "Close the quotes.",
    ),
    in_body(
        "E0106",
        "`**` is not an operator",
        "z = x**2",
        "A power is written as in mathematics, with one sign.",
        "Write `x^2`.",
    ),
    in_body(
        "E0107",
        "`=` and `==` are mixed up",
        "z = if y = 1 then x else 0",
        "One `=` gives a name its value; `==` compares two values.",
        "Write `==` in an expression, and one `=` behind the name that is assigned.",
    ),
    in_body(
        "E0108",
        "a name starts with the wrong case",
        "P = softmax(x)",
        "The first letter tells axes from values: capitals are axes (N, C, K'), small letters are everything else.",
        "Change the first letter.",
    ),
    in_body(
        "E0109",
        "a name that is assigned has a prime",
        "x' = x + 1",
        "A prime moves a value on along the batch: x' is x at another row. It isn't part of a name.",
        "Give the value a name of its own.",
    ),
    ErrorCode(
        "E0110",
        "a name is not made of letters, digits and `_`",
        "A name starts with a letter and goes on with letters, digits and `_`, at most 64 of them, so that it can "
        "stand in generated code.",
        "loss my-loss\ninput x[N]\nreturn x\n",
        "Write `_` for a hyphen, and leave out a leading `_`.",
    ),
    in_body(
        "E0111",
        "an axis is given as `dim=`",
        "z = softmax(x, dim=1)",
        "Axes have names, not numbers, so nothing depends on the order in which a tensor happens to hold them.",
        "Name the axis in brackets: `softmax[C](x)`.",
    ),
    in_body(
        "E0112",
        "a word of Python",
        "import torch",
        "A file is a list of equations: there are no imports, loops, classes or statements that do something.",
        "Say what the value is; reductions such as `sum[C](…)` run over axes.",
    ),
    ErrorCode(
        "E0113",
        "nothing is returned",
        "The loss of one row stands behind `return`, once, after the assignments.",
        "loss a\ninput x[N]\nz = x^2\n",
        "End the file with `return` and the loss.",
    ),
    ErrorCode(
        "E0114",
        "a statement stands in the wrong place",
        "A file reads in one order: head, docstring, citations, tags; inputs, params, axes; assignments; outputs; "
        "`return`; claims and examples.",
        "loss a\ninput x[N]\nreturn z\nz = x^2\n",
        "Move the statement to its place.",
    ),
    ErrorCode(
        "E0115",
        "the file has no head",
        "The first line says what the file is and what it is called: `loss focal`, or `map sparsemax` for a function "
        "that other files call.",
        "input x[N]\nreturn x\n",
        "Begin the file with `loss` and a name.",
    ),
    in_body(
        "E0116",
        "an unknown statement",
        "parm t = 1",
        "A line starts with a word of the language (input, param, axis, return, …) or with a name and `=`.",
        "Check the spelling of the first word.",
    ),
    in_body(
        "E0117",
        "a word of the language used as a name",
        "where = x > 0",
        "`if then else and or not where weighted in` hold expressions together and can't name a value.",
        "Choose another name.",
    ),
    in_body(
        "E0118",
        "a number that can't be read",
        "z = .5 * x",
        "A number has plain digits, digits on both sides of its point, at most 40 characters, and a value that "
        "float64 can hold.",
        "Write it out: `0.5`, `1000000`, `1e-6`.",
    ),
    in_body(
        "E0119",
        "comparisons in a chain",
        "z = if 0 < x < 1 then x else 0",
        "A comparison gives a boolean; comparing that with a number is never what is meant.",
        "Join two comparisons with `and`.",
    ),
    in_body(
        "E0120",
        "a construct with the wrong parts",
        "z = x |> relu",
        "Behind `|>` stands a call with its brackets; `root` binds one variable in a closed interval; behind a param "
        "stands at most `learnable`.",
        "Follow the form that the message shows.",
    ),
    in_body(
        "E0121",
        "an `if` out of shape",
        "z = x if x > 0 else 0",
        "A choice is written `if condition then value else other`: all three parts, in this order, in brackets "
        "where it is an operand.",
        "Write `if … then … else …`.",
    ),
    in_body(
        "E0122",
        "brackets that hold no index",
        "z = x[:, 0]",
        "Behind a value, brackets hold one index of a known axis (`x[target]`), or say for each axis what is put in "
        "its place (`x[C -> 0]`). Axes that are not named stay as they are.",
        "Name the axis: `x[C -> 0]`.",
    ),
    in_body(
        "E0123",
        "an unknown kind",
        "input mask[N]: boolean",
        "Inputs are real, `prob A`, bool, int, `index A` or label; params are real or int; drawn inputs are gumbel, "
        "uniform or normal.",
        "Use one of these.",
    ),
    in_body(
        "E0124",
        "something is called that is no function",
        "z = (x + 1)(x - 1)",
        "Only a name can be called; two values side by side are no product.",
        "Put `*` between factors.",
    ),
    in_body(
        "E0125",
        "the brackets of a call hold something else than axes",
        "z = softmax[1](x)",
        "Between a function's name and its arguments stand the names of axes.",
        "Write the axis: `softmax[C](x)`.",
    ),
    in_body(
        "E0126",
        "a statement ends too early",
        "z = x +",
        "Something must follow an operator, a comma or the first word of a statement.",
        "Complete the line.",
    ),
    in_body(
        "E0127",
        "something that can't stand here",
        "z = exp(x,, y)",
        "The statement could be read up to this place and not beyond it.",
        "Compare with the reference of the statement: `grammar/REFERENCE.md`.",
    ),
)
