"""How much of what running jobs hold they really use, as far as it is measured: CPU, over the last minute."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from compute.adapters import drivers
from compute.errors import ResourceUnreachable
from compute.models import Job
from core import clock

WINDOW = timedelta(minutes=1)
IDLE_PART = 0.05
_MOST_JOBS = 50


@dataclass(frozen=True)
class Utilisation:
    """The CPU that measured jobs hold and use, in thousandths of a core, and the GPUs held by those that stand still.

    A job stands still when it used less than a twentieth of its CPU. Simulated jobs are not measured.
    """

    measured_jobs: int
    held_millicores: int
    used_millicores: int
    idle_gpu_milli: int

    @property
    def percent(self) -> int | None:
        """The part of the held CPU that is used; None when nothing is measured."""
        return round(100 * self.used_millicores / self.held_millicores) if self.held_millicores else None


def measure_utilisation(running: Sequence[Job]) -> Utilisation:
    """Return what these running jobs use, the first 50 of them. Needs their resources at hand."""
    held = used = idle = count = 0
    after = clock.now() - WINDOW
    for job in [job for job in running if not job.resource.is_simulated][:_MOST_JOBS]:
        try:
            samples = drivers.driver_of(job.resource).read_usage(job.run_name, after)
        except ResourceUnreachable:
            continue
        if not samples:
            continue
        mean = sum(sample.cpu_millicores for sample in samples) // len(samples)
        count, held, used = count + 1, held + job.cpu_millicores, used + mean
        has_stood_still = samples[-1].at - samples[0].at > WINDOW / 2 and mean < IDLE_PART * job.cpu_millicores
        idle += job.gpu_milli if has_stood_still else 0
    return Utilisation(count, held, used, idle)
