"""A Pygments lexer for .loss files, registered by entry point: documentation and terminals show losses in colour.

It reads one line at a time and never refuses: a file that is being written, or is wrong, is coloured as far as it goes.
`grammar/editors/loss.tmLanguage.json` says the same to editors; a test holds the two together.
"""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import (
    Comment,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
    Whitespace,
)

_NAME = r"[^\W\d]\w*"
_AXIS = r"[A-ZÀ-ÖØ-ÞΑ-ΡΣ-ΫА-Я]\w*"


class LossLexer(RegexLexer):  # type: ignore[misc]  # Pygments is untyped
    """Losses as mathematics, in the language of `grammar/REFERENCE.md`."""

    name = "lossdsl"
    aliases: ClassVar = ["loss"]
    filenames: ClassVar = ["*.loss"]
    url = ""
    tokens: ClassVar = {
        "root": [
            (r"\s+", Whitespace),
            (r"#[^\n]*", Comment.Single),
            (r'"""[\s\S]*?(?:"""|\Z)', String.Doc),
            (r'"[^"\n]*"?', String),
            (rf"(?m:^)([ \t]*)(loss|map)([ \t]+)({_NAME})", bygroups(Whitespace, Keyword, Whitespace, Name.Class)),
            (rf"(?m:^)([ \t]*)(def)([ \t]+)({_NAME})", bygroups(Whitespace, Keyword, Whitespace, Name.Function)),
            (
                r"(?m:^)([ \t]*)(alias|cite|tags|input|param|batch|axis|output|return|claim|example)\b(?![ \t]*=(?!=))",
                bygroups(Whitespace, Keyword),
            ),
            (rf"(?m:^)([ \t]*)({_NAME})(?=[ \t]*=(?!=))", bygroups(Whitespace, Name)),
            (r"(:)([ \t]*)(real|prob|bool|int|index|label|fixed)\b", bygroups(Punctuation, Whitespace, Keyword.Type)),
            (words(("if", "then", "else", "where", "weighted", "in"), suffix=r"\b"), Keyword),
            (words(("when", "gives", "fixed", "learnable"), suffix=r"\b(?![(\[])"), Keyword),
            (words(("and", "or", "not"), suffix=r"\b"), Operator.Word),
            (r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", Number),
            (r"(inf|pi)\b", Number),
            (rf"{_AXIS}'*", Name.Constant),
            (rf"{_NAME}(?=\(|\[[^\]\n]*\]\()", Name.Function),
            (rf"{_NAME}'*", Name),
            (r"\|>|->|==|!=|<=|>=|[-+*/^<>=~]", Operator),
            (r"[()\[\]{},:]", Punctuation),
            (r".", Text),
        ]
    }
