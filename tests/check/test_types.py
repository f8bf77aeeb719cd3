"""Axes, kinds and intervals of expressions; what a CheckedLoss says of its file."""

from __future__ import annotations

from math import inf, pi

import pytest

from lossdsl.primitives.interval import Interval
from lossdsl.source.diagnostic import DiagnosticError
from tests.check.helpers import checked, codes

HEAD = (
    "map t\nbatch N\ninput x[N, C]\ninput y[N]: index C\ninput b[N, C]: bool\ninput k[N]: int\n"
    "input u[N, D] in [0, 2)\ninput q[N, C]: prob C\ninput l[N]: label\n"
    "param t = 2 in (0, inf)\nparam n: int = 3 in [1, 9]\n"
)

# expression: (axes, kind, interval or None)
TYPES = {
    "x": ("N C", "real", Interval()),
    "y": ("N", "index C", Interval(0, inf, False, True)),
    "b": ("N C", "bool", Interval(0, 1)),
    "q": ("N C", "real", Interval(0, 1)),
    "l'": ("N'", "label", None),
    "u": ("N D", "real", Interval(0, 2, False, True)),
    "t": ("", "real", Interval(0, inf, True, True)),
    "n": ("", "int", Interval(1, 9)),
    "C": ("C", "index C", None),
    "C'": ("C'", "index C", None),
    "C - 1": ("C", "int", Interval(-1, inf, False, True)),
    "size(C)": ("", "int", Interval(0, inf, False, True)),
    "pi": ("", "real", Interval(pi, pi)),
    "-3": ("", "int", Interval(-3, -3)),
    "b + b": ("N C", "int", Interval(0, 2)),
    "k * n": ("N", "int", None),
    "k / n": ("N", "real", None),
    "x^2": ("N C", "real", Interval(0, inf)),
    "k^2": ("N", "real", Interval(0, inf, False, True)),
    "x < 0": ("N C", "bool", Interval(0, 1)),
    "not b": ("N C", "bool", Interval(0, 1)),
    "if b then k else n": ("N C", "int", None),
    "if b then y else y": ("N C", "index C", None),
    "if b then x else k": ("N C", "real", None),
    "min(k, n)": ("N", "int", Interval(-inf, 9, True)),
    "floor(x)": ("N C", "int", None),
    "softmax(x)": ("N C", "real", Interval(0, 1)),
    "log_softmax(x)": ("N C", "real", Interval(-inf, 0)),
    "sum[C](b)": ("N", "int", Interval(0, inf, False, True)),
    "sum[C](x)": ("N", "real", None),
    "sum[D](u)": ("N", "real", Interval(0, inf, False, True)),
    "count[N, C](x)": ("", "int", Interval(0, inf, False, True)),
    "max[C](b)": ("N", "bool", None),
    "argmax[C](x)": ("N", "index C", None),
    "any[C](b)": ("N", "bool", Interval(0, 1)),
    "mean[C](x where C != y)": ("N", "real", None),
    "cumsum[C](b)": ("N C", "int", Interval(0, inf)),
    "x[y]": ("N", "real", None),
    "x[C -> k]": ("N", "real", None),
    "x[N -> N']": ("N' C", "real", None),
    "x[N -> 0]": ("C", "real", None),
    "x[C -> C + 1]": ("N C", "real", None),
    "x'": ("N' C", "real", None),
    "x * x'": ("N N' C", "real", None),
    "descending[C -> K](x)": ("N K", "index C", None),
    "x[descending[C -> K](x)]": ("N K", "real", None),
    "sum[C](x * x[C -> E])": ("N C'", "real", None),
    "logdet[D, D'](sum[N](u * u[D -> D']))": ("", "real", None),
    "eigvals[D, D' -> K](u * u[D -> D'])": ("N K", "real", None),
    "solve[D, D'](sum[N](u * u[D -> D']), u)": ("N D'", "real", None),
    "root(z in [0, 9]: sum[C](relu(x - z)) - 1)": ("N", "real", Interval(0, 9)),
    "detach(x)": ("N C", "real", None),
    "[1, 2, 3]": ("I", "int", Interval(1, 3)),
}


@pytest.mark.parametrize("expression", sorted(TYPES))
def test_type(expression: str) -> None:
    axes, kind, interval = TYPES[expression]
    loss = checked(f"{HEAD}return {expression}\n")
    assert loss.result.type.axes == set(axes.split())
    assert loss.result.type.kind == kind
    if interval is not None:
        assert loss.result.type.interval == interval


