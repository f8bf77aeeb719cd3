"""How long the files are: `python -m tests.catalogue.lengths` lists them, the longest first.

What counts is what says the loss: declarations, definitions, and what is returned. A docstring, a citation, claims and
examples make a file longer and better.
"""

from __future__ import annotations

from lossdsl.api import registry
from lossdsl.source.text import Source
from lossdsl.syntax.parse import parse


def saying(text: str) -> int:
    """The lines from the first declaration to the end of what is returned, without blank ones and comments."""
    loss = parse(Source("", text))
    part = text[loss.decls[0].span.start : loss.result.span.end]
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in part.splitlines())


def main() -> None:
    texts = {full: file.read() for full, file in registry().losses.items()}
    found = sorted(((saying(text), full) for full, text in texts.items()), reverse=True)
    for length, full in found[:20]:
        print(f"{length:>3} {full}")
    whole = sum(sum(bool(line.strip()) for line in text.splitlines()) <= 15 for text in texts.values())
    print(f"at most 15 lines say it in {sum(n <= 15 for n, _ in found)} of {len(found)} files,")
    print(
        f"the median is {found[len(found) // 2][0]}; {whole} have at most 15 lines with docstring, claims and examples"
    )


if __name__ == "__main__":
    main()
