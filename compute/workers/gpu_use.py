"""Notes what jobs use of their GPUs, where a place tells that of now and remembers nothing."""

from django.db import transaction
from django.db.models import Q

from compute.adapters import drivers
from compute.engine import gpu_history
from compute.engine.gpu_history import Reading
from compute.engine.ports import GpuReading, MeasuresGpus
from compute.engine.states import JobState
from compute.models import Job, JobGpuUse, Resource
from compute.selectors import failures
from core import clock, isolation


def note_use(resource: Resource) -> None:
    """Note what the running jobs of a resource use of their GPUs now. Raises ResourceUnreachable."""
    driver = drivers.driver_of(resource)
    if not isinstance(driver, MeasuresGpus):
        return
    running = Job.objects.filter(resource=resource, is_live=True, state=JobState.RUNNING)
    # Who asks for a slice asks for no number of GPUs.
    jobs = list(running.filter(Q(gpu_milli__gt=0) | ~Q(slices=[])).only("name", "evictions").order_by("pk"))
    readings = driver.measure_gpus() if jobs else {}
    measured = [(job, readings[job.run_name]) for job in jobs if job.run_name in readings]
    isolation.for_each(failures.NOTE_GPU_USE, measured, lambda pair: _note(*pair), key=lambda pair: pair[0].pk)


@transaction.atomic
def _note(job: Job, reading: GpuReading) -> None:
    row, _ = JobGpuUse.objects.select_for_update().get_or_create(job=job)
    newest = Reading(clock.now().timestamp(), reading.percent, reading.memory_used_bytes)
    row.readings = gpu_history.append([Reading(*each) for each in row.readings], newest)
    row.save(update_fields=["readings"])
