"""Fused C++ kernels for losses of lossdsl on the CPU."""
