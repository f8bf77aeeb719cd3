"""The protocol: pygls calls the functions of this package and gets places in the client's units back."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlparse

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.workspace import PositionCodec

from lossdsl import __version__
from lossdsl.lsp.analysis import Analysis, analyse
from lossdsl.lsp.complete import completions
from lossdsl.lsp.definition import definition
from lossdsl.lsp.hover import hover
from lossdsl.registry import Registry
from lossdsl.source.codes import all_codes
from lossdsl.source.diagnostic import Diagnostic, DiagnosticError
from lossdsl.source.text import Source, Span
from lossdsl.syntax.format import format_loss

_SEVERITY = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "note": lsp.DiagnosticSeverity.Information,
}
_KIND = {
    "statement": lsp.CompletionItemKind.Keyword,
    "word": lsp.CompletionItemKind.Keyword,
    "kind": lsp.CompletionItemKind.TypeParameter,
    "value": lsp.CompletionItemKind.Variable,
    "axis": lsp.CompletionItemKind.EnumMember,
    "function": lsp.CompletionItemKind.Function,
    "loss": lsp.CompletionItemKind.Module,
    "constant": lsp.CompletionItemKind.Constant,
}


def make_server(registry: Registry) -> LanguageServer:
    """A server over a registry, ready to `start_io()`."""
    server = LanguageServer("lossdsl", __version__)
    seen: dict[str, Analysis] = {}

    def look(uri: str) -> Analysis:
        """The analysis of a document as it is now."""
        document = server.workspace.get_text_document(uri)
        before = seen.get(uri)
        if before is None or before.source.text != document.source:
            name = Path(unquote(urlparse(uri).path)).name
            seen[uri] = analyse(Source(name, document.source), registry, before)
        return seen[uri]

    def places() -> Places:
        return Places(server.workspace.position_codec)

    def publish(uri: str) -> None:
        analysis = look(uri)
        found = [_diagnostic(analysis.source, d, uri, places()) for d in analysis.diagnostics]
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri=uri, diagnostics=found))

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        seen.pop(params.text_document.uri, None)
        gone = lsp.PublishDiagnosticsParams(uri=params.text_document.uri, diagnostics=[])
        server.text_document_publish_diagnostics(gone)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hovered(params: lsp.HoverParams) -> lsp.Hover | None:
        analysis = look(params.text_document.uri)
        found = hover(analysis, registry, places().offset(analysis.source, params.position))
        if found is None:
            return None
        content = lsp.MarkupContent(kind=lsp.MarkupKind.Markdown, value=found[0])
        return lsp.Hover(contents=content, range=places().range(analysis.source, found[1]))

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=["[", ":"]))
    def completed(params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        analysis = look(params.text_document.uri)
        found = completions(analysis, registry, places().offset(analysis.source, params.position))
        return [lsp.CompletionItem(label=c.label, kind=_KIND[c.kind], detail=c.detail) for c in found]

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def defined(params: lsp.DefinitionParams) -> lsp.Location | None:
        analysis = look(params.text_document.uri)
        found = definition(analysis, registry, places().offset(analysis.source, params.position))
        if found is None:
            return None
        path, source, span = found
        uri = params.text_document.uri if path is None else path.resolve().as_uri()
        return lsp.Location(uri=uri, range=places().range(source, span))

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def formatted(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
        source = look(params.text_document.uri).source
        try:
            text = format_loss(source)
        except DiagnosticError:
            return None  # what is wrong is already underlined
        if text == source.text:
            return []
        return [lsp.TextEdit(range=places().range(source, Span(0, len(source.text))), new_text=text)]

    return server


class Places:
    """Places of a Source in the units of the client, UTF-16 code units unless it asked for others."""

    def __init__(self, codec: PositionCodec) -> None:
        self.units = codec.client_num_units

    def position(self, source: Source, offset: int) -> lsp.Position:
        line, column = source.position(min(offset, len(source.text)))
        return lsp.Position(line=line - 1, character=self.units(source.line(line)[: column - 1]))

    def range(self, source: Source, span: Span) -> lsp.Range:
        return lsp.Range(start=self.position(source, span.start), end=self.position(source, span.end))

    def offset(self, source: Source, position: lsp.Position) -> int:
        if position.line >= len(source.line_starts):
            return len(source.text)
        start, units = source.line_starts[position.line], 0
        for i, letter in enumerate(source.line(position.line + 1)):
            if units >= position.character:
                return start + i
            units += self.units(letter)
        return start + len(source.line(position.line + 1))


def _diagnostic(source: Source, diagnostic: Diagnostic, uri: str, places: Places) -> lsp.Diagnostic:
    labels = [(places.range(source, label.span), label.text) for label in diagnostic.labels]
    nowhere = lsp.Range(start=lsp.Position(0, 0), end=lsp.Position(0, 0))
    message = diagnostic.message + (f"\nfix: {diagnostic.fix}" if diagnostic.fix else "")
    record = all_codes().get(diagnostic.code)
    related = [
        lsp.DiagnosticRelatedInformation(location=lsp.Location(uri=uri, range=place), message=text or "here")
        for place, text in labels[1:]
    ]
    return lsp.Diagnostic(
        range=labels[0][0] if labels else nowhere,
        message=message,
        severity=_SEVERITY[diagnostic.severity],
        code=diagnostic.code,
        source="lossdsl",
        related_information=related or None,
        data={"reason": record.reason} if record else None,
    )
