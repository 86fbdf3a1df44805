"""The NVIDIA GPUs of this machine, as nvidia-smi tells; none where it is absent."""

import shutil
import subprocess
from collections.abc import Sequence

from compute.engine.ports import GpuFacts

_QUERY = ["--query-gpu=index,uuid,name,memory.total,pci.bus_id", "--format=csv,noheader,nounits"]
_TIMEOUT_S = 10
_FIELDS = 5

_places: dict[int, str] = {}
"""The places on the PCI bus of the GPUs that were listed last, by index."""


def list_gpus(program: str = "nvidia-smi") -> Sequence[GpuFacts]:
    """Return the GPUs in the order of the PCI bus. A driver that does not answer counts as no GPU."""
    path = shutil.which(program)
    if path is None:
        return ()
    try:
        answer = subprocess.run([path, *_QUERY], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (subprocess.SubprocessError, OSError):
        return ()
    rows = read_table(answer.stdout)
    _places.clear()
    _places.update((gpu.index, place) for gpu, place in rows)
    return tuple(gpu for gpu, _ in rows)


def find_place(index: int) -> str:
    """Return where a GPU is on the PCI bus, as its driver names it in /proc; empty: not known."""
    if index not in _places:
        list_gpus()
    return _places.get(index, "")


def read_table(text: str) -> Sequence[tuple[GpuFacts, str]]:
    """Read the table that nvidia-smi prints, with places on the PCI bus; lines that are no rows are passed over."""
    gpus = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == _FIELDS and cells[0].isdigit() and cells[3].isdigit():
            index, uuid, model, mebibytes, bus_id = cells
            domain, _, rest = bus_id.lower().partition(":")
            gpus.append((GpuFacts(int(index), uuid, model, int(mebibytes) * 2**20), f"{domain[-4:]}:{rest}"))
    return tuple(sorted(gpus, key=lambda row: row[0].index))
