"""The flows and runs of deleted projects: runs are cancelled, and their rows removed in the end."""

from contextlib import suppress

from accounts import project_contents
from accounts.models import Project
from accounts.permissions import Actor
from accounts.project_contents import ProjectContents, RemovalWaits, first_ids, remove_first
from core import isolation
from core.units import count_of
from flows.engine.states import RUN_ENDS
from flows.errors import RunHasEnded
from flows.models import Attempt, AttemptInput, Bundle, Flow, FlowDraft, FlowVersion, Run, RunEvent, Step
from flows.selectors.project_contents import describe
from flows.services import runs

_SYSTEM = Actor.system("deleted projects")


def _stop(project: Project) -> None:
    live = Run.objects.filter(project=project.pk, project__deleted_at__isnull=False, cancel_requested_at=None)
    isolation.for_each("flows.stop_run", live.exclude(state__in=sorted(RUN_ENDS)).order_by("pk"), _cancel)


def _cancel(run: Run) -> None:
    with suppress(RunHasEnded):
        runs.cancel_run(actor=_SYSTEM, run=run)


def _remove(project_id: str) -> bool:
    own = Run.objects.filter(project=project_id)
    if live := own.exclude(state__in=sorted(RUN_ENDS)).count():
        raise RemovalWaits(f"It waits for {count_of(live, 'run')} to stop.")
    if held := AttemptInput.objects.filter(attempt__run__project=project_id, is_live=True).count():
        raise RemovalWaits(f"It waits for {count_of(held, 'input')} of ended steps to be released.")
    ids = first_ids(own)
    return remove_first(
        RunEvent.objects.filter(run__in=ids),
        AttemptInput.objects.filter(attempt__run__in=ids),
        Attempt.objects.filter(run__in=ids),
        Step.objects.filter(run__in=ids),
        own.filter(pk__in=ids),
        FlowVersion.objects.filter(flow__project=project_id),
        Flow.objects.filter(project=project_id),
        FlowDraft.objects.filter(project=project_id),
        Bundle.objects.filter(project=project_id),
    )


project_contents.add(ProjectContents("flows", describe, _stop, _remove))
