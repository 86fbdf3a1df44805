"""What jobs use, over time and of what they hold: told by the place where they run, or noted by the platform."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from accounts.permissions import Actor, require
from compute import permissions
from compute.adapters import drivers
from compute.engine.gpu_history import Reading
from compute.engine.idleness import BUSY_GPU_PERCENT
from compute.engine.ports import MeasuresGpus, UsageSample
from compute.engine.states import JobState
from compute.errors import ResourceUnreachable
from compute.models import Job, JobGpuUse
from compute.selectors import jobs
from core import clock
from core.units import format_gpus

_IDLE_WINDOW = timedelta(minutes=10)
_LEAST_MEASURED = _IDLE_WINDOW / 2
_MOST_HOLDERS = 200

_UTILISATION_WINDOW = timedelta(minutes=1)
_IDLE_PART = 0.05
_MOST_MEASURED = 50


@dataclass(frozen=True)
class IdleGpus:
    """The GPUs of a running job that were not used over the last ten minutes. `percent` None: they are not measured."""

    job: Job
    gpu_milli: int
    percent: int | None

    @property
    def text(self) -> str:
        """How they were used, in words."""
        if self.percent is None:
            return "not measured"
        return f"used {self.percent} % of {format_gpus(self.gpu_milli)} GPU over the last 10 min"


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


def read_usage(*, actor: Actor, job: Job, after: datetime | None = None) -> Sequence[UsageSample]:
    """Return what a job used over time: about once a second, on a cluster its GPUs alone, twice a minute."""
    require(actor, permissions.VIEW_JOBS, job.project_id)
    return read_samples(job, after, all_runs=True)


def read_samples(job: Job, after: datetime | None = None, *, all_runs: bool = False) -> Sequence[UsageSample]:
    """Return the samples of a job's last run, or of all of them, after a moment. For jobs that the caller may see.

    Raises ResourceUnreachable. Needs the resource at hand.
    """
    driver = drivers.driver_of(job.resource)
    if isinstance(driver, MeasuresGpus):
        return _read_noted(job, after)
    names = job.run_names if all_runs else [job.run_name]
    return [sample for name in names for sample in driver.read_usage(name, after)]


def _read_noted(job: Job, after: datetime | None) -> list[UsageSample]:
    noted = JobGpuUse.objects.filter(job=job).values_list("readings", flat=True).first() or ()
    since = 0.0 if after is None else after.timestamp()
    return [
        UsageSample(datetime.fromtimestamp(each.at_s, UTC), None, None, each.percent, each.memory_used_bytes)
        for each in (Reading(*row) for row in noted)
        if each.at_s > since
    ]


def list_idle_gpus(*, actor: Actor, project: str | None = None) -> list[IdleGpus]:
    """Return who holds GPUs that are idle, the most of them first, then those whose use nobody measures.

    Of the jobs that the actor may see, the 200 that were submitted last. One that has just begun is not listed.
    """
    now = clock.now()
    running = jobs.list_jobs(actor=actor, project=project, state=JobState.RUNNING, with_parts=True)
    holding = running.filter(
        gpu_milli__gt=0, completions=1, started_at__lte=now - _LEAST_MEASURED, resource__is_simulated=False
    )
    holders = []
    for job in holding.defer("spec")[:_MOST_HOLDERS]:
        try:
            samples = read_samples(job, now - _IDLE_WINDOW)
        except ResourceUnreachable:
            samples = ()
        percent = _gpu_percent(samples)
        if percent is None or (percent < BUSY_GPU_PERCENT and samples[-1].at - samples[0].at >= _LEAST_MEASURED):
            gpu_milli = job.replica_count * job.gpu_milli
            holders.append(IdleGpus(job, gpu_milli, None if percent is None else round(percent)))
    return sorted(holders, key=lambda each: (each.percent is None, -each.gpu_milli, each.job.pk))


def measure_utilisation(running: Sequence[Job]) -> Utilisation:
    """Return what these running jobs use, the first 50 of them. Needs their resources at hand."""
    held = used = idle = held_gpus = measured = 0
    gpu_use = 0.0
    after = clock.now() - _UTILISATION_WINDOW
    for job in [job for job in running if not job.resource.is_simulated][:_MOST_MEASURED]:
        gpu_milli = job.replica_count * job.gpu_milli
        held_gpus += gpu_milli
        try:
            samples = read_samples(job, after)
        except ResourceUnreachable:
            continue
        cores = [sample.cpu_millicores for sample in samples if sample.cpu_millicores is not None]
        mean = sum(cores) // len(cores) if cores else None
        if mean is not None:
            held, used = held + job.cpu_millicores, used + mean
        if samples and samples[-1].at - samples[0].at >= _UTILISATION_WINDOW / 3 and _stands_still(job, samples, mean):
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
    return mean_millicores is not None and mean_millicores < _IDLE_PART * job.cpu_millicores
