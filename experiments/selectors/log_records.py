"""What reading the logs of many experiments came to, for the app that created them. No actor is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass

from core import orm
from experiments.engine.log_tags import Problems
from experiments.models import Experiment

__all__ = ["LogRecord", "Problems", "find_read", "records_of_run"]


@dataclass(frozen=True)
class LogRecord:
    """An experiment, and the lines of its log that could not be read."""

    experiment_id: str
    problems: Problems


def records_of_run(run_id: str) -> Mapping[str, LogRecord]:
    """Return the experiments of a run by their source's id, in one query."""
    rows = Experiment.objects.filter(run_id=run_id).values_list("source_id", "pk", "log_problems")
    return {source_id or "": LogRecord(pk, Problems.of(problems)) for source_id, pk, problems in rows}


def find_read(kind: str, source_ids: list[str]) -> set[str]:
    """Return those of some sources of one kind whose log was read to its end."""
    read: set[str] = set()
    for batch in orm.in_batches(source_ids):
        rows = Experiment.objects.filter(source_kind=kind, source_id__in=batch)
        read.update(str(source_id) for (source_id,) in rows.filter(harvested_at__isnull=False).values_list("source_id"))
    return read
