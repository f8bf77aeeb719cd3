"""The torch backend's hook: it works on every device and comes last under "auto"."""

from __future__ import annotations

from lossdsl.backends.hooks import hookimpl
from lossdsl.backends.offer import API, BackendSpec


@hookimpl
def lossdsl_backends() -> list[BackendSpec]:
    """The one record of this folder."""
    module = "lossdsl.backends.torch.emit"
    return [
        BackendSpec(
            name="torch",
            api=API,
            emit=f"{module}:emit",
            probe=f"{module}:probe",
            devices=("*",),
            fuses=False,
            doc="plain torch operations; works everywhere torch does, torch.compile included",
        )
    ]
