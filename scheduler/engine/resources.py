"""The three resources that the scheduler shares out, and bounds on them."""

from typing import NamedTuple

ONE_GPU = 1000
"""Thousandths of a device that make a whole one."""


class Quota(NamedTuple):
    """An amount of each resource; None stands for "without bound"."""

    gpu_milli: int | None = 0
    cpu_millicores: int | None = None
    memory_bytes: int | None = None
