"""Notes what jobs can see of GPUs at their start, and tells where that is not what they were given."""

from collections.abc import Sequence

from django.db import transaction

from compute.engine import gpu_check
from compute.engine.gpu_check import GivenGpus
from compute.engine.gpu_sight import GpuSight, SeenGpu
from compute.engine.job_spec import job_of_run
from compute.engine.placing import Placing
from compute.engine.ports import JobReport
from compute.models import Job, Resource
from compute.selectors import failures
from compute.services import journal
from core import clock, isolation
from scheduler.selectors import nodes

_Sights = tuple[GpuSight | None, ...]

_MOST_REMEMBERED = 10_000
# By token of a run: what this process has noted, so that later reports that say the same cost nothing.
_noted: dict[str, _Sights] = {}


def note_checks(resource: Resource, reports: Sequence[JobReport]) -> None:
    """Note in jobs what their reports say that they see, unless that was done."""
    news = [report for report in reports if (report.gpus_seen or report.replicas) and _is_news(report)]
    if news:
        isolation.for_each(
            failures.CHECK_GPUS, news, lambda report: _note(resource, report), key=lambda report: report.name
        )


def _is_news(report: JobReport) -> bool:
    sights = _sights_of(report)
    return any(sights) and _noted.get(report.token) != sights


def _sights_of(report: JobReport) -> _Sights:
    return tuple(each.gpus_seen for each in report.replicas) or (report.gpus_seen,)


def _note(resource: Resource, report: JobReport) -> None:
    sights = _sights_of(report)
    _write(resource, report, sights)
    while len(_noted) >= _MOST_REMEMBERED:
        _noted.pop(next(iter(tuple(_noted))), None)
    _noted[report.token] = sights


@transaction.atomic
def _write(resource: Resource, report: JobReport, sights: _Sights) -> None:
    fields = ("gpu_check", "gpus", "slices", "replicas", "node_name", "spec", *journal.LOCKED_FIELDS)
    runs = Job.objects.filter(name=job_of_run(report.name), resource=resource, token=report.token)
    job = runs.select_for_update(of=("self",)).only(*fields).first()
    if job is None:
        return
    check = gpu_check.check(sights, _given_to(resource, job))
    if check is None or check.to_json() == job.gpu_check:
        return
    Job.objects.filter(pk=job.pk).update(gpu_check=check.to_json())
    if check.differs and check.text != job.gpu_check.get("text"):
        journal.record_notes({job.pk: check.text}, now=clock.now(), locked=[job])


def _given_to(resource: Resource, job: Job) -> list[GivenGpus]:
    places = job.replicas or [{"node": job.node_name, "gpus": job.gpus, "slices": job.slices}]
    devices = nodes.list_devices(resource_id=resource.pk, names=[place["node"] for place in places])
    asked_bytes = Placing.read(job.spec.get("placing")).gpu_memory_bytes
    return [
        GivenGpus(
            place["gpus"],
            place.get("slices", ()),
            {gpu.index: SeenGpu(gpu.uuid, gpu.memory_bytes) for gpu in devices.get(place["node"], ())},
            asked_bytes,
        )
        for place in places
    ]
