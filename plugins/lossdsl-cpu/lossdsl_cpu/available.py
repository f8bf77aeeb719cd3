"""Whether kernels can be built here: asked at every load of a loss whose backend is chosen, so it imports little."""

from __future__ import annotations

from lossdsl.backends.offer import Availability
from lossdsl_cpu.build import CompilerError, compiler, version


def probe() -> Availability:
    """Whether there is a C++ compiler, and which."""
    try:
        path = compiler()
        return Availability(True, device=f"{version(path)} ({path})")
    except CompilerError as error:
        return Availability(False, str(error))
