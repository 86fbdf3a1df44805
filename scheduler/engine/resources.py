"""The three resources that the scheduler shares out, and bounds on them."""

from typing import NamedTuple


class Quota(NamedTuple):
    """An amount of each resource; None stands for "without bound"."""

    gpu_milli: int | None = 0
    cpu_millicores: int | None = None
    memory_bytes: int | None = None
