"""Deleting experiments with all that they recorded. Nobody can bring them back.

One that records an attempt of a run stays as long as the run: its conditions and pages read what it holds.
A deleted one is shown no more at once; what it recorded, maybe millions of points, is removed in the background.
"""

from collections.abc import Collection, Iterator, Sequence

from django.db import transaction

from accounts import audit
from accounts.permissions import Actor, require
from compute.services import deletions as job_deletions
from core import clock, orm, tasks
from core.errors import PlatformError
from experiments import permissions
from experiments.errors import ExperimentGoesOn, ExperimentOfRun
from experiments.models import Experiment
from experiments.selectors import artifacts


def foresee_deletion(*, actor: Actor, experiment: Experiment) -> Sequence[str]:
    """Return, as sentences, what the deletion of an experiment would mean. Raises what deleting it raises."""
    _require_deletion(actor, experiment)
    return list(_list_effects(actor, experiment))


def find_effects(*, actor: Actor, experiment: Experiment) -> Sequence[str]:
    """Return what the deletion of an experiment would mean; nothing where the actor cannot delete it now."""
    try:
        return foresee_deletion(actor=actor, experiment=experiment)
    except PlatformError:
        return []


@transaction.atomic
def delete_experiment(*, actor: Actor, experiment: Experiment) -> None:
    """Delete an experiment that has ended: one's own, or as an admin of its project any.

    The files of its job leave the store with the next garbage if the job is deleted too, and stay with the job if not.
    Raises ExperimentGoesOn, and ExperimentOfRun for one that records an attempt of a run.
    """
    row = Experiment.objects.select_for_update(of=("self",)).filter(pk=experiment.pk, deleted_at=None).first()
    if row is None:  # somebody else was quicker
        return
    _require_deletion(actor, row)
    audit.record(actor, "experiments.delete", row)
    Experiment.objects.filter(pk=row.pk).update(deleted_at=clock.now())
    if row.job_id is not None:
        job_deletions.release_outputs(actor=actor, job_ids=[row.job_id])
    tasks.enqueue_on_commit("experiments.remove_deleted")


@transaction.atomic
def delete_experiments_of_run(*, actor: Actor, project_id: str, kind: str, source_ids: Collection[str]) -> None:
    """Delete the experiments that record these attempts of a run, which was deleted."""
    require(actor, permissions.DELETE_ANY, project_id)
    rows = Experiment.objects.filter(project=project_id, source_kind=kind, deleted_at=None)
    for batch in orm.in_batches(sorted(source_ids)):
        rows.filter(source_id__in=batch).update(deleted_at=clock.now())
    tasks.enqueue_on_commit("experiments.remove_deleted")


def _require_deletion(actor: Actor, row: Experiment) -> None:
    is_own = row.created_by == actor.name
    require(actor, permissions.DELETE_OWN if is_own else permissions.DELETE_ANY, row.project_id)
    if row.run_id:
        raise ExperimentOfRun(f"'{row.title}' records a step of {row.flow} #{row.run_number}, which reads it.")
    if row.is_live or (row.artifacts_wanted and not row.artifacts_error):
        doing = f"is {row.state}" if row.is_live else "is still storing its files"
        raise ExperimentGoesOn(f"'{row.title}' {doing}.")


def _list_effects(actor: Actor, row: Experiment) -> Iterator[str]:
    is_alone = row.job is not None and row.job.deleted_at is not None
    metrics, points = row.metrics.count(), row.points.count()
    lost = [
        *([f"{_count(metrics, 'metric')} ({_count(points, 'point')})"] if metrics else []),
        *([_count(values, "parameter")] if (values := len({**row.parameters, **row.logged})) else []),
        *([_count(len(row.tags), "tag")] if row.tags else []),
        *(["its note"] if row.note else []),
    ]
    if lost:
        yield f"It loses {', '.join(lost)}."
    if files := artifacts.count_artifacts(actor=actor, experiment=row):
        stay = "are deleted, as its job was" if is_alone else f"stay in the output of the job {row.job_name}"
        yield f"Its {_count(files, 'file')} {stay}."
    elif row.job is not None and not is_alone:
        yield f"The job {row.job_name} stays."
    yield "It cannot be restored."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
