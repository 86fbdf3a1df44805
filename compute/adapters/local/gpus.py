"""The NVIDIA GPUs of this machine, as nvidia-smi tells; none where it is absent."""

import shutil
import subprocess
from collections.abc import Sequence

from compute.engine.ports import GpuFacts

_QUERY = ["--query-gpu=index,uuid,name,memory.total", "--format=csv,noheader,nounits"]
_TIMEOUT_S = 10
_FIELDS = 4


def list_gpus(program: str = "nvidia-smi") -> Sequence[GpuFacts]:
    """Return the GPUs in the order of the PCI bus. A driver that does not answer counts as no GPU."""
    path = shutil.which(program)
    if path is None:
        return ()
    try:
        answer = subprocess.run([path, *_QUERY], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (subprocess.SubprocessError, OSError):
        return ()
    return read_table(answer.stdout)


def read_table(text: str) -> Sequence[GpuFacts]:
    """Read the table that nvidia-smi prints; lines that are no table rows (warnings) are passed over."""
    gpus = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == _FIELDS and cells[0].isdigit() and cells[3].isdigit():
            index, uuid, model, mebibytes = cells
            gpus.append(GpuFacts(int(index), uuid, model, int(mebibytes) * 2**20))
    return tuple(sorted(gpus, key=lambda gpu: gpu.index))
