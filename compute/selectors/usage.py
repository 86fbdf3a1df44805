"""What jobs use, over time: told by the place where they run, or noted by the platform where that remembers nothing."""

from collections.abc import Sequence
from datetime import UTC, datetime

from compute.adapters import drivers
from compute.engine.gpu_history import Reading
from compute.engine.ports import MeasuresGpus, UsageSample
from compute.models import Job, JobGpuUse


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
