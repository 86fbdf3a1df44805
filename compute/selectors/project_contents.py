"""What becomes of a project's jobs when it is deleted, and of those of others that read its datasets."""

from collections.abc import Iterable
from datetime import datetime

from django.db.models import QuerySet

from accounts.models import Project
from accounts.permissions import Actor
from accounts.project_contents import MOST_ITEMS, Effect, Item
from compute.engine.states import HOLDING
from compute.models import Checkpoint, Job
from compute.selectors.jobs import HOLDER, in_states
from core import clock
from core.units import count_of, format_duration
from datasets.selectors import caches


def describe(*, actor: Actor, project: Project) -> list[Effect]:
    """Return what a deletion does to them."""
    own = Job.objects.filter(project=project, part_of=None)
    live = own.filter(is_live=True)
    running = Job.objects.filter(project=project, is_live=True, completions=1, state__in=sorted(HOLDING))
    waiting = live.exclude(pk__in=in_states(live, HOLDING).values("pk"))
    interactive = running.filter(is_preemptible=False)
    checkpoints = Checkpoint.objects.filter(project=project, deleted_at=None).count()
    counts = [rows.count() for rows in (running, waiting, interactive, own)]
    return [
        Effect(
            "running_jobs",
            counts[0],
            f"{count_of(counts[0], 'job')} running: stopped by SIGTERM, and by SIGKILL after the grace period.",
            items=_items(running),
        ),
        Effect("waiting_jobs", counts[1], f"{count_of(counts[1], 'job')} waiting: cancelled.", items=_items(waiting)),
        Effect(
            "interactive_jobs",
            counts[2],
            f"{count_of(counts[2], 'job')} of these interactive: connections to it and its addresses are closed.",
            items=[Item(job.label, _ports(job)) for job in interactive.order_by("pk")[:MOST_ITEMS]],
        ),
        Effect(
            "checkpoints",
            checkpoints,
            f"{count_of(checkpoints, 'checkpoint folder')}: kept as long as the project can be restored.",
        ),
        Effect("jobs", counts[3], f"{count_of(counts[3], 'job')} in all, with logs and outputs."),
        _readers_elsewhere(actor, project),
    ]


def _readers_elsewhere(actor: Actor, project: Project) -> Effect:
    """Return the jobs of other projects that read datasets of this one now; strangers' are not named."""
    held_by = caches.list_holders(prefix=HOLDER, project_id=project.pk)
    ids = {holder.removeprefix(HOLDER) for holder in held_by}
    readers = Job.objects.filter(pk__in=ids, is_live=True).exclude(project=project)
    visible = [job for job in readers.order_by("pk") if actor.level_in(job.project_id) is not None]
    count = readers.count()
    text = f"{count_of(count, 'job')} of other projects read its datasets now: they keep their copies until they end."
    return Effect("readers_elsewhere", count, text, items=_describe(visible[:MOST_ITEMS], clock.now()))


def _items(jobs: QuerySet[Job]) -> list[Item]:
    return _describe(jobs.order_by("pk").defer("spec")[:MOST_ITEMS], clock.now())


def _describe(jobs: Iterable[Job], now: datetime) -> list[Item]:
    return [Item(job.label, _describe_time(job, now)) for job in jobs]


def _describe_time(job: Job, now: datetime) -> str:
    did = "waits" if job.started_at is None else "runs"
    since = job.started_at or job.created_at
    return f"by {job.submitted_by}, {did} for {format_duration((now - since).total_seconds())}"


def _ports(job: Job) -> str:
    ports = ", ".join(map(str, job.spec.get("ports") or ()))
    return f"by {job.submitted_by}" + (f", port {ports}" if ports else "")
