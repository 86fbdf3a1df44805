"""Notes what jobs can see of GPUs at their start, and tells where that is not what they were given."""

from collections.abc import Sequence

from django.db import transaction

from compute.engine import gpu_check
from compute.engine.gpu_check import GivenGpus
from compute.engine.job_spec import job_of_run
from compute.engine.placing import Placing
from compute.engine.ports import JobReport
from compute.engine.visible_gpus import SeenGpu, VisibleGpus
from compute.models import Job, Resource
from compute.selectors import failures
from compute.services import journal
from core import clock, isolation
from scheduler.selectors import nodes

_Visible = tuple[VisibleGpus | None, ...]

_MOST_REMEMBERED = 10_000
# By token of a run: what this process has noted, so that later reports that say the same cost nothing.
_noted: dict[str, _Visible] = {}


def note_checks(resource: Resource, reports: Sequence[JobReport]) -> None:
    """Note in jobs what their reports say that they see, unless that was done."""
    news = [report for report in reports if (report.gpus_seen or report.replicas) and _is_news(report)]
    if news:
        isolation.for_each(
            failures.CHECK_GPUS, news, lambda report: _note(resource, report), key=lambda report: report.name
        )


def _is_news(report: JobReport) -> bool:
    visible = _visible_to(report)
    return any(visible) and _noted.get(report.token) != visible


def _visible_to(report: JobReport) -> _Visible:
    return tuple(each.gpus_seen for each in report.replicas) or (report.gpus_seen,)


def _note(resource: Resource, report: JobReport) -> None:
    visible = _visible_to(report)
    _write(resource, report, visible)
    while len(_noted) >= _MOST_REMEMBERED:
        _noted.pop(next(iter(tuple(_noted))), None)
    _noted[report.token] = visible


@transaction.atomic
def _write(resource: Resource, report: JobReport, visible: _Visible) -> None:
    fields = ("gpu_check", "gpus", "slices", "replicas", "node_name", "spec", *journal.LOCKED_FIELDS)
    runs = Job.objects.filter(name=job_of_run(report.name), resource=resource, token=report.token)
    job = runs.select_for_update(of=("self",)).only(*fields).first()
    if job is None:
        return
    check = gpu_check.check(visible, _given_to(resource, job))
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
