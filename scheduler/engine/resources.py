"""Amounts of the three resources that the scheduler shares out, and their arithmetic."""

from typing import NamedTuple

ONE_GPU = 1000
"""Thousandths of a device that make a whole one."""


class Amount(NamedTuple):
    """So much GPU (in thousandths of a device), CPU (in thousandths of a core) and memory."""

    gpu_milli: int = 0
    cpu_millicores: int = 0
    memory_bytes: int = 0

    def plus(self, other: "Amount") -> "Amount":
        """Return the sum, resource by resource."""
        return Amount(
            self.gpu_milli + other.gpu_milli,
            self.cpu_millicores + other.cpu_millicores,
            self.memory_bytes + other.memory_bytes,
        )

    def times(self, count: int) -> "Amount":
        """Return `count` times this amount."""
        return Amount(self.gpu_milli * count, self.cpu_millicores * count, self.memory_bytes * count)


class Quota(NamedTuple):
    """An amount in which None stands for "without bound"."""

    gpu_milli: int | None = 0
    cpu_millicores: int | None = None
    memory_bytes: int | None = None

    def has_room_for(self, held: Amount, more: Amount) -> bool:
        """Return whether `held` and `more` together stay within, looking only at what `more` asks for."""
        return all(
            quota is None or asked == 0 or have + asked <= quota
            for quota, have, asked in zip(self, held, more, strict=True)
        )


NOTHING = Amount()


def is_fraction(gpu_milli: int) -> bool:
    """Return whether an amount of GPU is a part of one device, which it may share with others."""
    return 0 < gpu_milli < ONE_GPU
