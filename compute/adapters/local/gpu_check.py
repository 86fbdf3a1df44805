"""Finds out which GPUs a job on this machine can see, beside the job: no process of it waits for that.

The driver of the GPUs tells it in files, and NVIDIA's management library (NVML), where it is installed, also how much
memory they have. For shims of jobs with GPUs alone.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from compute.engine.visible_gpus import InstalledGpu, SeenGpu, find_visible, read_information, read_uuid


class LocalGpuCheck:
    """`text` is what is known so far, as the JSON of a `VisibleGpus`; empty: nothing.

    `openable` are the minor numbers of the GPUs whose files the job can open (None: not known), `variable` its
    CUDA_VISIBLE_DEVICES, and `files` the folder in which the driver describes the GPUs.
    """

    def __init__(self, openable: Collection[int] | None, variable: str | None, files: str) -> None:
        self.text = ""
        self._openable, self._variable, self._files = openable, variable, files

    def read_files(self) -> None:
        """Look by the files of the driver."""
        try:
            folders = sorted(Path(self._files).iterdir())  # named by their places on the PCI bus
            texts = [(folder / "information").read_text(errors="replace") for folder in folders]
        except OSError:  # there is no such driver, or it says nothing
            return
        gpus = [read_information(text) for text in texts]
        self._note([gpu for gpu in gpus if gpu is not None])

    def ask(self, nvml: Any) -> None:
        """Look by NVML, the module `pynvml`. What it refuses to tell stays as the files have told it."""
        try:
            handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
            self._note([_describe(nvml, handle) for handle in handles])
        except nvml.NVMLError:
            return

    def _note(self, installed: list[InstalledGpu]) -> None:
        if self._openable is not None:
            self.text = json.dumps(find_visible(installed, self._openable, self._variable).to_json())


def _describe(nvml: Any, handle: Any) -> InstalledGpu:
    minor = int(nvml.nvmlDeviceGetMinorNumber(handle))
    seen = _first_slice(nvml, handle) or handle
    memory = nvml.nvmlDeviceGetMemoryInfo(seen, version=nvml.nvmlMemory_v2)
    return InstalledGpu(minor, SeenGpu(read_uuid(str(nvml.nvmlDeviceGetUUID(seen))), int(memory.total)))


def _first_slice(nvml: Any, handle: Any) -> Any:
    """Return the slice that CUDA shows in the place of a GPU that is cut; None: it is whole."""
    try:
        mode, _ = nvml.nvmlDeviceGetMigMode(handle)
        return nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0) if mode == nvml.NVML_DEVICE_MIG_ENABLE else None
    except nvml.NVMLError as error:
        # As it says of models that cannot be cut.
        if error.value in {nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND}:
            return None
        raise
