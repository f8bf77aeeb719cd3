"""Codes of warnings (W05xx). A comment `# lossdsl: ignore W0501` anywhere in the file silences one."""

from __future__ import annotations

from lossdsl.source.codes.record import ErrorCode

_ROW = "loss example\ninput logits[N, C]\ninput target[N]: index C\n"

CODES: tuple[ErrorCode, ...] = (
    ErrorCode(
        "W0501",
        "a log that can see 0",
        "The log of 0 is -inf and its derivative infinite. Logs of softmax, sigmoid and exp are exact and not meant.",
        "loss example\ninput x[N, D]\nreturn log(sum[D](x^2))\n",
        "Say the interval of the input, `in (0, inf)`, or keep the argument away from 0.",
    ),
    ErrorCode(
        "W0502",
        "an infinite slope",
        "The derivative of a root is infinite at 0: one exact zero makes the whole gradient infinite.",
        "loss example\ninput x[N, D]\nreturn sqrt(sum[D](x^2))\n",
        "Take `norm[D](x)`, or another function whose gradient at 0 is 0.",
    ),
    ErrorCode(
        "W0503",
        "a constant that is nothing in half precision",
        "Numbers below 6e-8 are 0 in half precision. Most small constants are there against a log of 0, which the "
        "compiler avoids by itself.",
        "loss example\ninput x[N, D]\nreturn sum[D](x) / (sum[D](abs(x)) + 1e-12)\n",
        "Make it a param, or leave it out.",
    ),
    ErrorCode(
        "W0504",
        "a softmax over one entry",
        "The softmax of a single entry is 1 whatever the entry is.",
        "loss example\naxis K = 1\ninput x[N]\nz = x * (K + 1)\nreturn sum[K](x * softmax[K](z))\n",
        "A single logit wants `sigmoid`.",
    ),
    ErrorCode(
        "W0505",
        "a name that is not used",
        "What is declared and never read is mostly a slip.",
        _ROW + "param t = 1 in (0, inf)\nreturn -log_softmax(logits)[target]\n",
        "Use it, or take it out.",
    ),
    ErrorCode(
        "W0506",
        "smoothing over masked classes",
        "A masked class has log-probability -inf; the sum over all classes is then -inf.",
        _ROW
        + "input ok[N, C]: bool\nlogp = log_softmax(if ok then logits else -inf)\n"
        + "return -sum[C](logp) - logp[target]\n",
        "Leave the class out of the sum too, or declare `axis C where ok`.",
    ),
    ErrorCode(
        "W0507",
        "a reduction that the caller can't replace",
        "`return -mean[N](x)` is a batch loss: its value is the same, but `reduction=` has no say in it.",
        "loss example\ninput x[N]\nreturn -mean[N](x)\n",
        "Move the sign or factor inside: `return mean[N](-x)`.",
    ),
    ErrorCode(
        "W0508",
        "an input whose gradient is zero everywhere",
        "Only comparisons, rounding, orders or detached values of the input count, none of which has a gradient.",
        "loss example\ninput x[N], score[N]\nreturn if score > 0 then x else 0\n",
        "Declare the input `: fixed`.",
    ),
    ErrorCode(
        "W0509",
        "a function that exists for rounding's sake",
        "The value of a file is that of its equation; the compiler finds the accurate form by itself.",
        "loss example\ninput x[N]\nreturn log1p(exp(x))\n",
        "Write the plain form: `log(1 + exp(x))`.",
    ),
    ErrorCode(
        "W0511",
        "a name that Python keeps for itself",
        "An input or a param is an argument of the module's call. A word of Python, an option of every call or a "
        "method of torch modules can't be its name there, so it gets an underscore: `lambda` is passed as `lambda_`.",
        "loss example\ninput x[N]\nparam lambda = 0.5\nreturn lambda * x\n",
        "Rename it, or pass it with the underscore.",
    ),
    ErrorCode(
        "W0510",
        "a power of what may be negative",
        "With an exponent that need not be whole, a negative base has no real power: the value is NaN.",
        "loss example\ninput x[N]\nparam p = 2 in [1, inf)\nreturn x^p\n",
        "Take `abs(x)`, say the interval of the input, or make the exponent `: int`.",
    ),
    ErrorCode(
        "W0512",
        "a choice at a single point",
        "`if` takes value and gradient from the branch taken alone. A branch for one point repairs the value there, "
        "and not the derivatives: sin(x)/x with 1 at 0 would have the second derivative 0 there for -1/3.",
        "loss example\ninput x[N]\nreturn if x == 0 then 1 else sin(x) / x\n",
        "Guard a neighbourhood with the first terms of the series: `if abs(x) < 0.01 then 1 - x^2 / 6 else …`.",
    ),
)
