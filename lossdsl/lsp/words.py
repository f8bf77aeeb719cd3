"""What the language's own words mean, in a line each, for hovers and completions."""

from __future__ import annotations

STATEMENTS = {
    "loss": "`loss name`: a loss; the caller reduces what it returns over the batch.",
    "map": "`map name`: a function that other files call.",
    "alias": "`alias name, …`: further names of this loss.",
    "cite": '`cite "…"`: where it was published.',
    "tags": "`tags word, …`: what `lossdsl list` sorts by.",
    "input": "`input x[N, C]: kind = default in interval`: a tensor of the call.",
    "param": "`param t = 1 in (0, inf)`: a number that may change without recompiling, or a mode `in {f, g}`.",
    "batch": "`batch N, V`: the batch axes, instead of the first axis of the first input.",
    "axis": "`axis K = 3` sizes an axis; `axis T where mask` says which of its entries exist.",
    "def": "`def f[A](x, y[A]) = …`: a function, written out at each call.",
    "output": "`output a, b`: values handed out beside the loss, detached, with `aux=True`.",
    "return": "`return e`: the loss of a row, or its mean or sum with a mask or weights.",
    "claim": "`claim loss >= 0 when …`: what `lossdsl check` proves or refutes.",
    "example": "`example x = [1] gives 2`: a value to the digits given.",
}

WORDS = {
    "if": "`if c then a else b`: presence, value and gradient come from the branch taken.",
    "then": "`if c then a else b`",
    "else": "`if c then a else b`",
    "where": "`sum[C](e where m)`: the reduction runs over the entries where m holds.",
    "weighted": "`mean[N](e weighted w)`: w·e, and the mean divides by the sum of w.",
    "in": "An interval: `[` and `]` include the end, `(` and `)` do not.",
    "and": "Both booleans hold.",
    "or": "One of the booleans holds.",
    "not": "The boolean doesn't hold.",
    "when": "Settings and limits under which a claim is made: `when gamma = 0`, `when tau -> 0`.",
    "gives": "The value of an example.",
    "fixed": "No gradient is derived for this input.",
    "learnable": "An nn.Parameter of the module.",
}

KINDS = {
    "real": "floating tensors: reals and ±inf",
    "prob": "`prob C`: probabilities that sum to 1 over C, or integers that stand for their one-hot rows",
    "bool": "booleans, or integers 0 and 1",
    "int": "integers",
    "index": "`index C`: integers from 0 to size(C) - 1, or `ignore_index`",
    "label": "integers that are only compared with == and !=",
}

FUNCTIONS = {
    "size": "`size(C)`: how many entries the axis has; of a batch axis, those that are left.",
    "detach": "`detach(e)`: the value of e, without a gradient.",
    "softmax": "`softmax[C](z where m)`: exp(z) over its sum along C; masked entries are 0.",
    "log_softmax": "`log_softmax[C](z where m)`: z less its log-sum-exp along C; masked entries are -inf.",
    "cumsum": "`cumsum[C](e)`: the running sum along C.",
    "descending": "`descending[C -> K](key)`: the entries of C from the largest key down, as indices on K.",
    "ascending": "`ascending[C -> K](key)`: the entries of C from the smallest key up, as indices on K.",
    "logdet": "`logdet[D, D'](m)`: the log of the absolute determinant.",
    "eigvals": "`eigvals[D, D' -> K](m)`: of a symmetric matrix, ascending.",
    "solve": "`solve[N, N'](a, b)`: x with a·x = b.",
    "max": "`max[C](e)`: the largest entry along C; `max(a, b)`: the larger of two.",
    "min": "`min[C](e)`: the smallest entry along C; `min(a, b)`: the smaller of two.",
    "root": "`root(t in [lo, hi]: f(t))`: the zero of f, monotone in t, with its implicit gradient.",
}

CONSTANTS = {"inf": "infinity", "pi": "3.14159…"}
