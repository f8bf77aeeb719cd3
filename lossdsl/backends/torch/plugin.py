"""The torch backend, declared through the hook that anyone's backend uses."""

from __future__ import annotations

from lossdsl.backends.api import API, BackendSpec
from lossdsl.backends.hooks import hookimpl


@hookimpl
def lossdsl_backends() -> list[BackendSpec]:
    return [
        BackendSpec(
            name="torch",
            api=API,
            emit="lossdsl.backends.torch.emit:emit",
            probe="lossdsl.backends.torch.emit:probe",
            devices=("cpu", "cuda", "mps", "xpu"),
            priority=0,
            doc="whole-array torch operations; runs wherever torch does",
        )
    ]
