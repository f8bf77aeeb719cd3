"""The Triton backend: fused kernels for CUDA and ROCm devices."""
