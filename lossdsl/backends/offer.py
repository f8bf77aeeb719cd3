"""What a backend says of itself before anything is compiled: all that a plugin's module imports, beside the hooks.

Light, since it is read whenever a program starts; `lossdsl.backends.api` is the rest of the interface.
"""

from __future__ import annotations

from dataclasses import dataclass

from lossdsl.registry import BackendSpec

__all__ = ["API", "OLDEST_API", "Availability", "BackendSpec"]

API = 1  # raised when a backend written for the last one would break
OLDEST_API = 1


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a backend can be used here; `reason` in words when not, `device` what it found."""

    ok: bool
    reason: str = ""
    device: str = ""
