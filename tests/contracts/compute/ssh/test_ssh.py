from tests.contracts.compute_driver import CheckpointContract, ComputeDriverContract


class TestSshDriver(CheckpointContract, ComputeDriverContract):
    pass
