"""What a `.loss` file takes and claims, read without parsing: what `list` searches hundreds of files for in a blink.

A file that is wrong has what can be read of it; what is wrong with it is for `lossdsl check` to say.
"""

from __future__ import annotations

import re

KINDS = ("real", "prob", "bool", "int", "index", "label")
_INPUT = re.compile(r"(?m)^input[ \t]+([^#\n]+)")
_KIND = re.compile(rf":[ \t]*({'|'.join(KINDS)})\b")
_CLAIM = re.compile(r"(?m)^claim[ \t]+([^#\n]+)")
_BOUND = re.compile(r"loss\s*(>=|<=)\s*")
PROPERTIES = {  # claimed by name, or as a bound of the loss
    "convex": "in a row of an input",
    "lipschitz": "its gradient is bounded",
    "nonnegative": "never below 0",
    "bounded": "never above a bound that the file says",
    "proper": "least at the true distribution",
    "shift_invariant": "adding a number to a row changes nothing",
    "symmetric": "the sum over all targets is constant: unmoved by uniform label noise",
}


def input_kinds(text: str) -> tuple[str, ...]:
    """The kinds of a file's inputs, each once: "real", "index", …"""
    found = []
    for declared in _INPUT.findall(text):
        kind = _KIND.search(declared.split("=")[0].split("~")[0])
        found.append(kind[1] if kind else "real")
    return tuple(dict.fromkeys(found))


def properties(text: str) -> tuple[str, ...]:
    """The properties of PROPERTIES that a file claims without a condition."""
    found = set()
    for claim in _CLAIM.findall(text):
        if re.search(r"\bwhen\b", claim):
            continue
        bound = _BOUND.match(claim)
        if bound and bound[1] == "<=":
            found.add("bounded")
        elif bound and claim[bound.end() :].strip() == "0":
            found.add("nonnegative")
        elif not bound:
            found |= {re.split(r"\W", claim, maxsplit=1)[0]} & set(PROPERTIES)
    return tuple(name for name in PROPERTIES if name in found)
