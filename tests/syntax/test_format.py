"""The formatter: what it keeps, what it makes uniform, and that it has nothing left to do after one pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from lossdsl.source.diagnostic import DiagnosticError, InternalError
from lossdsl.source.text import Source
from lossdsl.syntax import format
from lossdsl.syntax.format import format_loss
from lossdsl.syntax.inside import moved_inside
from lossdsl.syntax.parse import parse, parse_expression
from lossdsl.syntax.printing import print_expression, print_loss

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.loss"))


def formatted(text: str) -> str:
    return format_loss(Source("t.loss", text))


@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.stem)
def test_corpus_is_formatted_already_but_for_two_long_lines(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    out = formatted(text)
    if path.stem not in {"dpo", "batch_hard_triplet"}:
        assert out == text
    assert parse(Source("", print_loss(parse(Source("", text))))) == parse(Source("", text))


EXPRESSIONS = [
    ("((a))+ (b*c)", "a + b * c"),
    ("(a + b) * c", "(a + b) * c"),
    ("a - (b - c)", "a - (b - c)"),
    ("(a - b) - c", "a - b - c"),
    ("a / (b * c)", "a / (b * c)"),
    ("(a^b)^c", "(a^b)^c"),
    ("a^(b^c)", "a^b^c"),
    ("(-a)^b", "(-a)^b"),
    ("-(a^b)", "-a^b"),
    ("a^-b", "a^(-b)"),
    ("- - a", "-(-a)"),
    ("-(a * b)", "-(a * b)"),
    ("a * -b", "a * -b"),
    ("not (a == b)", "not a == b"),
    ("(not a) == b", "(not a) == b"),
    ("(a or b) and c", "(a or b) and c"),
    ("(a == b) == c", "(a == b) == c"),
    ("if a then (if b then c else d) else (if b then c else d)",
     "if a then (if b then c else d) else if b then c else d"),
    ("(if a then b else c) + 1", "(if a then b else c) + 1"),
    ("(a |> f()) |> g(b)", "a |> f() |> g(b)"),
    ("(a |> f()) + b", "(a |> f()) + b"),
    ("(a + b)[i]", "(a + b)[i]"),
    ("f ( x where ( m ) , tau=1 )", "f(x where m, tau = 1)"),
    ("f[A->B,C=K](x)", "f[A -> B, C = K](x)"),
    ("x [ T->T-1 ]", "x[T -> T - 1]"),
    ("root( t in [ a,b ] : (t) )", "root(t in [a, b]: t)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "printed"), EXPRESSIONS)
def test_brackets_only_where_needed(text: str, printed: str) -> None:
    assert print_expression(parse_expression(text)) == printed
    assert parse_expression(printed) == parse_expression(text)


def test_comments_stay_with_their_statements() -> None:
    text = """\
# above the head


# still above
loss   a    # behind the head
\"\"\"Kept as it is,   here   too.
  # no comment
\"\"\"
input x[N ,C]:real fixed# behind

# a paragraph
y=f(x,   # first argument
   # a note
   2)    # last
zz = (y
  + 1)

# before return

return zz

# the end
"""
    assert (
        formatted(text)
        == """\
# above the head

# still above
loss a  # behind the head
\"\"\"Kept as it is,   here   too.
  # no comment
\"\"\"
input x[N, C]: real fixed  # behind

# a paragraph
# first argument
# a note
y  = f(x, 2)  # last
zz = y + 1

# before return

return zz

# the end
"""
    )


def test_long_lines_break_where_a_reader_would() -> None:
    text = (
        "loss a\ninput x[N]\n"
        f"y = {' + '.join(['exp(x)'] * 20)}\n"
        f"z = sum[N](relu({' * '.join(['exp(x)'] * 10)}) where x > 0 weighted {' - '.join(['x'] * 30)})\n"
        f"w = if x > 0 then {'y * ' * 12}x else {'y * ' * 12}x\n"
        f"v = [{', '.join(['0.125'] * 20)}]\n"
        f"q = x |> f({'x, ' * 20}x) |> g({'x, ' * 20}x)\n"
        "return y\n"
    )
    out = formatted(text)
    assert max(map(len, out.splitlines())) <= 100
    assert out.splitlines()[2:5] == ["y = exp(x)", "  + exp(x)", "  + exp(x)"]
    assert "    where x > 0\n" not in out
    assert "\n  where x > 0\n" in out
    assert "\n  then y * y" in out
    assert "\n  |> f(" in out


def test_windows_line_ends_and_byte_order_mark() -> None:
    assert formatted("\ufeffloss a\r\ninput x[N]   # c\r\nreturn x\r\n") == "loss a\ninput x[N]  # c\nreturn x\n"


def test_claims_and_examples_keep_their_order() -> None:
    text = "loss a\ninput x[N]\nreturn x\nexample x = [1] gives 1\nclaim loss >= 0\nexample x = [2] gives 2\n"
    assert formatted(text) == text


def test_a_wrong_file_is_not_touched() -> None:
    with pytest.raises(DiagnosticError):
        formatted("loss a\nreturn (\n")


def test_a_printer_that_changes_the_meaning_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(format, "print_statement", lambda node, pad=0: "return 2")
    with pytest.raises(InternalError, match="change the meaning"):
        formatted("loss a\nreturn 1\n")


def test_a_printer_that_loses_a_comment_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    print_all = format._print
    monkeypatch.setattr(format, "_print", lambda source, parsed: print_all(source, parsed).replace("# c", ""))
    with pytest.raises(InternalError, match="lose a comment"):
        formatted("loss a\n# c\nreturn 1\n")


MOVED = {
    "-mean[N](x)": "mean[N](-x)",
    "t * mean[N](x + 1)": "mean[N](t * (x + 1))",
    "sum[N](x + 1 where x > 0) / 2": "sum[N]((x + 1) / 2 where x > 0)",
    "mean[N](x weighted w) * t": "mean[N](x * t weighted w)",
    "w * mean[N](x)": "",  # w may be a row's
    "-max[N](x)": "",
    "-(mean[N](x) + 1)": "",
    "-mean[N](  # why\n  x)": "",
}


@pytest.mark.parametrize("text", MOVED)
def test_a_factor_is_moved_into_the_mean(text: str) -> None:
    before = f"loss a\ninput x[N], w[N]\nparam t = 2\nreturn {text}\n"
    after = moved_inside(Source("a.loss", before)).text
    assert after == (before.replace(text, MOVED[text]) if MOVED[text] else before)
