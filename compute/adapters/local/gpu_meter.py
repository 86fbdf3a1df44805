"""What a job uses of its GPUs, as NVIDIA's management library (NVML) tells. For shims of jobs with GPUs alone.

Of a whole GPU all use counts, because the job holds it alone. Of a fraction only that of the job's own processes does,
and only where NVML and the shim know processes by the same ids. What NVML does not tell is not measured, never 0.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from compute.adapters.local.gpu_check import LocalGpuCheck

# As `core.gpus` says; a shim finds no package but this one.
_ONE_GPU = 1000
_EVERY_S = 1.0
_LONGEST_AGE_S = 3.0
# From linux/proc_ns.h: the namespace of process ids that the driver of the GPUs counts in.
_FIRST_PID_NAMESPACE = "pid:[4026531836]"


class GpuUse(NamedTuple):
    """The mean utilisation of a job's GPUs, 0 to 100, and the memory it uses of them; None: not measured."""

    percent: int | None
    memory_bytes: int | None


NOT_MEASURED = GpuUse(None, None)


class GpuReader:
    """Reads what a job uses of its GPUs, each given as index and thousandths. `nvml` is the module `pynvml`."""

    def __init__(self, nvml: Any, gpus: Sequence[tuple[int, int]], *, knows_processes: bool) -> None:
        self._nvml = nvml
        self._gpus = gpus
        self._knows_processes = knows_processes
        # NVML counts in microseconds of the wall clock.
        self._seen_at = int((time.time() - _EVERY_S) * 1e6)

    def read(self, pids: Collection[int]) -> GpuUse:
        """Return the use of now. `pids` are the job's processes."""
        percents = [self._measure(self._percent, index, milli, pids) for index, milli in self._gpus]
        sizes = [self._measure(self._memory_bytes, index, milli, pids) for index, milli in self._gpus]
        total = _sum(percents)
        return GpuUse(None if total is None else round(total / len(self._gpus)), _sum(sizes))

    def _measure(
        self,
        question: Callable[[Any, bool, Collection[int]], int | None],
        index: int,
        milli: int,
        pids: Collection[int],
    ) -> int | None:
        is_whole = milli == _ONE_GPU
        if not (is_whole or self._knows_processes):
            return None
        try:
            return question(self._nvml.nvmlDeviceGetHandleByIndex(index), is_whole, pids)
        except self._nvml.NVMLError:
            return None

    def _percent(self, device: Any, is_whole: bool, pids: Collection[int]) -> int | None:  # noqa: FBT001
        if is_whole:
            return int(self._nvml.nvmlDeviceGetUtilizationRates(device).gpu)
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(device, self._seen_at)
        except self._nvml.NVMLError as error:
            # It has samples of processes at work alone, and pynvml raises where there are none.
            if error.value in {self._nvml.NVML_SUCCESS, self._nvml.NVML_ERROR_NOT_FOUND}:
                return 0
            raise
        self._seen_at = max([self._seen_at, *(sample.timeStamp for sample in samples)])
        newest = {sample.pid: sample.smUtil for sample in sorted(samples, key=lambda sample: sample.timeStamp)}
        return min(100, sum(int(percent) for pid, percent in newest.items() if pid in pids))

    def _memory_bytes(self, device: Any, is_whole: bool, pids: Collection[int]) -> int | None:  # noqa: FBT001
        if is_whole:
            return int(self._nvml.nvmlDeviceGetMemoryInfo(device, version=self._nvml.nvmlMemory_v2).used)
        processes = self._nvml.nvmlDeviceGetComputeRunningProcesses(device)
        return _sum([process.usedGpuMemory for process in processes if process.pid in pids])


class GpuMeter:
    """Reads once a second on a thread of its own: the driver of a broken GPU may take minutes to answer."""

    def __init__(self, read: Callable[[], GpuUse]) -> None:
        self._read = read
        self._newest = (float("-inf"), NOT_MEASURED)

    def measure(self) -> None:
        """Read once."""
        use = self._read()
        self._newest = (time.monotonic(), use)

    def measure_on(self) -> None:
        """Read for ever."""
        while True:
            self.measure()
            time.sleep(_EVERY_S)

    def newest(self) -> GpuUse:
        """Return what was read last, unless that is long ago."""
        read_at, use = self._newest
        return use if time.monotonic() - read_at < _LONGEST_AGE_S else NOT_MEASURED


def start_meter(
    packages: str, gpus: Sequence[tuple[int, int]], list_pids: Callable[[], Collection[int]], check: LocalGpuCheck
) -> Callable[[], GpuUse]:
    """Begin to measure, once it is known what the job sees, and return what tells the newest.

    `packages`: the folder that holds `pynvml`; empty: none does.
    """
    reader: GpuReader | None = None

    def read() -> GpuUse:
        return NOT_MEASURED if reader is None else reader.read(list_pids())

    def measure() -> None:
        nonlocal reader
        check.read_files()
        nvml = _load(packages) if packages else None
        if nvml is not None:
            check.ask(nvml)
            knows_processes = os.readlink("/proc/self/ns/pid") == _FIRST_PID_NAMESPACE  # noqa: PTH115
            reader = GpuReader(nvml, gpus, knows_processes=knows_processes)
            meter.measure_on()

    meter = GpuMeter(read)
    threading.Thread(target=measure, name="gpu meter", daemon=True).start()
    return meter.newest


def _load(packages: str) -> Any:
    """Return the module `pynvml` with its library loaded; None where there is no such library, or no driver."""
    sys.path.append(packages)
    try:
        import pynvml  # noqa: PLC0415 (a large module)
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def _sum(parts: Sequence[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
