"""The plain-torch backend: a KernelProgram printed as torch operations."""
