"""Codes of names, axes and kinds (E02xx-E04xx)."""

from __future__ import annotations

from lossdsl.source.codes.record import ErrorCode

_ROW = "loss example\ninput logits[N, C]\ninput target[N]: index C\n"

CODES: tuple[ErrorCode, ...] = (
    # --- names ---
    ErrorCode(
        "E0201",
        "a name is not known",
        "A value is an input, a param, or assigned above the place where it is used. `pi` and `inf` are there anyway.",
        _ROW + "p = softmax(logit)[target]\nreturn -log(p)\n",
        "Correct the name, or declare it.",
    ),
    ErrorCode(
        "E0202",
        "there is no such function",
        "A function is part of the language or the prelude, a def of the file, or an installed loss that only one pack "
        "brings and that is right itself.",
        _ROW + "return cross_entrpy(logits, target)\n",
        "Correct the name, or define the function: `def f(x) = …`. `lossdsl list` shows all losses.",
    ),
    ErrorCode(
        "E0203",
        "there is no such axis",
        "Axes are the capital names of inputs, params and `axis` lines, and those that an order creates.",
        _ROW + "return mean[K](logits) - logits[target]\n",
        "Use an axis of the file, or give an input the axis.",
    ),
    ErrorCode(
        "E0204",
        "a name is given twice",
        "Every name has one meaning in a file, so that each line can be read by itself.",
        _ROW + "p = softmax(logits)\np = p[target]\nreturn -log(p)\n",
        "Give the second value a name of its own.",
    ),
    ErrorCode(
        "E0205",
        "a name is used above its assignment",
        "A file is read from top to bottom; declarations read inputs and params only.",
        _ROW + "q = p[target]\np = softmax(logits)\nreturn -log(q)\n",
        "Move the assignment up.",
    ),
    ErrorCode(
        "E0206",
        "a definition goes in a circle",
        "Functions are written out where they are called, which has no end if one calls itself, or another that calls "
        "it. A value must be known before it is read, so it can't be defined by itself either.",
        _ROW + "def f(x) = f(x - 1)\nreturn f(logits[target])\n",
        "Say it with a reduction over an axis, or with `root`.",
    ),
    ErrorCode(
        "E0208",
        "a habit from torch or Python",
        "The language has one way to say a thing, and axes have names, so much of torch has no place in it.",
        _ROW + "return mse_loss(logits, 0) - logits[target]\n",
        "Write it as the message shows.",
    ),
    ErrorCode(
        "E0209",
        "something is said of a name that isn't there",
        "`output` hands out assigned values; examples and claims set inputs and params.",
        _ROW + "return -log_softmax(logits)[target]\nexample logit = [[0, 0]], target = [0] gives 0.693147\n",
        "Correct the name.",
    ),
    ErrorCode(
        "E0210",
        "a function is used as a value, or a value as a function",
        "Values and functions have separate names; a function alone has no value.",
        _ROW + "p = softmax\nreturn -log(p(logits)[target])\n",
        "Call the function with its arguments.",
    ),
    # --- axes ---
    ErrorCode(
        "E0301",
        "a value doesn't have the axis",
        "Reducing, replacing or ordering an axis that a value lacks would be a slip that goes unseen.",
        _ROW + "p = softmax(logits)[target]\nreturn -sum[C](log(p))\n",
        "Take an axis that the value has, or leave the operation out.",
    ),
    ErrorCode(
        "E0302",
        "it isn't clear over which axis",
        "Without a bracket a reduction runs over the one axis of its argument that isn't a batch axis. `max` and `min` "
        "always need their bracket, since `max(a, b)` works entry by entry.",
        "loss example\ninput x[N, C, D]\nreturn sum(x)\n",
        "Write the axis: `sum[C](x)`.",
    ),
    ErrorCode(
        "E0304",
        "what is returned has axes that are not the batch's",
        "The caller reduces over the batch and nothing else, so all other axes must be gone.",
        _ROW + "return -log_softmax(logits) * (C == target)\n",
        "Reduce the other axes, or declare them as batch: `batch N, C`.",
    ),
    ErrorCode(
        "E0306",
        "not an index of that axis",
        "`x[i]` picks along the axis that i's kind names. An int says nothing of an axis: `x[C -> i]` does.",
        "loss example\ninput logits[N, C]\ninput target[N]: int\nreturn -log_softmax(logits)[target]\n",
        "Declare the input `: index C`, or name the axis.",
    ),
    ErrorCode(
        "E0307",
        "the axes in a bracket don't fit the function",
        "Reductions take axes, orders `C -> K`, losses bindings `C = K`; primitives work entry by entry and take none.",
        _ROW + "return -log[C](softmax(logits))[target]\n",
        "Write the bracket as the message shows.",
    ),
    ErrorCode(
        "E0308",
        "`where` or `weighted` has no place here",
        "`where` stands in reductions and in arguments that are declared with an axis; elsewhere it would drop entries "
        "in silence. `weighted` stands in `mean` and `sum`.",
        _ROW + "input w[C]: fixed\nreturn cross_entropy(logits, target) weighted w[target]\n",
        "Write the mean out: `return mean[N](e weighted w)`.",
    ),
    ErrorCode(
        "E0309",
        "an axis is declared wrongly",
        "An axis has one size, which an input or an int param says, and stands once in each declaration.",
        "loss example\ninput f[N, N]\nreturn sum[N'](f)\n",
        "A second axis of the same size is a copy: `f[N, N']`.",
    ),
    ErrorCode(
        "E0310",
        "nothing to prime",
        "`x'` is x for another row of the batch; x must vary along a batch axis.",
        "loss example\ninput x[N, D], w[C, D]\nreturn sum[C](dot[D](x, w'))\n",
        "Name the copy: `w[C -> C']`.",
    ),
    ErrorCode(
        "E0311",
        "an order, a substitution or a matrix function is written wrongly",
        "An order makes a new axis, `descending[C -> K](key)`; substitutions name each axis once; `logdet`, `eigvals` "
        "and `solve` take two copies of one axis.",
        _ROW + "pi = descending[C](logits)\nreturn logits[target]\n",
        "Write it as the message shows.",
    ),
    # --- kinds and arguments ---
    ErrorCode(
        "E0401",
        "a value of another kind is needed",
        "Conditions are bools, sizes and indices whole numbers; nothing is turned into a condition in silence.",
        _ROW + "input w[C]: fixed\nreturn sum[C](logits where w)\n",
        "Write a comparison, such as `w > 0`.",
    ),
    ErrorCode(
        "E0402",
        "a label is used as a number",
        "Labels are names of groups: they can be equal or not, and nothing else.",
        "loss example\ninput x[N]\ninput y[N]: label\nreturn x * y\n",
        "Declare the input `: int` or `: index C` if its value means something.",
    ),
    ErrorCode(
        "E0403",
        "indices of two axes are compared",
        "Place 3 of one axis has nothing to do with place 3 of another. Copies of one axis compare.",
        "loss example\ninput x[N, D]\nreturn sum[D](x where N != D)\n",
        "Compare copies of one axis: `N != N'`.",
    ),
    ErrorCode(
        "E0404",
        "the arguments don't fit the function",
        "A loss used as a function takes its inputs in their order and its params by name; defs take all parameters.",
        _ROW + "return focal(logits, target, 1, 2)\n",
        "Write the call as the message shows.",
    ),
    ErrorCode(
        "E0405",
        "a default or a bound is no proper number",
        "Params have numbers as defaults, inside their interval, so that the loss can be called without them.",
        _ROW + "param t = 0 in (0, inf)\nreturn -log_softmax(logits / t)[target]\n",
        "Give a number in the interval.",
    ),
    ErrorCode(
        "E0406",
        "a mode doesn't fit",
        "A mode is one of the names in its braces, each a function of the file or of the language.",
        _ROW + "param act = tanh in {relu, softplus}\nreturn -log_softmax(act(logits))[target]\n",
        "Choose one of the names.",
    ),
    ErrorCode(
        "E0407",
        "a default has axes that its input lacks",
        "A default fills the declared axes; it can't add some.",
        _ROW + "input w[C] = logits\nreturn -log_softmax(logits)[target] * w[target]\n",
        "Reduce the default, or give the input the axes.",
    ),
    ErrorCode(
        "E0408",
        "a loss that weights its mean is called",
        "A function is worth the body of the callee's mean; a weighted mean has no such body.",
        _ROW + "input w[C]: fixed\nreturn 2 * weighted_cross_entropy(logits, target, w)\n",
        "Write the mean: `mean[N](cross_entropy(logits, target) weighted w[target])`.",
    ),
    ErrorCode(
        "E0409",
        "a loss with a tensor of its own is called",
        "Draws and learnable params belong to the module that the caller builds, which is the outermost file's.",
        "loss example\ninput a[N, D], b[N, D]\nreturn learned_scale(a, b)\n",
        "Declare it in this file and pass it.",
    ),
    ErrorCode(
        "E0410",
        "the loss is too large",
        "Functions are written out; 6 000 terms, 100 000 steps and 160 levels are enough for any loss on paper, and "
        "keep every compilation short.",
        "loss example\ninput x[N]\n"
        + "def f1(x) = exp(x) + sin(2 * x) + cos(3 * x) + tanh(5 * x)\n"
        + "".join(
            f"def f{i}(x) = f{i - 1}({i} * x) + f{i - 1}({i} + x) + f{i - 1}({i} / x) + f{i - 1}({i} - x)\n"
            for i in range(2, 9)
        )
        + "return f8(x)\n",
        "Say it with a reduction over an axis.",
    ),
    ErrorCode(
        "E0412",
        "an equation doesn't determine its root",
        "`root(t in [lo, hi]: f)` is the t at which f is zero: t stands in f, varies along no axis that f runs over, "
        "and is the only unknown there.",
        "loss example\ninput z[N, C]\nreturn root(t in [min[C](z), max[C](z)]: sum[C](z) - 1)\n",
        "Let the unknown stand in the equation.",
    ),
    ErrorCode(
        "E0414",
        "a claim that can't be decided",
        "A claim compares the loss, or its gradient, with an expression, or says a property of one input; its "
        "conditions set inputs and params to values that they can have.",
        _ROW + "return cross_entropy(logits, target)\nclaim 0 <= loss\n",
        "Say it in one of the forms: `loss >= e`, `convex(x)`, `grad(x) == e`, …",
    ),
    ErrorCode(
        "E0413",
        "a kind is incomplete",
        "`index` and `prob` say of which axis; a `prob C` input has that axis.",
        "loss example\ninput logits[N, C]\ninput q[N]: prob C\nreturn -sum[C](q * log_softmax(logits))\n",
        "Give the input its axis: `input q[N, C]: prob C`.",
    ),
)
