"""lossdsl lsp: the language server."""

from __future__ import annotations

import click

from lossdsl.cli._files import discovered, fail


@click.command("lsp")
def command() -> None:
    """Speak the Language Server Protocol on standard input and output, for an editor.

    Diagnostics as you type, hover, completion, go to definition, formatting.
    """
    try:
        from lossdsl.lsp.server import make_server
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        fail("the language server needs pygls: pip install 'lossdsl[lsp]'")
    make_server(discovered()).start_io()