# A kind that doesn't fit: the code of the mistake.
WRONG = {
    "b and x": "E0401",
    "not k": "E0401",
    "if x then 1 else 0": "E0401",
    "sum[C](x where x)": "E0401",
    "l + 1": "E0402",
    "l < l'": "E0402",
    "l == 1": "E0402",
    "exp(l)": "E0402",
    "max[N](l)": "E0402",
    "if b then l else 0": "E0401",
    "C == D": "E0403",
    "y < N": "E0403",
    "x[k]": "E0306",
    "x[t]": "E0306",
    "u[y]": "E0306",
    "x[C -> x]": "E0306",
    "x[C -> b]": "E0306",
    "x[D -> 0]": "E0301",
    "x[C -> D]": "",  # an index of another axis is a whole number
    "sum[D](x)": "E0301",
    "descending[D -> K](x)": "E0301",
    "softmax[N, N](x)": "E0307",
    "size(x)": "E0404",
    "t'": "E0310",
    "x |> exp(2)": "E0404",
    "cumsum[N, C](x)": "E0307",
    "argmax[N, C](x)": "E0307",
}


@pytest.mark.parametrize("expression", sorted(WRONG))
def test_wrong(expression: str) -> None:
    found = [c for c in codes(f"{HEAD}return {expression}\n") if c.startswith("E")]
    assert found == ([WRONG[expression]] if WRONG[expression] else [])


def test_what_a_file_declares() -> None:
    loss = checked(
        'loss t\nalias t2\n"""Doc."""\ncite "A, B"\ntags x, y\n'
        "batch B, T\ninput z[B, T, V]\ninput w[V]: fixed\ninput g[B, T] ~ gumbel\ninput a[V] = 1 / k\n"
        "input y[B, T]: index V\n"
        "param k = 2 in (0, 4] learnable\nparam c[K] = [1, 2]\nparam m: int = 2\nparam f = relu in {relu, tanh}\n"
        "axis J = m\naxis T where y >= 0\n"
        "e = (f(z) * w * a)[y] + g + sum[K](c) + sum[J](J * k)\noutput e\nreturn sum[B, T](e where g > 0)\n"
        "example z = [[[0]]], w = [1], y = [[0]] gives 1\n"
    )
    assert (loss.kind, loss.aliases, loss.doc, loss.cites, loss.tags) == (
        "loss",
        ("t2",),
        "Doc.",
        ("A, B",),
        ("x", "y"),
    )
    assert [(i.name, i.axes, i.kind, i.fixed, i.draw) for i in loss.inputs] == [
        ("z", ("B", "T", "V"), "real", False, None),
        ("w", ("V",), "real", True, None),
        ("g", ("B", "T"), "real", False, "gumbel"),
        ("a", ("V",), "real", False, None),
        ("y", ("B", "T"), "index V", False, None),
    ]
    assert loss.inputs[3].default is not None
    assert [(p.name, p.axes, p.default, p.integer, p.learnable, p.modes) for p in loss.params] == [
        ("k", (), 2.0, False, True, ()),
        ("c", ("K",), (1.0, 2.0), False, False, ()),
        ("m", (), 2.0, True, False, ()),
        ("f", (), "relu", False, False, ("relu", "tanh")),
    ]
    assert loss.params[0].bounds == Interval(0, 4, True)
    assert [(a.name, a.batch, a.size is not None) for a in loss.axes] == [
        ("B", True, False),
        ("T", True, False),
        ("V", False, False),
        ("K", False, False),
        ("J", False, True),
    ]
    assert [axis for axis, _ in loss.conditions] == ["T"]
    assert (loss.reduction, loss.reduced) == ("sum", ("B", "T"))
    assert loss.keep is not None
    assert loss.weight is None
    assert [name for name, _ in loss.outputs] == ["e"]
    assert len(loss.examples) == 1


# what is returned: the file's word, the axes it runs over
RETURNED = {
    "mean[N](x[y])": ("mean", ("N",)),
    "sum[N](x[y])": ("sum", ("N",)),
    "mean[N, C](x)": ("mean", ("N", "C")),
    "mean(x[y] where y > 0)": None,
    "x[y]": ("mean", ("N",)),
    "sum[C](x)": ("mean", ("N",)),
    "mean[C](mean[N](x))": (None, ()),
    "-mean[N](x[y])": (None, ()),
    "max[N](x[y])": (None, ()),
    "sum[N, N'](dot[C](x, x') where N != N')": ("sum", ("N", "N'")),
    "mean[N](x[y] weighted y)": ("mean", ("N",)),
}


@pytest.mark.parametrize("expression", sorted(RETURNED))
def test_the_outermost_reduction(expression: str) -> None:
    text = f"loss t\ninput x[N, C]\ninput y[N]: index C\nreturn {expression}\n"
    expected = RETURNED[expression]
    if expected is None:
        assert "E0302" in codes(text)
    else:
        loss = checked(text)
        assert (loss.reduction, loss.reduced) == expected


def test_modes() -> None:
    text = "loss t\ninput x[N]\nparam f = relu in {relu, tanh}\nreturn f(x)\n"
    assert checked(text).result.op == "relu"
    assert checked(text, {"f": "tanh"}).result.op == "tanh"
    for wrong in ({"f": "exp"}, {"g": "tanh"}):
        with pytest.raises(DiagnosticError, match="E0406"):
            checked(text, wrong)
