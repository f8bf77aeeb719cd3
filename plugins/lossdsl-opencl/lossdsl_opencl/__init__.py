"""OpenCL kernels for lossdsl, written against `lossdsl.backends.api` alone."""
