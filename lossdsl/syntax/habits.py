"""What people write from habit, and what the language has instead: data for `mistakes.py`.

`NEVER` are spellings that no right statement holds; all of those in a statement are reported. `AT` are read where the
parser stopped: `before` must end there and `after` start there; the first row that fits explains the error. Braces in
`message` and `fix` are filled with the named groups of the patterns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = r"[^\W\d]\w*'*"
_OPERAND = r"(?:[\w'\])])\s*"  # the end of one
_NUMBER = r"-?(?:\d[\d.]*(?:[eE][-+]?\d+)?|inf\b)"
_INTERVAL = rf"[\[(]\s{{0,9}}{_NUMBER}\s{{0,9}},\s{{0,9}}{_NUMBER}\s{{0,9}}[\])]"
_OPERATOR = r"(?:[-+*/^<>=,(\[]|\b(?:and|or|not|then|else|where|weighted|return|if))\s*"


@dataclass(frozen=True, slots=True)
class Never:
    """A spelling with no place in the language, or in statements of `rules`; its group `mark` is underlined."""

    code: str
    pattern: re.Pattern[str]
    message: str
    label: str
    fix: str
    rules: frozenset[str] = frozenset()  # empty: any


@dataclass(frozen=True, slots=True)
class At:
    """What it means when the parser stops between `before` and `after`, in statements of the rules `rules`."""

    code: str
    before: re.Pattern[str]
    after: re.Pattern[str]
    message: str
    label: str
    fix: str
    rules: frozenset[str] = frozenset()  # empty: any


def _never(code: str, pattern: str, message: str, label: str, fix: str, rules: str = "") -> Never:
    return Never(code, re.compile(pattern), message, label, fix, frozenset(rules.split()))


def _at(code: str, before: str, after: str, message: str, label: str, fix: str, rules: str = "") -> At:
    return At(code, re.compile(f"(?:{before})\\Z"), re.compile(after), message, label, fix, frozenset(rules.split()))


NEVER = (
    # the interval of a param
    _never("E0137", rf"\b(?P<x>{_NAME})\s{{0,9}}(?:in\s{{0,9}})?(?P<i>{_INTERVAL})\s{{0,9}}=\s{{0,9}}(?P<n>{_NUMBER})",
           "the interval comes last", "too early here", "write `{x} = {n} in {i}`", "param"),
    _never("E0137", rf"(?<==)\s{{0,9}}(?P<mark>(?P<n>{_NUMBER})\s{{0,9}},?\s{{0,9}}(?P<i>{_INTERVAL}))",
           "a param's interval stands behind `in`", "an interval?", "write `{n} in {i}`", "param"),
    _never("E0137", r",(?=\s{0,9}in\b)", "no comma stands before `in`", "here", "take it out", "param input"),
    # operators
    _never("E0106", r"\*\*", "`**` is not an operator", "a power?", "write `^`"),
    _never("E0128", r"&&?", "`{all}` is not an operator", "for booleans?", "write `and`"),
    _never("E0128", r"\|\||\|(?!>)", "`{all}` is not an operator", "for booleans?",
           "write `or` between booleans, `abs(x)` for |x|, `|>` before a call"),
    _never("E0128", r"~(?!\s{0,9}(?:normal|uniform|gumbel|randn?|gauss\w*)\b)",
           "`~` is not an operator", "for booleans?", "write `not`"),
    _never("E0128", r"!(?!=)", "`!` is not an operator", "for booleans?", "write `not`"),
    _never("E0128", r"<>|=!", "`{all}` is not an operator", "a comparison?", "write `!=`"),
    _never("E0128", r"=<", "`=<` is not an operator", "a comparison?", "write `<=`"),
    _never("E0128", r"=>", "`=>` is not an operator", "a comparison?", "write `>=`"),
    _never("E0128", r"={3,}", "`{all}` is not an operator", "a comparison?", "write `==`"),
    _never("E0103", r"\\[dt]?frac\b", "`{all}` is LaTeX", "a command", "write `a / b`"),
    _never("E0103", r"\\(?:cdot|times)\b", "`{all}` is LaTeX", "a command", "write `*`"),
    _never("E0103", r"\\(?:left|right|big|Big|quad|displaystyle)\b", "`{all}` is LaTeX", "a command", "take it out"),
    _never("E0103", r"\\(?P<f>[A-Za-z]+)", "`{all}` is LaTeX", "a command", "write `{f}`, without the backslash"),
    _never("E0130", r"(?m:^[ \t]*//.*)", "`//` starts no comment", "a comment?", "write `#`"),
    _never("E0130", r"//", "`//` is not an operator", "a division without a rest?", "write `floor(a / b)`"),
    _never("E0130", r"%", "`%` is not an operator", "a remainder?", "write `mod(a, b)`"),
    _never("E0130", r"@", "`@` is not an operator", "a product of matrices?",
           "name the axis summed over: `dot[D](a, b)`"),
    _never("E0130", rf"\b(?P<x>{_NAME})\s{{0,9}}(?P<op>[-+*/^])=(?!=)", "`{op}=` is not an assignment",
           "a name is assigned once", "give the new value a name of its own: `{x}2 = {x} {op} …`"),
    _never("E0130", r"(?P<op>[-+*/^])=(?!=)", "`{all}` is not an assignment", "a name is assigned once",
           "give the new value a new name"),
    _never("E0130", r":=", "`:=` is not an assignment", "here", "write `=`, on a line of its own"),
    _never("E0131", r";(?=[ \t\"]*(?:\n|\Z))", "a statement ends with its line", "nothing more here", "take it out"),
    _never("E0131", r";", "one statement stands on a line", "a second one?", "put it on the next line"),
    _never("E0129", rf"\b(?:{_NAME}\.){{1,6}}one_hot\b", "functions have no library in front of them",
           "Python, not .loss",
           "a one-hot matrix is the comparison of an axis with an index: `C == target`"),
    _never("E0129", rf"\b(?P<lib>torch|np|numpy|jnp|tf|math|F|nn)(?:\.{_NAME}){{0,6}}\.(?P<f>{_NAME})",
           "functions have no library in front of them", "Python, not .loss", "write `{f}`"),
    _never("E0129", rf"\b(?P<x>{_NAME})\.(?P<f>T|mT|t)\b(?:\(\))?", "a value has no attributes", "a transpose?",
           "exchange the axes by name: `{x}[N -> N', N' -> N]`"),
    _never("E0129", rf"\b(?P<x>{_NAME})\.(?P<f>shape|size|ndim|numel)\b", "a value has no attributes", "a size?",
           "name the axis: `size(C)`"),
    _never("E0129", rf"\b(?P<x>{_NAME})\.(?P<f>detach|exp|log|sqrt|abs|relu|sigmoid|tanh|clip|round)\b",
           "a value has no methods", "functions come first", "write `{f}({x})`"),
    _never("E0129", rf"\b(?P<x>{_NAME})\.(?P<f>sum|mean|max|min|prod|softmax|log_softmax|logsumexp|norm|var|argmax)\b",
           "a value has no methods", "functions come first", "write `{f}[{axis}]({x})`, with the name of the axis"),
    _never("E0129", r"(?<=[\])])\.(?P<f>sum|mean|max|min|prod|softmax|log_softmax|logsumexp|norm|var|argmax)\b",
           "a value has no methods", "functions come first", "write `{f}[{axis}](…)`, with the name of the axis"),
    _never("E0129", rf"(?<=[\w'\])])\.(?P<f>{_NAME})", "a value has no methods or attributes", "functions come first",
           "write `{f}(…)`"),
    _never("E0122", r"\[\s*(?:(?::|\.\.\.)\s*,\s*){0,3}None\s*(?:,\s*(?::|\.\.\.)\s*){0,3}\]", "there are no slices",
           "a new axis?", "take it out: axes have names; `x'` is x for another row, as in `x - x'`"),
    _never("E0122", r"\.\.\.", "`...` stands for no axes", "axes have names", "name the axes; those not named stay"),
    _never("E0112", rf"^(?P<f>{_NAME})\s*=\s*lambda\s+(?P<x>[\w\s,]{{1,40}}?)\s*:", "`lambda` is Python, not .loss",
           "a function?", "write `def {f}({x}) = …`", "assign"),
    _never("E0112", r"\blambda\b(?=[\s\w,]*:)", "`lambda` is Python, not .loss", "a function?", "write `def f(x) = …`"),
    _never("E0112", r"(?<![\w.])True\b", "`True` is Python, not .loss", "not a value here",
           "write 1, or the comparison itself"),
    _never("E0112", r"(?<![\w.])False\b", "`False` is Python, not .loss", "not a value here",
           "write 0, or the comparison itself"),
    _never("E0112", r"(?<![\w.])None\b", "`None` is Python, not .loss", "not a value here",
           "leave it out: an input with a default may be left out of a call"),
    _never("E0112", r"\belif\b", "`elif` is Python, not .loss", "here", "write `else if … then …`"),
    _never("E0112", r"(?<=[\w)\]]) (?:is not|is)\b", "`is` is Python, not .loss", "a comparison?",
           "write `==` or `!=`"),
)  # fmt: skip

AT = (
    # heads and declarations
    _at("E0110", rf".*?\b(?P<a>{_NAME})", r"-(?P<b>\w+)", "a name holds letters, digits and `_`", "not in a name",
        "write `{a}_{b}`", "loss_head map_head alias tags"),
    _at("E0136", r"\w+\s+\w+\s*", r"\(", "the head holds the name alone", "arguments?",
        "declare each tensor on a line of its own: `input logits[N, C]`", "loss_head map_head"),
    _at("E0127", ".*", ":", "a head has no colon at its end", "not expected here", "take it out", "loss_head map_head"),
    _at("E0136", rf".*?\b(?P<x>{_NAME})\s*", r"\((?P<axes>[^()]*)\)?", "axes stand in square brackets",
        "round ones here", "write `{x}[{axes}]`", "input param"),
    _at("E0136", rf".*?\b(?P<x>{_NAME})\s*:\s*", r"(?P<axes>\[[^\]]*\])", "axes stand right behind the name",
        "not here", "write `{x}{axes}`", "input param"),
    _at("E0139", rf".*?\b(?P<x>{_NAME})\s*:?\s*", r"(?P<n>-?\d[\d.]*)", "a param's default stands behind `=`",
        "a default?", "write `{x} = {n}`", "param"),
    _at("E0137", r".*=.*", r":\s*(?P<kind>\w+)", "the kind comes before the default", "too late here",
        "write `name: {kind} = …`", "input param"),
    _at("E0139", r".*", r"in\b", "a param has a default", "missing before this", "write `param name = 1 in …`",
        "param"),
    _at("E0137", r".*\bin\s*[\[(].*[\])]\s*", r"(?:=|:).*", "the interval comes last", "too late here",
        "write kind, default, interval: `name: int = 1 in [0, 9]`", "input param"),
    _at("E0127", rf"def\s+{_NAME}\s*\([^()]*?(?P<x>{_NAME})\s*", r"=\s*(?P<n>-?[\d.]*\d)",
        "a def's parameters have no defaults", "a default?", "declare it above: `param {x} = {n}`", "def_"),
    _at("E0112", r".*\)\s*", r":", "a def has no colon and no return", "Python, not .loss", "write `def f(x) = …`",
        "def_"),
    _at("E0137", r".*", r"where\b", "`where` has no place in this declaration", "not expected here",
        "say which entries there are in `axis T where …`", "input param"),
    _at("E0136", rf".*?\b(?P<x>{_NAME})\s*\[(?P<a>[^\[\]]*)\]\s*", r"\[(?P<b>[^\[\]]*)\]",
        "axes stand in one bracket", "a second one", "write `{x}[{a}, {b}]`", "input param"),
    _at("E0136", rf".*?\b(?P<x>{_NAME})\s*:\s*\w+\s*", r"(?P<axes>\[[^\[\]]*\])",
        "axes stand right behind the name", "not here", "write `{x}{axes}`", "input param"),
    # the left side of an assignment
    _at("E0107", rf"{_NAME}\s*=", r"=", "`==` compares; an assignment has one `=`", "a second one", "write `=`",
        "assign"),
    _at("E0138", rf"{_NAME}\s*", r",(?=[^=]*=[^=])", "an assignment has one name on its left", "a second name",
        "write one line for each name", "assign"),
    _at("E0138", rf"(?P<f>{_NAME})\s*", r"\((?P<x>[^()]*)\)\s*=(?!=)", "only a name stands left of `=`", "a function?",
        "write `def {f}({x}) = …`", "assign"),
    _at("E0138", rf"(?P<f>{_NAME})\s*", r"\[[^\]]*\]\s*=(?!=)", "only a name stands left of `=`", "not its axes",
        "write `{f} = …`: its axes follow from the right side", "assign"),
    _at("E0138", rf"(?P<x>{_NAME})\s*", r":(?=.*=)", "only inputs and params have kinds", "not expected here",
        "write `{x} = …`", "assign"),
    _at("E0132", rf"{_NAME}\s*", r"[\[(+\-*/^<>|]|!=|\Z", "nothing is done with this value",
        "neither assigned nor returned",
        "write `name = …` or `return …`", "assign"),
    _at("E0107", r".*\bwhen\b.*=", r"=", "a condition sets a value with one `=`", "a second one", "write `=`", "claim"),
    _at("E0107", rf"example\s+(?:.*,\s*)?{_NAME}\s*=", r"=", "an example sets a value with one `=`", "a second one",
        "write `=`", "example"),
    # if
    _at("E0112", r"(?:.*\b)?(?:if|else)\b[^:]*", r":", "an `if` has no colon", "Python, not .loss",
        "write `if … then … else …`"),
    _at("E0121", r".*\bif\b.*", r"\Z", "an `if` needs `then` and `else`", "ends here",
        "write `if … then … else …`"),
    _at("E0121", r".*\bif\b.*", r"\)|\]|,", "an `if` needs `then` and `else`", "before this",
        "write `if … then … else …`"),
    _at("E0121", rf".*{_OPERAND}", r"if\b.*", "an `if` starts with its condition", "behind a value",
        "write `if condition then value else other`"),
    _at("E0121", rf".*{_OPERATOR}", r"if\b", "an `if` inside an operation needs brackets", "here",
        "write `(if … then … else …)`"),
    _at("E0121", r".*", r"(?P<word>then|else)\b", "`{word}` belongs to an `if`", "there is none before it",
        "write `if … then … else …`"),
    # numbers and products
    _at("E0118", r".*[\d]\s*", r"\.(?!\d)", "a decimal point has digits on both sides", "none behind this",
        "write `1.0`, or just `1`"),
    _at("E0118", r".*\d", r"_\d", "a number holds no `_`", "here", "take it out"),
    _at("E0118", r".*", r"\.\d+", "a decimal point has digits on both sides", "none before it", "write `0{all}`"),
    _at("E0133", r".*?(?P<n>\d+(?:\.\d+)?)", rf"(?P<x>{_NAME})", "a product needs its `*`",
        "a factor without an operator",
        "write `{n} * {x}`"),
    # the word where
    _at("E0134", r".*", r"(?P<word>where|weighted)\b", "`{word}` stands in the brackets of a reduction",
        "not expected here",
        "write `mean[N](e {word} …)`"),
    # brackets
    _at("E0122", r".*\[\s*", rf":\s*,\s*(?P<y>{_NAME})\s*\]", "there are no slices", "a Python slice",
        "write `…[{y}]`: axes that aren't named stay"),
    _at("E0122", r".*[\[,]\s*", r":", "there are no slices", "a Python slice",
        "put the index behind the axis: `x[C -> 0]`; axes that aren't named stay"),
    _at("E0122", r".*\[[^\[\]]*", r":", "there are no slices", "a Python slice",
        "say which entries count in a reduction: `sum[C](x where C < k)`"),
    _at("E0122", r".*\[\s*", r"\]", "the brackets hold no index", "nothing here", "write `x[C -> 0]` or `x[target]`"),
    _at("E0127", r".*,\s*", r"[\])]", "nothing follows the last comma", "something is missing here",
        "take the comma out"),
    _at("E0126", rf".*{_OPERATOR}", r"[\])]", "something is missing before `{all}`", "here", ""),
    _at("E0122", r".*-", r">", "`->` stands in brackets behind an axis: `x[A -> i]`, or in a claim's `when`",
        "not expected here", ""),
    # the rest
    _at("E0107", r".*", r"=(?!=)", "`=` assigns; a comparison is written `==`", "one here", "write `==`",
        "assign return_ claim def_ axis expr input param"),
    _at("E0135", r"\s*", r"(?:'{3}|[\"']).*", "a docstring stands in three double quotes", "a quoted text",
        'write `"""…"""`'),
    _at("E0135", r"\w+\s*", r"(?P<q>['\"])(?P<text>[^\W\d]\w*)(?P=q)", "a name has no quotes", "a quoted word",
        "write `{text}`", "loss_head map_head alias tags"),
    _at("E0135", r".*\breduction\s*=\s*", r"(?P<q>['\"])\w*(?P=q)", "text has no place in an expression",
        "a quoted word", "take `reduction=` out: the caller says it"),
    _at("E0135", r".*", r"(?P<q>['\"])(?P<text>[^\W\d]\w*)(?P=q)", "text has no place in an expression",
        "a quoted word",
        "modes are plain names: write `{text}`"),
    _at("E0135", r".*", r"'[^']*'?|\"[^\"]*\"?", "text has no place in an expression", "a quoted text", ""),
    _at("E0127", r".*\bwhen\b.*", r"and\b", "conditions are separated by commas", "not expected here", "write `,`",
        "claim"),
    _at("E0127", rf".*{_OPERATOR}", r"\+", "a `+` stands between two values", "nothing before it", "take it out"),
    _at("E0127", rf".*{_OPERATOR}", r"not\b", "`not` inside a comparison needs brackets", "here", "write `(not …)`"),
    _at("E0127", rf".*{_OPERAND}", r"in\b", "`in` stands in a declaration, before an interval", "not expected here",
        "write `x >= low and x <= high`, or `any[K](x == y)` for one of several", "assign return_ def_ claim expr"),
    _at("E0137", r".*[\w'\]]\s+", r"(?P<kind>(?:real|prob|bool|int|index|label)\b(?:\s+[A-Z]\w*)?)",
        "a kind stands behind a colon", "none before this", "write `: {kind}`", "input"),
    _at("E0133", rf".*{_OPERAND}", rf"(?P<x>{_NAME})", "a comma is missing", "before this", "write `, {x}`",
        "input param batch"),
    _at("E0133", r"(?:.*[^\w.])?(?P<f>log|exp|sqrt|abs|sin|cos|tan|tanh|relu|sigmoid|softplus|softmax|log_softmax)\s+",
        rf"(?P<x>{_NAME}(?:\[[^\[\]]*\]|\([^()]*\))?|\d[\d.]*)", "what a function takes stands in brackets",
        "without brackets", "write `{f}({x})`"),
    _at("E0133", rf".*{_OPERAND}", rf"(?P<x>{_NAME}|\d[\d.]*)", "an operator or a comma is missing", "before this",
        "put `*` between two factors, a comma between arguments"),
    _at("E0133", rf".*{_OPERAND}", r"\(", "an operator or a comma is missing", "before this",
        "put `*` between two factors"),
    _at("E0127", r".+", r"\{", "braces hold the names of a mode, in a param", "not expected here",
        "give each value a name of its own", "assign return_ def_ claim expr"),
    _at("E0127", r".+", r"\{", "braces hold the names of a mode, in a param", "not expected here", ""),
    _at("E0127", r".+", r":", "a colon stands before a kind, in an input, a param or a def", "not expected here", ""),
    _at("E0127", rf".*{_OPERATOR}", r"(?:[-+*/^<>=]=?|,|\|>|and\b|or\b)", "a value is missing before `{all}`",
        "here", ""),
    _at("E0127", r".*\[[^\]]*", r"\d+", "axes have names, not numbers", "a size?",
        "write a capital name, as in `x[N, C]`; `axis C = 10` says a size",
        "input param def_ batch axis"),
    _at("E0127", r"[^(\[]*|.*[\])][^(\[]*", r",", "one value is returned", "a second one",
        "write `output name` above, to hand a value out beside the loss", "return_"),
    _at("E0127", r"(?:.*[^\w'\])\s])?\s*\([^()]*", r",", "round brackets hold one value", "a second one",
        "write numbers in a row as `[1, 2]`", "assign return_ def_ claim expr"),
    _at("E0127", r".+", r",", "a comma stands between arguments, in brackets", "not expected here", ""),
)  # fmt: skip

# What is missing where a statement ends too early, by its rule.
ENDS = {
    "loss_head": "a name must follow, as in `loss focal`",
    "map_head": "a name must follow, as in `map sparsemax`",
    "alias": "a name must follow, as in `alias ce`",
    "cite": "a quoted text must follow",
    "tags": "a word must follow, as in `tags classification`",
    "input": "a name and its axes must follow, as in `input logits[N, C]`",
    "axis": "an axis must follow, as in `axis K = 3` or `axis T where mask`",
    "batch": "axes must follow, as in `batch N, V`",
    "def_": "a def is written `def f(x) = …`",
    "output": "a name must follow",
    "return_": "a value must follow",
    "claim": "a statement about the loss must follow, as in `claim loss >= 0`",
    "example": "an example is written `example x = [1, 2] gives 0.5`",
}
