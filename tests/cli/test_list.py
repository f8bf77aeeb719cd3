"""lossdsl list: by tag, pack, kind of input and property, and by what other libraries call a loss."""

from __future__ import annotations

import json

import pytest

from lossdsl.api import load, registry
from lossdsl.packs.facts import PROPERTIES, input_kinds, properties


def names(run, *options):
    return {record["full_name"] for record in json.loads(run("list", "--json", *options).stdout)}


def test_filters_hold_together(run):
    every, convex = names(run), names(run, "--property", "convex")
    index = names(run, "--property", "convex", "--input", "index")
    assert "std/cross_entropy" in index < convex < every
    assert names(run, "--property", "convex", "--input", "index", "--tag", "margin", "--pack", "std") < index
    assert "std/focal" not in convex


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--tag", "classificaton"], "did you mean 'classification'?"),
        (["--tag", "xyz"], "there is no tag 'xyz'; `lossdsl list --tags` names them"),
        (["--pack", "xyz"], "there is no pack 'xyz'; there are "),
        (["--pack", "segmentaton"], "did you mean 'segmentation'?"),
        (["--property", "convexx"], "'convex'"),
        (["--like", "kornia.FocalLos"], "did you mean kornia.FocalLoss"),
        (["--like", "nothing_like_it_anywhere"], "no loss here is known as"),
    ],
)
def test_a_slip_is_helped(run, options, words):
    result = run("list", *options)
    assert result.exit_code == 2
    assert words in result.stderr


def test_tags_are_counted(run):
    counts = json.loads(run("list", "--tags", "--json").stdout)
    assert list(counts.values()) == sorted(counts.values(), reverse=True)
    assert counts["classification"] == len(names(run, "--tag", "classification"))
    assert f"{counts['margin']:>4}  margin\n" in run("list", "--tags").stdout
    assert set(json.loads(run("list", "--tags", "--json", "--tag", "triplet").stdout)) >= {"triplet"}


def test_what_is_read_without_parsing_is_what_the_parser_reads():
    for full, file in registry().losses.items():
        checked = load(file.path).checked
        text = file.read()
        assert set(input_kinds(text)) == {i.kind.split()[0] for i in checked.inputs}, full
        assert set(properties(text)) <= set(PROPERTIES)
        said = {
            source
            for source in PROPERTIES
            if any(f"claim {source}" in line and " when " not in line for line in text.splitlines())
        }
        assert said <= set(properties(text)), full


def test_like_gives_the_call(run):
    out = run("list", "--like", "torch.nn.CrossEntropyLoss").stdout
    assert 'lossdsl.loss("label_smoothing_ce", eps=0.1)(logits, target)    (std/label_smoothing_ce)' in out
    records = json.loads(run("list", "--like", "pml.ArcFaceLoss", "--json").stdout)
    assert [record["losses"] for record in records] == [["metric/arcface"]]
    assert "no other library's loss" in run("list", "--like", "dkd").stdout
