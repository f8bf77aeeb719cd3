"""What editors are told, of right files and wrong ones."""

from __future__ import annotations

from lossdsl.check.survey import Survey, survey
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse
from tests.check.helpers import registry

TEXT = """loss t
input logits[N, C]
input target[N]: index C
param gamma = 2
def f(v) = v^gamma
p = softmax[C](logits)[target]
q = f(p) * kl(p', 1) + cross_entropy(logits, target)
return q
"""


def _survey(text: str) -> Survey:
    source = Source("t.loss", text)
    return survey(parse(source), source, registry())


def test_symbols() -> None:
    found = _survey(TEXT)
    p = found.at(TEXT.index("f(p)") + 2)
    assert p is not None
    assert (p.role, p.name, str(p.type)) == ("value", "p", "real[N]")
    assert p.target is not None
    assert TEXT[p.target.span.start : p.target.span.end] == "p"
    assert p.target.span.start == TEXT.index("p = ")
    axis = found.at(TEXT.index("[C](logits)") + 1)
    assert axis is not None
    assert (axis.role, axis.name) == ("axis", "C")
    assert axis.target is not None
    assert axis.target.span.start == TEXT.index("C]")
    gamma = found.at(TEXT.index("gamma"))
    assert gamma is not None
    assert str(gamma.type) == "real"
    left = found.at(TEXT.index("p = "))
    assert left is not None
    assert str(left.type) == "real[N]"


def test_functions() -> None:
    found = _survey(TEXT)
    own, softmax, kl, loss = (found.at(TEXT.index(name)) for name in ("f(p)", "softmax[", "kl(", "cross_entropy("))
    assert own is not None
    assert own.doc == "f(v)"
    assert softmax is not None
    assert softmax.target is None
    assert kl is not None
    assert kl.target is not None
    assert kl.target.path == "prelude.loss"
    assert kl.doc.startswith("kl[A](p[A], q) = sum[A](")
    assert loss is not None
    assert loss.target is not None
    assert loss.target.path.endswith("cross_entropy.loss")
    assert "log-probability" in loss.doc


def test_a_wrong_file_is_surveyed_too() -> None:
    found = _survey(TEXT.replace("f(p)", "f(pp)"))
    assert [d.code for d in found.diagnostics][:1] == ["E0201"]
    assert found.values.keys() >= {"logits", "target", "gamma", "p", "q"}
    assert str(found.values["p"]) == "real[N]"
    assert "C" in found.axes
    assert {"f", "kl", "softmax", "cross_entropy"} <= set(found.functions)


def test_a_mode_within_itself() -> None:
    text = "loss t\ninput x[N]\nparam act = relu in {relu, tanh}\nreturn act(act(x))\n"
    assert not _survey(text).diagnostics
