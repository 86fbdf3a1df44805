"""Deleting runs that have ended, and flows with all their runs. Nobody can bring them back.

What is deleted is shown no more at once, nor are its jobs and experiments; of thousands the last ones follow within
seconds. What it consists of, maybe a million steps, is removed in the background (`flows.workers.deletions`), while
commits that were made of outputs stay.
"""

from collections.abc import Iterator, Sequence

from django.db import transaction
from django.db.models import QuerySet

from accounts import audit
from accounts.permissions import Actor, require
from compute.selectors import outputs
from compute.services import deletions as job_deletions
from core import clock, tasks
from core.errors import PlatformError
from core.units import count_of, format_bytes
from experiments.selectors import artifacts, recorded
from experiments.services import deletions as experiment_deletions
from flows import permissions
from flows.engine import names
from flows.engine.states import RUN_ENDS
from flows.errors import FlowHasLiveRuns, RunGoesOn
from flows.models import Attempt, Flow, FlowDraft, FlowVersion, Run, Step

_FINAL = "It cannot be restored."
_NAMED = 3
_HIDDEN_AT_ONCE = 2000
"""Of so many attempts the jobs are hidden while somebody waits, which takes a fraction of a second."""
_SYSTEM = Actor.system("deleted runs")


def foresee_run_deletion(*, actor: Actor, run: Run) -> Sequence[str]:
    """Return, as sentences, what the deletion of a run would mean. Raises what deleting it raises."""
    _require_run_deletion(actor, run)
    return [*_list_effects(Run.objects.filter(pk=run.pk), ""), _FINAL]


def may_delete_run(*, actor: Actor, run: Run) -> bool:
    """Return whether the actor may delete a run now."""
    try:
        _require_run_deletion(actor, run)
    except PlatformError:
        return False
    return True


@transaction.atomic
def delete_run(*, actor: Actor, run: Run) -> None:
    """Delete a run that has ended: one's own, or as an admin of its project any. Raises RunGoesOn."""
    row = Run.objects.select_for_update(of=("self",)).filter(pk=run.pk, deleted_at=None).first()
    if row is None:  # somebody else was quicker
        return
    _require_run_deletion(actor, row)
    Run.objects.filter(pk=row.pk).update(deleted_at=clock.now())
    _hide(row.project_id, Run.objects.filter(pk=row.pk))
    audit.record(actor, "flows.delete_run", row, flow=row.flow.name, number=row.number)
    tasks.enqueue_on_commit("flows.remove_deleted")


def foresee_flow_deletion(*, actor: Actor, flow: Flow) -> Sequence[str]:
    """Return, as sentences, what the deletion of a flow would mean. Raises what deleting it raises."""
    _require_flow_deletion(actor, flow)
    versions = FlowVersion.objects.filter(flow=flow).count()
    runs = Run.objects.filter(flow=flow, deleted_at=None)
    drafts = _drafts_of(flow).count()
    return [
        f"It loses {count_of(versions, 'version')} with the code that came along, and {count_of(runs.count(), 'run')}.",
        *_list_effects(runs, " of its runs"),
        *([f"{count_of(drafts, 'draft')} of it {'is' if drafts == 1 else 'are'} deleted."] if drafts else []),
        _FINAL,
    ]


@transaction.atomic
def delete_flow(*, actor: Actor, flow: Flow) -> None:
    """Delete a flow with its versions, drafts and runs, and free its name. Raises FlowHasLiveRuns."""
    row = Flow.objects.select_for_update(of=("self",)).filter(pk=flow.pk, deleted_at=None).first()
    if row is None:  # somebody else was quicker
        return
    _require_flow_deletion(actor, row)
    runs = Run.objects.filter(flow=row, deleted_at=None).count()
    Flow.objects.filter(pk=row.pk).update(deleted_at=clock.now())
    _drafts_of(row).delete()
    _hide(row.project_id, Run.objects.filter(flow=row))
    audit.record(actor, "flows.delete_flow", row, flow=row.name, runs=runs)
    tasks.enqueue_on_commit("flows.remove_deleted")


def _hide(project_id: str, runs: QuerySet[Run]) -> None:
    """Show jobs and experiments of deleted runs no more, but of runs whose outputs are still being stored."""
    attempts = Attempt.objects.filter(run__in=runs.order_by().values("pk")).order_by()
    rows = list(attempts.values_list("pk", "job_id", "run_id")[:_HIDDEN_AT_ONCE])
    storing = artifacts.find_storing({run_id for *_, run_id in rows})
    shown = {attempt_id: job_id for attempt_id, job_id, run_id in rows if run_id not in storing}
    experiment_deletions.delete_experiments_of_run(
        actor=_SYSTEM, project_id=project_id, kind=names.EXPERIMENT_KIND, source_ids=shown
    )
    job_ids = [job_id for job_id in shown.values() if job_id is not None]
    job_deletions.delete_jobs_of_run(actor=_SYSTEM, project_id=project_id, job_ids=job_ids)


def _require_run_deletion(actor: Actor, run: Run) -> None:
    is_own = run.created_by == actor.name
    require(actor, permissions.DELETE_OWN_RUN if is_own else permissions.DELETE_ANY_RUN, run.project_id)
    if not run.has_ended:
        raise RunGoesOn(f"Run #{run.number} of {run.flow.name} has not ended: it is {run.state}.")


def _require_flow_deletion(actor: Actor, flow: Flow) -> None:
    require(actor, permissions.DELETE_FLOW, flow.project_id)
    live = Run.objects.filter(flow=flow).exclude(state__in=sorted(RUN_ENDS)).order_by("number")
    if numbers := list(live.values_list("number", flat=True)):
        named = ", ".join(f"#{number}" for number in numbers[:_NAMED]) + (" …" if len(numbers) > _NAMED else "")
        have = "has" if len(numbers) == 1 else "have"
        raise FlowHasLiveRuns(f"{count_of(len(numbers), 'run')} of {flow.name} {have} not ended: {named}.")


def _drafts_of(flow: Flow) -> QuerySet[FlowDraft]:
    return FlowDraft.objects.filter(project=flow.project_id, key=flow.name)


def _list_effects(runs: QuerySet[Run], owner: str) -> Iterator[str]:
    """Yield what becomes of the steps, outputs and experiments of some runs; `owner` says whose steps they are."""
    run_ids = runs.order_by().values("pk")
    attempts = Attempt.objects.filter(run__in=run_ids)
    if steps := Step.objects.filter(run__in=run_ids).count():
        tries = count_of(attempts.count(), "attempt")
        loss = "is deleted with its log" if steps == 1 else "are deleted with their logs"
        yield f"{count_of(steps, 'step')}{owner} {loss} ({tries})."
    left = outputs.sum_stored(jobs=attempts.order_by().values("job"))
    if left.files:
        size = f"{count_of(left.files, 'file')}, {format_bytes(left.size_bytes)}"
        yield f"Their outputs leave the store ({size}). Dataset versions that were kept of them stay."
    summary = recorded.summarise_runs(run_ids=run_ids)
    if summary.experiments:
        lost = [
            *([f"{count_of(summary.metrics, 'metric')} ({count_of(summary.points, 'point')})"] * bool(summary.metrics)),
            *([count_of(summary.notes, "note")] * bool(summary.notes)),
        ]
        loss = f", with {' and '.join(lost)}" if lost else ""
        are = "is" if summary.experiments == 1 else "are"
        yield f"{count_of(summary.experiments, 'experiment')} that recorded them {are} deleted{loss}."
    if steps:
        yield "What its jobs consumed stays in the history."
