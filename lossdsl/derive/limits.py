"""What a process that proves may take: memory, and time that it computes. Windows has no such limits."""

from __future__ import annotations

import math
import signal


def hold_at_most(memory: int) -> None:
    """So many bytes of address space."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def compute_at_most(seconds: float) -> None:
    """Ends this process when it has computed that much longer (rounded up to a second)."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = math.ceil(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def ring_after(seconds: float) -> None:
    """Sends SIGPROF to this process when it has computed that long: without a handler, its end. 0: never."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)
