"""Which GPUs are held and not used, by whom, as far as their use is measured."""

from dataclasses import dataclass
from datetime import timedelta

from accounts.actor import Actor
from compute.engine.idleness import BUSY_GPU_PERCENT
from compute.engine.states import JobState
from compute.errors import ResourceUnreachable
from compute.models import Job
from compute.selectors import jobs, usage
from core import clock
from core.units import format_gpus

WINDOW = timedelta(minutes=10)
_LEAST = WINDOW / 2
_MOST_JOBS = 200


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


def list_idle_gpus(*, actor: Actor, project: str | None = None) -> list[IdleGpus]:
    """Return who holds GPUs that are idle, the most of them first, then those whose use nobody measures.

    Of the jobs that the actor may see, the 200 that were submitted last. One that has just begun is not listed.
    """
    now = clock.now()
    running = jobs.list_jobs(actor=actor, project=project, state=JobState.RUNNING, with_parts=True)
    holding = running.filter(gpu_milli__gt=0, completions=1, started_at__lte=now - _LEAST, resource__is_simulated=False)
    holders = []
    for job in holding.defer("spec")[:_MOST_JOBS]:
        try:
            samples = usage.read_samples(job, now - WINDOW)
        except ResourceUnreachable:
            samples = ()
        percents = [sample.gpu_percent for sample in samples if sample.gpu_percent is not None]
        percent = sum(percents) / len(percents) if percents else None
        if percent is None or (percent < BUSY_GPU_PERCENT and samples[-1].at - samples[0].at >= _LEAST):
            gpu_milli = job.replica_count * job.gpu_milli
            holders.append(IdleGpus(job, gpu_milli, None if percent is None else round(percent)))
    return sorted(holders, key=lambda each: (each.percent is None, -each.gpu_milli, each.job.pk))
