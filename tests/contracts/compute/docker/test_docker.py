from tests.contracts.compute_driver import ComputeDriverContract


class TestDockerDriver(ComputeDriverContract):
    pass
