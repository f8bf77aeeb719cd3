"""The hook: light, since it is imported whenever lossdsl looks for plugins."""

from __future__ import annotations

from lossdsl.backends.hooks import hookimpl
from lossdsl.backends.offer import API, BackendSpec


@hookimpl
def lossdsl_backends() -> list[BackendSpec]:
    """The C++ backend, preferred on the CPU where there is a compiler."""
    return [
        BackendSpec(
            name="cpu",
            api=API,
            emit="lossdsl_cpu.emit:emit",
            probe="lossdsl_cpu.available:probe",
            devices=("cpu",),
            priority=20,
            one_visit=True,
            into=True,
            doc="Fused C++ loops, compiled at first use by the system's compiler.",
        )
    ]
