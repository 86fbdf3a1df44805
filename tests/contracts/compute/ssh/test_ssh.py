from tests.contracts.compute_driver import ComputeDriverContract, ReadableCheckpointContract


class TestSshDriver(ReadableCheckpointContract, ComputeDriverContract):
    pass
