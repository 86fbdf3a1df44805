from tests.contracts.compute_driver import ComputeDriverContract, GpuContract, TerminalContract


class TestDockerDriver(TerminalContract, GpuContract, ComputeDriverContract):
    pass
