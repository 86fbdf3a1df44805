"""Runs that have ended, by the thousand, with the rows that a real one leaves."""

from collections.abc import Iterator
from typing import Any

from compute.models import Job, JobEvent
from experiments.models import Experiment
from flows.models import Attempt, Run, RunEvent, Step
from scheduler.models import Workload

_BATCH = 500


def copy_run(run: Run, count: int) -> None:
    """Add copies of a run that has ended."""
    first = Run.objects.filter(flow=run.flow).count() + 1
    of_run = {
        Workload: Workload.objects.filter(job__attempt__run=run),
        Job: Job.objects.filter(attempt__run=run),
        JobEvent: JobEvent.objects.filter(job__attempt__run=run),
        Step: Step.objects.filter(run=run),
        Attempt: Attempt.objects.filter(run=run),
        Experiment: Experiment.objects.filter(run_id=run.pk),
        RunEvent: RunEvent.objects.filter(run=run),
    }
    rows = {model: list(query) for model, query in of_run.items()}
    for start in range(first, first + count, _BATCH):
        made: dict[type, list] = {model: [] for model in (Run, *rows)}
        for number in range(start, min(start + _BATCH, first + count)):
            for model, row in _copies(run, number, rows):
                made[model].append(row)
        for model, batch in made.items():
            model.objects.bulk_create(batch, _BATCH)


def _copies(run: Run, number: int, rows: dict[type, list]) -> Iterator[tuple[type, Any]]:
    copies: dict[str, Any] = {run.pk: _copy(run, number=number)}
    yield Run, copies[run.pk]
    for model, originals in rows.items():
        for row in originals:
            # Rows name each other by foreign keys, and by ids in plain columns.
            changes: dict[str, Any] = {
                field.attname: copies[value].pk
                for field in model._meta.concrete_fields
                if not field.primary_key and isinstance(value := getattr(row, field.attname), str) and value in copies
            }
            # Names of workloads, jobs and attempts are unique for all time.
            changes |= {
                field.name: f"{getattr(row, field.name)}-{number}"
                for field in model._meta.concrete_fields
                if field.unique and not field.primary_key and not field.is_relation
            }
            copies[str(row.pk)] = _copy(row, **changes)
            yield model, copies[str(row.pk)]


def _copy(row: Any, **changes: Any) -> Any:
    fields = [field for field in row._meta.concrete_fields if not field.generated]
    kept = {field.attname: getattr(row, field.attname) for field in fields if not field.primary_key}
    return type(row)(**{**kept, **changes})
