from tests.contracts.compute_driver import ComputeDriverContract


class TestSshDriver(ComputeDriverContract):
    pass
