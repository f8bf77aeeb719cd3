"""The language server's answers, and a real client that asks for them over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from lossdsl.lsp.analysis import Analysis, analyse
from lossdsl.lsp.complete import completions
from lossdsl.lsp.definition import definition
from lossdsl.lsp.hover import hover
from lossdsl.plugins import discover
from lossdsl.source.text import Source

REGISTRY = discover({})
TEXT = '''\
loss demo
"""A doc that says softmax(x)."""
input logits[N, C]
input target[N]: index C
input γ[N]: fixed
param tau = 0.1 in (0, inf)
# a comment about tau
def half(z) = z / 2
p = softmax(logits / tau)[target]
s = cosine[C](logits, logits')
return -log(p) * half(γ) + 0 * mean[N'](s) + 0 * focal(logits, target)
'''


def look(text: str = TEXT, before: Analysis | None = None) -> Analysis:
    return analyse(Source("demo.loss", text), REGISTRY, before)


def hovered(before: str, text: str = TEXT, analysis: Analysis | None = None) -> str:
    """The hover at the end of the first occurrence of `before`."""
    found = hover(analysis or look(text), REGISTRY, text.index(before) + len(before) - 1)
    return found[0] if found else ""


HOVERS = {
    "input": "a tensor of the call",
    "retur": "the loss of a row",
    "input logits": "```loss\ninput logits[N, C]\n```\nwith a gradient",
    "* half(γ": "fixed: no gradient",
    "logits / tau": "param tau = 0.1 in (0, inf)",
    "half(z) = z / 2\np": "real[N], in [0, 1]",
    "-log(p": "p = softmax(logits / tau)[target]\n```\nreal[N], in [0, 1]",
    "[N, C": "`C`: an axis, bound by `logits`",
    "index C\ninput γ[N": "`N`: a batch axis, bound by `logits`, `target`, `γ`",
    "mean[N'": "`N'`: a copy of the batch axis N, bound by `logits`, `target`, `γ`",
    "= softmax": "exp(z) over its sum",
    "s = cosine": "def cosine[A](x[A], y[A]) = within_unit(dot[A](normalize[A](x), normalize[A](y)))\n"
    "```\nprelude: Geometry",
    "* half": "def half(z) = z / 2",
    "return -log": "`log(x)`",
    "* focal": "std/focal",
    ": index": "index C",
    "(0, inf": "infinity",
    "softmax(logits /": "logits / tau\n```\nreal[N, C]",
    "a comment about tau": "",
    "says softmax": "",
}


@pytest.mark.parametrize("before", HOVERS)
def test_hover(before: str) -> None:
    found = hovered(before)
    assert HOVERS[before] in found
    assert bool(HOVERS[before]) == bool(found)


def test_hover_while_the_file_is_wrong_remembers_what_it_was() -> None:
    broken = TEXT.replace("s = cosine", "s = = cosine")
    analysis = look(broken, look())
    assert {d.code for d in analysis.diagnostics} == {"E0107"}
    assert "param tau" in hovered("logits / tau", broken, analysis)


def test_a_file_that_was_never_right_is_known_as_far_as_it_can_be_read() -> None:
    broken = TEXT.replace("s = cosine", "s = = cosine").replace("half(γ)", "halff(γ)")
    analysis = look(broken)
    assert [d.code for d in analysis.diagnostics] == ["E0107", "E0202"]
    assert "param tau" in hovered("logits / tau", broken, analysis)
    found = completions(analysis, REGISTRY, broken.index("return -lo") + len("return -lo"))
    assert {"logits", "tau", "half", "p"} <= {c.label for c in found}


def labels(text: str, before: str, kind: str = "") -> set[str]:
    found = completions(look(text, look()), REGISTRY, text.index(before) + len(before))
    return {c.label for c in found if not kind or c.kind == kind}


def test_completion_knows_what_can_stand_where() -> None:
    assert {"input", "param", "return"} <= labels(TEXT, "# a comment about tau\n", "statement")
    assert labels(TEXT, "target[N]: ", "kind") == {"real", "prob", "bool", "int", "index", "label"}
    assert labels(TEXT, "cosine[", "axis") >= {"N", "C", "N'"}
    everything = labels(TEXT, "return -lo")
    assert {"logits", "tau", "half", "p", "log", "mean", "cosine", "root", "focal", "inf"} <= everything
    assert "input" not in everything


def defined(before: str) -> str:
    found = definition(look(), REGISTRY, TEXT.index(before) + len(before) - 1)
    if found is None:
        return ""
    path, source, span = found
    line, column = source.position(span.start)
    return f"{path.name if path else 'here'}:{line}:{column} {source.text[span.start : span.end]}"


DEFINITIONS = {
    "-log(p": "here:9:1 p",
    "softmax(logits": "here:3:7 logits",
    "logits / tau": "here:6:7 tau",
    "* half": "here:8:5 half",
    "mean[N'": "here:3:14 N",
    "0 * focal": "focal.loss:1:1 ",
    "return -log": "",
}


@pytest.mark.parametrize("before", DEFINITIONS)
def test_definition(before: str) -> None:
    assert defined(before) == DEFINITIONS[before]


def test_definition_in_the_prelude() -> None:
    assert defined("s = cosine").startswith("prelude.loss:")
    assert defined("s = cosine").endswith(" cosine")


# --- over the protocol ------------------------------------------------------------------------------------------------


async def conversation(path: Path) -> None:
    client = LanguageClient("test", "1")
    diagnostics: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()

    @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def published(params: lsp.PublishDiagnosticsParams) -> None:
        diagnostics.put_nowait(params)

    uri = path.as_uri()
    document = lsp.TextDocumentIdentifier(uri)
    await client.start_io(sys.executable, "-c", "from lossdsl.cli import main; main()", "lsp")
    try:
        started = await client.initialize_async(
            lsp.InitializeParams(capabilities=lsp.ClientCapabilities(), root_uri=path.parent.as_uri())
        )
        assert started.capabilities.hover_provider
        client.initialized(lsp.InitializedParams())

        # Diagnostics as one types, with places in UTF-16 code units: 𝛾 is two of them.
        text = "loss a\ninput 𝛾[N]\nreturn 𝛾 ** 2\n"
        item = lsp.TextDocumentItem(uri=uri, language_id="loss", version=1, text=text)
        client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        first = await diagnostics.get()
        assert [(d.code, d.range.start.character, d.range.end.character) for d in first.diagnostics] == [
            ("E0106", 10, 12)
        ]
        edit = lsp.TextDocumentContentChangePartial(
            range=lsp.Range(start=lsp.Position(2, 10), end=lsp.Position(2, 12)), text="^"
        )
        version = lsp.VersionedTextDocumentIdentifier(version=2, uri=uri)
        client.text_document_did_change(lsp.DidChangeTextDocumentParams(version, [edit]))
        assert not (await diagnostics.get()).diagnostics

        place = lsp.Position(2, 8)
        shown = await client.text_document_hover_async(lsp.HoverParams(document, place))
        assert shown is not None
        assert isinstance(shown.contents, lsp.MarkupContent)
        assert "input 𝛾[N]" in shown.contents.value
        assert shown.range == lsp.Range(start=lsp.Position(2, 7), end=lsp.Position(2, 9))

        items = await client.text_document_completion_async(lsp.CompletionParams(document, lsp.Position(2, 7)))
        assert items is not None
        assert not isinstance(items, lsp.CompletionList)
        assert {"𝛾", "exp", "cosine"} <= {item.label for item in items}

        target = await client.text_document_definition_async(lsp.DefinitionParams(document, place))
        assert isinstance(target, lsp.Location)
        assert (target.uri, target.range.start) == (uri, lsp.Position(1, 6))

        options = lsp.FormattingOptions(tab_size=2, insert_spaces=True)
        edits = await client.text_document_formatting_async(lsp.DocumentFormattingParams(document, options))
        assert edits is not None
        assert [e.new_text for e in edits] == ["loss a\ninput 𝛾[N]\nreturn 𝛾^2\n"]
        assert edits[0].range.end == lsp.Position(3, 0)

        client.text_document_did_close(lsp.DidCloseTextDocumentParams(document))
        assert not (await diagnostics.get()).diagnostics
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()
    except BaseException:
        assert client._server is not None
        client._server.kill()  # or a failed assertion would wait for a server that waits for input
        raise


def test_a_client_over_stdio(tmp_path: Path) -> None:
    asyncio.run(asyncio.wait_for(conversation(tmp_path / "a.loss"), timeout=60))
