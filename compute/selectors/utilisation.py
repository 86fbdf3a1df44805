"""How much of what running jobs hold they really use, as far as it is measured: GPUs and CPU, over the last minute."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from compute.engine.idleness import BUSY_GPU_PERCENT
from compute.engine.ports import UsageSample
from compute.errors import ResourceUnreachable
from compute.models import Job
from compute.selectors import usage
from core import clock

WINDOW = timedelta(minutes=1)
IDLE_PART = 0.05
_MOST_JOBS = 50


@dataclass(frozen=True)
class Utilisation:
    """The CPU that measured jobs hold and use, in thousandths of a core, and the GPUs held by those that stand still.

    `gpu_percent` is the use of the GPUs that are measured, `measured_gpu_milli` of `held_gpu_milli`; None: of none.

    A job stands still whose GPUs are measured and not used; where only its CPU is measured, one that used less than a
    twentieth of that. Simulated jobs are not measured.
    """

    held_millicores: int
    used_millicores: int
    idle_gpu_milli: int
    held_gpu_milli: int
    measured_gpu_milli: int
    gpu_percent: int | None

    @property
    def percent(self) -> int | None:
        """The part of the held CPU that is used; None when nothing is measured."""
        return round(100 * self.used_millicores / self.held_millicores) if self.held_millicores else None


def measure_utilisation(running: Sequence[Job]) -> Utilisation:
    """Return what these running jobs use, the first 50 of them. Needs their resources at hand."""
    held = used = idle = held_gpus = measured = 0
    gpu_use = 0.0
    after = clock.now() - WINDOW
    for job in [job for job in running if not job.resource.is_simulated][:_MOST_JOBS]:
        gpu_milli = job.replica_count * job.gpu_milli
        held_gpus += gpu_milli
        try:
            samples = usage.read_samples(job, after)
        except ResourceUnreachable:
            continue
        cores = [sample.cpu_millicores for sample in samples if sample.cpu_millicores is not None]
        mean = sum(cores) // len(cores) if cores else None
        if mean is not None:
            held, used = held + job.cpu_millicores, used + mean
        if samples and samples[-1].at - samples[0].at >= WINDOW / 3 and _stands_still(job, samples, mean):
            idle += gpu_milli
        if (percent := _gpu_percent(samples)) is not None:
            measured, gpu_use = measured + gpu_milli, gpu_use + percent * gpu_milli
    gpu_percent = round(gpu_use / measured) if measured else None
    return Utilisation(held, used, idle, held_gpus, measured, gpu_percent)


def _gpu_percent(samples: Sequence[UsageSample]) -> float | None:
    percents = [sample.gpu_percent for sample in samples if sample.gpu_percent is not None]
    return sum(percents) / len(percents) if percents else None


def _stands_still(job: Job, samples: Sequence[UsageSample], mean_millicores: int | None) -> bool:
    percent = _gpu_percent(samples)
    if percent is not None:
        return percent < BUSY_GPU_PERCENT
    return mean_millicores is not None and mean_millicores < IDLE_PART * job.cpu_millicores
