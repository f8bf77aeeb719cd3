"""The gallery: pages are well-formed, lead to pages that are there, and load nothing from elsewhere."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lossdsl.api import registry
from lossdsl.gallery.build import build
from lossdsl.source.text import Source
from lossdsl.syntax.mathml import mathml
from tests.losses import FULL

NAMES = ["std/focal", "std/sparsemax", "segmentation/dice_binary", "metric/tuplet_margin"]
FILES = registry().losses
DRAWN = sorted(FILES) if FULL else random.Random(3).sample(sorted(FILES), 60)
VOID = {"meta", "link", "input", "br"}


class Reader(HTMLParser):
    """Checks that tags nest, and gathers what a page links to and loads."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "a":
            self.links.append(given["href"] or "")
        for name in ("src", "href"):
            if tag != "a" and given.get(name):
                self.loads.append(given[name] or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"path", "mspace", *VOID}, tag

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert build(registry(), NAMES, folder, lambda done: None) == len(NAMES)
    return folder


def read(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text())
    assert not reader.open, path
    return reader


def test_pages_are_well_formed_and_lead_to_pages(site: Path) -> None:
    pages = sorted(site.glob("*.html"))
    assert len(pages) == len(NAMES) + 1
    for path in pages:
        reader = read(path)
        for link in reader.links:
            target = link.partition("#")[0]
            assert link.startswith("https://arxiv.org/abs/") or (site / target).is_file(), link
        for load in reader.loads:
            assert (site / load).is_file(), load
    assert {f"{n.replace('/', '-')}.html" for n in NAMES} == set(read(site / "index.html").links)


def test_a_page_says_what_the_file_says(site: Path) -> None:
    text = read(site / "std-focal.html").text
    for words in (
        "1708.02002",
        "shift_invariant(logits)",
        "kornia",
        "param gamma = 2 in [0, inf)",
        "d loss / d logits",
    ):
        assert words in text
    assert (site / "std-focal.html").read_text().count("<svg") == 2
    assert "<svg" not in (site / "std-sparsemax.html").read_text()


@pytest.mark.parametrize("full", DRAWN)
def test_equations_are_well_formed(full: str) -> None:
    root = ET.fromstring(mathml(Source(FILES[full].path, FILES[full].read())))
    for row in root.findall("./mtable/mtr"):
        assert len(row) == 2
    for element in root.iter():
        assert len(element) == {"msub": 2, "msup": 2, "munder": 2, "mfrac": 2, "msqrt": 1}.get(
            element.tag, len(element)
        )
