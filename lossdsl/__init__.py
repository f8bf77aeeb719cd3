"""lossdsl: losses as mathematics, compiled to fused kernels with proved gradients."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lossdsl.api import Spec, backends, check, compile, load, loads, loss, losses

__version__ = "0.1.0"
__all__ = ["Spec", "__version__", "backends", "check", "compile", "load", "loads", "loss", "losses"]


class _Package(ModuleType):
    """Gives the functions of `lossdsl.api` when they are asked for, so that `import lossdsl` is quick.

    `lossdsl.check` is the function, whatever the import system says of the package of that name.
    """

    def __getattr__(self, name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module("lossdsl.api"), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
