"""What this machine offers to jobs: its cores, memory and GPUs."""

import os
import platform
from pathlib import Path

from compute.adapters.local.gpus import list_gpus
from compute.engine.ports import NodeFacts


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
