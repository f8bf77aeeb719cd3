"""What a backend says of itself before anything is compiled. Light, since it is read whenever a program starts."""

from __future__ import annotations

from dataclasses import dataclass

API = 1  # raised when a backend written for the last one would break
OLDEST_API = 1


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a backend can be used here; `reason` in words when not, `device` what it found."""

    ok: bool
    reason: str = ""
    device: str = ""
