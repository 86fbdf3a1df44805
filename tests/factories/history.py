"""Runs that have ended, by the thousand, with the rows that a real one leaves: copied inside the database."""

from collections.abc import Iterator
from typing import Any

from django.db import connection, models, transaction

from compute.models import Job, JobEvent
from experiments.models import Experiment
from flows.models import Attempt, Run, RunEvent, Step
from scheduler.models import Workload

_NUMBERS = "WITH RECURSIVE numbers(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})"


def copy_run(run: Run, count: int) -> None:
    """Add copies of a run that has ended."""
    of_run: dict[type[models.Model], Any] = {
        Workload: Workload.objects.filter(job__attempt__run=run),
        Job: Job.objects.filter(attempt__run=run),
        JobEvent: JobEvent.objects.filter(job__attempt__run=run),
        Run: Run.objects.filter(pk=run.pk),
        Step: Step.objects.filter(run=run),
        Attempt: Attempt.objects.filter(run=run),
        Experiment: Experiment.objects.filter(run_id=run.pk),
        RunEvent: RunEvent.objects.filter(run=run),
    }
    rows = {model: list(query) for model, query in of_run.items()}
    first = Run.objects.filter(flow=run.flow).count()
    numbers = _NUMBERS.format(first=first, last=first + count - 1)
    copied = {str(row.pk) for originals in rows.values() for row in originals}
    if connection.vendor == "sqlite":  # whose small cache would be written out again and again
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA cache_size = -2000000")
    with transaction.atomic(), connection.cursor() as cursor:
        for model, originals in rows.items():
            columns = dict(_columns(model, originals, copied))
            names, values = ", ".join(columns), ", ".join(columns.values())
            table, key = model._meta.db_table, model._meta.pk.column
            marks = ", ".join(["%s"] * len(originals))
            source = f"{numbers} SELECT {values} FROM {table} t CROSS JOIN numbers WHERE t.{key} IN ({marks})"
            cursor.execute(f"INSERT INTO {table} ({names}) {source}", [row.pk for row in originals])
    if connection.vendor == "postgresql":  # which would do it by itself a little later
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")


def _columns(model: type[models.Model], rows: list[Any], copied: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the columns of a table, and what a copy has there.

    Rows name each other by foreign keys, and by ids in plain columns; names of workloads, jobs and attempts are unique.
    """
    for field in model._meta.concrete_fields:
        if field.generated or isinstance(field, models.AutoField):
            continue
        column = f't."{field.column}"'
        values = {getattr(row, field.attname) for row in rows if isinstance(getattr(row, field.attname), str)}
        if values & copied or (field.unique and values):
            column = f"{column} || '-' || n"
        elif model is Run and field.name == "number":
            column = "n + 1"
        yield f'"{field.column}"', column
