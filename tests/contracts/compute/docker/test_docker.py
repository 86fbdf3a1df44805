from tests.contracts.compute_driver import ComputeDriverContract, TerminalContract


class TestDockerDriver(TerminalContract, ComputeDriverContract):
    pass
