"""The Triton backend's hook: first under "auto" for tensors on a GPU."""

from __future__ import annotations

import os

from lossdsl.backends.hooks import hookimpl
from lossdsl.backends.offer import API, BackendSpec


@hookimpl
def lossdsl_backends() -> list[BackendSpec]:
    """The one record of this folder."""
    module = "lossdsl.backends.triton.emit"
    interpreting = os.environ.get("TRITON_INTERPRET", "0") in (
        "1",
        "true",
        "on",
        "yes",
    )  # on the CPU, for tests; never chosen by "auto" there
    return [
        BackendSpec(
            name="triton",
            api=API,
            emit=f"{module}:emit",
            probe=f"{module}:probe",
            devices=("cuda", "cpu") if interpreting else ("cuda",),
            priority=-10 if interpreting else 10,
            doc="one fused kernel a direction on CUDA and ROCm devices",
            one_visit=True,
            multiplies=True,
        )
    ]
