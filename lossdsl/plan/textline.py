"""One line of a KernelProgram's text as tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME = r"[@\w][@\w.']*"
NUMBER = r"-?(?:\d+/\d+|\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf|nan)"
TOKEN = re.compile(rf"\s*(?:(?P<arrow>->)|(?P<number>{NUMBER})(?![\w.'@/])|(?P<name>{NAME})|(?P<mark>[\[\](),:=]))")
DTYPES = ("real", "int", "bool")


class KernelTextError(ValueError):
    """The text of a KernelProgram is malformed; the message has the line's number."""


@dataclass(slots=True)
class Line:
    """A line being read: its tokens from `at` on."""

    number: int
    indent: int
    tokens: list[str]
    at: int = 0

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise self.error(f"expected {expected or 'more'}, found {token or 'the end of the line'}")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def name(self) -> str:
        token = self.take()
        if not re.fullmatch(NAME, token) or re.fullmatch(NUMBER, token):
            raise self.error(f"expected a name, found {token}")
        return token

    def error(self, what: str) -> KernelTextError:
        return KernelTextError(f"line {self.number}: {what}")

    def end(self) -> None:
        if self.peek():
            raise self.error(f"expected the end of the line, found {self.peek()}")


def tokens(content: str, number: int) -> list[str]:
    found, at = [], 0
    while at < len(content):
        m = TOKEN.match(content, at)
        if m is None:
            raise KernelTextError(f"line {number}: cannot read {content[at:].strip()!r}")
        found.append(m.group().strip())
        at = m.end()
    return found
