"""A loss by the name a person gives: `focal`, `std/focal`, an alias."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from lossdsl.packs.files import canonical
from lossdsl.packs.header import header_of
from lossdsl.packs.migrating import alike, read_rows
from lossdsl.registry import LossFile, PluginFailure


class UnknownLossError(LookupError):
    """No loss has this name, or several have; `suggestions` are full names or bare ones that would do."""

    def __init__(self, message: str, suggestions: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.suggestions = suggestions


def find_loss(losses: Mapping[str, LossFile], name: str, failures: Iterable[PluginFailure] = ()) -> LossFile:
    """The file of a loss by full name, by bare name while it is unique, or by an alias.

    Aliases are looked up last, since that reads the head of every file. Raises UnknownLossError, which names the
    distributions among which to choose, or of `failures` those that might have brought the loss.
    """
    wanted = canonical(name)
    found = [loss for full, loss in losses.items() if wanted in (canonical(full), canonical(loss.name))]
    if not found:
        found = [loss for loss in losses.values() if wanted in map(canonical, header_of(loss).aliases)]
    if len(found) == 1:
        return found[0]
    if found:
        found.sort(key=lambda loss: (loss.pack, loss.name))
        full = tuple(f"{loss.pack}/{loss.name}" for loss in found)
        named = " or ".join(f"{x} ({loss.distribution})" for x, loss in zip(full, found, strict=True))
        raise UnknownLossError(f"{name!r} is in several packs: say {named}", full)
    blamed = absent(name, failures)
    if "/" in name and blamed:
        raise UnknownLossError(f"there is no loss {name!r}, since {blamed}")
    close = suggest(losses, name)
    hint = f"; did you mean {' or '.join(close)}?" if close else "; `lossdsl list` shows them all"
    raise UnknownLossError(f"there is no loss {name!r}{hint}" + (f" (But {blamed})" if blamed else ""), close)


def absent(name: str, failures: Iterable[PluginFailure]) -> str:
    """Which plugins that aren't in use might have brought a loss, in words; nothing if none.

    A full name is of the pack that it says; a bare one may be of any that wasn't turned off.
    """
    pack, slash, _ = name.partition("/")
    return "; ".join(str(f) for f in failures if (canonical(f.name) == canonical(pack) if slash else not f.disabled))


def suggest(losses: Mapping[str, LossFile], name: str) -> tuple[str, ...]:
    """Up to three names that the given one is likely a slip of: what it has the initials of or another library calls
    so, then what is near in letters or has its parts in another order."""
    bare = canonical(name.rsplit("/", 1)[-1])
    names = sorted({loss.name for loss in losses.values()})
    elsewhere = {ours for row in alike(read_rows(), bare) for ours in row.losses} if len(bare) > 3 else set()
    close = [other for other in names if other in elsewhere or bare == "".join(word[0] for word in other.split("_"))]
    close += [other for other in get_close_matches(bare, names, n=3, cutoff=0.7) if other not in close]
    words = {word for word in bare.split("_") if len(word) > 2}
    by_words = [other for other in names if other not in close and words and words <= set(other.split("_"))]
    return tuple((close + by_words)[:3])
