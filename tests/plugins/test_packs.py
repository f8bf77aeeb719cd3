from __future__ import annotations

import pytest

from lossdsl.packs.header import read_header
from lossdsl.packs.lookup import UnknownLossError, find_loss
from lossdsl.registry import LossFile


def test_a_header_is_read_without_the_rest():
    header = read_header(
        "# by hand\n\nloss poly1\nalias poly_1, poly1_ce\n"
        '"""Cross-entropy plus a term.\n\n  More of it.\n"""\n'
        'cite "Leng et al."  # 2022\ncite "Another"\n\ntags classification, imbalance\n\ninput (((\n'
    )
    assert header.kind == "loss"
    assert header.name == "poly1"
    assert header.aliases == ("poly_1", "poly1_ce")
    assert header.summary == "Cross-entropy plus a term"
    assert header.cites == ("Leng et al.", "Another")
    assert header.tags == ("classification", "imbalance")


@pytest.mark.parametrize(
    ("doc", "summary"),
    [
        ("One line", "One line"),
        ("First sentence. Second one.", "First sentence"),
        ("Broken over\n  two lines. Then more", "Broken over two lines"),
        ("With 0.5 and e.g.x in it", "With 0.5 and e.g.x in it"),
        ("", ""),
    ],
)
def test_a_summary_is_one_sentence(doc: str, summary: str):
    assert read_header(f'loss a\n"""{doc}"""\n').summary == summary


@pytest.mark.parametrize(
    "text", ["", "input x", "losss a", '"""doc"""', "loss", "#" * 100_000, "loss a\n" + '"' * 10_001]
)
def test_a_strange_head_is_no_error(text: str):
    read_header(text)


def losses(*names: str) -> dict[str, LossFile]:
    return {name: LossFile(*name.split("/"), path="/dev/null", distribution="d 1") for name in names}


def test_the_bare_name_works_while_it_is_unique():
    known = losses("std/focal", "acme/hinge", "other/hinge")
    assert find_loss(known, "focal").pack == "std"
    assert find_loss(known, "std/focal").pack == "std"
    assert find_loss(known, "Acme/Hinge").pack == "acme"
    with pytest.raises(UnknownLossError, match=r"say acme/hinge \(d 1\) or other/hinge \(d 1\)"):
        find_loss(known, "hinge")


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("focl", "focal"), ("entropy_cross", "cross_entropy"), ("std/fokal", "focal"), ("Cross-Entrpy", "cross_entropy")],
)
def test_an_unknown_name_gets_a_suggestion(name: str, suggestion: str):
    with pytest.raises(UnknownLossError) as raised:
        find_loss(losses("std/focal", "std/cross_entropy", "std/brier"), name)
    assert raised.value.suggestions[0] == suggestion
    assert f"did you mean {suggestion}" in str(raised.value)


def test_a_name_like_nothing_gets_none():
    with pytest.raises(UnknownLossError, match="lossdsl list"):
        find_loss(losses("std/focal"), "zzz")


def test_an_alias_is_found(tmp_path):
    path = tmp_path / "focal.loss"
    path.write_text("loss focal\nalias focal_ce\n")
    known = {"std/focal": LossFile("std", "focal", str(path), "d 1")}
    assert find_loss(known, "focal_ce").name == "focal"
