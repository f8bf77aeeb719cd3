"""The hook: light, since it is imported whenever lossdsl looks for plugins."""

from __future__ import annotations

from lossdsl.backends.hooks import hookimpl
from lossdsl.backends.offer import BackendSpec

lossdsl_api = 1  # the version of the hooks that this is written for


@hookimpl
def lossdsl_backends() -> list[BackendSpec]:
    """The OpenCL backend, used where it is asked for by name."""
    return [
        BackendSpec(
            name="opencl",
            api=1,
            emit="lossdsl_opencl.emit:emit",
            probe="lossdsl_opencl.emit:probe",
            devices=("cpu",),
            priority=-10,
            doc="OpenCL kernels, a work item a row, for tensors of the CPU that are copied to a device and back.",
        )
    ]
