from lossdsl.testing.conformance import BackendTests


class TestOpenCL(BackendTests):
    backend = "opencl"
