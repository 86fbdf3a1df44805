"""What this machine offers to jobs: its cores, memory and NVIDIA GPUs, as nvidia-smi tells; none where it is absent."""

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from compute.engine.ports import GpuFacts, NodeFacts

_GPU_QUERY = ["--query-gpu=index,uuid,name,memory.total,pci.bus_id", "--format=csv,noheader,nounits"]
_TIMEOUT_S = 10
_GPU_COLUMNS = 5
_gpu_places: dict[int, str] = {}
"""The places on the PCI bus of the GPUs that were listed last, by index."""


def describe_machine() -> NodeFacts:
    """Return this machine as a node: the cores that this process may use, and its memory."""
    return NodeFacts(
        name=platform.node() or "localhost",
        cpu_millicores=len(usable_cores()) * 1000,
        memory_bytes=_memory_bytes(),
        gpus=tuple(list_gpus()),
        labels={"architecture": platform.machine()},
    )


def usable_cores() -> list[int]:
    """Return the numbers of the cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


def _memory_bytes() -> int:
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # In a container the limit of its control group is what there is.
    limits = [Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")]
    limits_bytes = [int(text) for path in limits if path.is_file() and (text := path.read_text().strip()).isdigit()]
    return min([physical, *limits_bytes])


def list_gpus(program: str = "nvidia-smi") -> Sequence[GpuFacts]:
    """Return the GPUs in the order of the PCI bus. A driver that does not answer counts as no GPU."""
    path = shutil.which(program)
    if path is None:
        return ()
    try:
        answer = subprocess.run([path, *_GPU_QUERY], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (subprocess.SubprocessError, OSError):
        return ()
    rows = read_gpu_table(answer.stdout)
    _gpu_places.clear()
    _gpu_places.update((gpu.index, place) for gpu, place in rows)
    return tuple(gpu for gpu, _ in rows)


def find_gpu_place(index: int) -> str:
    """Return where a GPU is on the PCI bus, as its driver names it in /proc; empty: not known."""
    if index not in _gpu_places:
        list_gpus()
    return _gpu_places.get(index, "")


def read_gpu_table(text: str) -> Sequence[tuple[GpuFacts, str]]:
    """Read the table that nvidia-smi prints, with places on the PCI bus; lines that are no rows are passed over."""
    gpus = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == _GPU_COLUMNS and cells[0].isdigit() and cells[3].isdigit():
            index, uuid, model, mebibytes, bus_id = cells
            domain, _, rest = bus_id.lower().partition(":")
            gpus.append((GpuFacts(int(index), uuid, model, int(mebibytes) * 2**20), f"{domain[-4:]}:{rest}"))
    return tuple(sorted(gpus, key=lambda row: row[0].index))
