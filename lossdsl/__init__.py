"""lossdsl: losses as mathematics, compiled to fused kernels with proved gradients."""

__version__ = "0.1.0"
