"""The shim of a machine that has GPUs, which are none: their driver's files, and their own, are in folders of the test.

`driver` lies beside the folder of jobs, and so does `files` with the files of the devices.
"""

from pathlib import Path

from compute.adapters.local import shim


class ShimWithGpus(shim.Shim):
    """The shim of one job."""

    @property
    def gpu_files(self) -> str:
        return str(Path(self.folder).parents[1] / "driver")

    @property
    def devices(self) -> str:
        return str(Path(self.folder).parents[1] / "files")


def main() -> None:
    """Fork a shim for each message, as that of this machine does."""
    shim.main(ShimWithGpus)
