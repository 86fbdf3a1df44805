"""The shim of a machine that has GPUs, which are none: their driver's files, and their own, are in folders of the test.
NVML is not asked: where there are real ones, it would tell of those.

`driver` lies beside the folder of jobs, and so does `files` with the files of the devices.
"""

from pathlib import Path

from compute.adapters.local import shim


class ShimWithGpus(shim.Shim):
    """The shim of one job."""

    def __init__(self, folder: str, order: shim.Order, control: int) -> None:
        order.gpu_packages = ""
        super().__init__(folder, order, control)

    @property
    def gpu_files(self) -> str:
        return str(Path(self.folder).parents[1] / "driver")

    @property
    def devices(self) -> str:
        return str(Path(self.folder).parents[1] / "files")


def main() -> None:
    """Fork a shim for each message, as that of this machine does."""
    shim.main(ShimWithGpus)
