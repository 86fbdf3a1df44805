"""NVIDIA's management library (NVML) where there is no GPU: it answers with NVML's own structures."""

import pynvml

GIB = 2**30


class FakeDevice:
    """What NVML tells of one GPU. `refusal`: the code with which it refuses everything.

    `slices` are devices of their own; None: the model cannot be cut.
    """

    def __init__(
        self, *, percent=0, memory_bytes=0, processes=(), samples=(), refusal=None, minor=0, uuid="GPU-0", slices=None
    ):
        self.percent, self.memory_bytes, self.refusal = percent, memory_bytes, refusal
        self.processes, self.samples = processes, samples
        self.minor, self.uuid, self.slices = minor, uuid, slices


class FakeNvml:
    """The functions of pynvml that are used."""

    NVMLError, NVML_SUCCESS = pynvml.NVMLError, pynvml.NVML_SUCCESS
    NVML_ERROR_NOT_FOUND, NVML_ERROR_NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_NOT_SUPPORTED
    NVML_ERROR_FUNCTION_NOT_FOUND = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    NVML_DEVICE_MIG_ENABLE = pynvml.NVML_DEVICE_MIG_ENABLE
    nvmlMemory_v2 = pynvml.nvmlMemory_v2  # noqa: N815 (NVML's name)

    def __init__(self, *devices):
        self.devices = devices
        self.asked_since = []

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        if index >= len(self.devices):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        if self.devices[index].refusal is not None:
            raise pynvml.NVMLError(self.devices[index].refusal)
        return self.devices[index]

    def nvmlDeviceGetUtilizationRates(self, device):  # noqa: N802
        return pynvml.c_nvmlUtilization_t(gpu=device.percent, memory=0)

    def nvmlDeviceGetMemoryInfo(self, device, version):  # noqa: N802
        total = 80 * GIB if device.slices is not None or device.uuid.startswith("GPU-") else 10 * GIB
        return pynvml.c_nvmlMemory_v2_t(version=version, total=total, used=device.memory_bytes)

    def nvmlDeviceGetComputeRunningProcesses(self, device):  # noqa: N802
        infos = [pynvml.c_nvmlProcessInfo_v3_t(pid=pid, usedGpuMemory=size or 0) for pid, size in device.processes]
        friendly = [pynvml.nvmlStructToFriendlyObject(process) for process in infos]
        for process, (_, size) in zip(friendly, device.processes, strict=True):
            process.usedGpuMemory = size  # pynvml says None where the driver cannot tell
        return friendly

    def nvmlDeviceGetProcessUtilization(self, device, since):  # noqa: N802
        self.asked_since.append(since)
        if not device.samples:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return [
            pynvml.c_nvmlProcessUtilizationSample_t(pid=pid, timeStamp=at, smUtil=percent)
            for pid, at, percent in device.samples
        ]

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.devices)

    def nvmlDeviceGetMinorNumber(self, device):  # noqa: N802
        return device.minor

    def nvmlDeviceGetUUID(self, device):  # noqa: N802
        return device.uuid

    def nvmlDeviceGetMigMode(self, device):  # noqa: N802
        if device.slices is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        mode = pynvml.NVML_DEVICE_MIG_ENABLE if device.slices else pynvml.NVML_DEVICE_MIG_DISABLE
        return [mode, mode]

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device, index):  # noqa: N802
        return device.slices[index]
