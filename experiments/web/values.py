"""What experiments have in their columns, for a page of rows at a time; and all of them as CSV."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence

from django.db.models import QuerySet

from core import orm
from core.times import Times
from experiments.engine.columns import Column, Kind
from experiments.models import Experiment
from experiments.selectors import experiments

_FIXED = ("title", "state", "project", "flow", "run", "step", "template", "by", "created", "took")

Recorded = Mapping[str, Mapping[Column, object]]


def recorded_by(rows: Sequence[Experiment]) -> Recorded:
    """Return everything that some experiments recorded, by experiment and column."""
    metrics = experiments.metrics_of(rows)
    return {
        row.pk: {
            **{Column(Kind.PARAM, key): value for key, value in experiments.parameters_of(row).items()},
            **{Column(Kind.METRIC, key): value for key, value in metrics[row.pk].items()},
            **{Column(Kind.TAG, key): value for key, value in row.tags.items()},
            **{Column(Kind.DATA, item["dataset"]): item["commit"] for item in row.datasets if item.get("dataset")},
        }
        for row in rows
    }


def value_of(row: Experiment, times: Times | None, recorded: Mapping[Column, object], column: Column) -> object:
    """Return what an experiment has in a column; None when it has nothing there."""
    if column.kind is not Kind.PLAIN:
        return recorded.get(column)
    return {
        "title": row.title,
        "state": row.state,
        "project": row.project.name,
        "flow": row.flow,
        "run": row.run_number,
        "step": row.step_key,
        "template": row.template,
        "by": row.created_by,
        "note": row.note,
        "created": row.created_at,
        "took": times.ran_s if times and row.finished_at is not None else None,
    }[column.key]


def csv_lines(matches: QuerySet[Experiment], chosen: Sequence[Column]) -> Iterator[bytes]:
    """Yield experiments line by line, with what every one has and the chosen columns."""
    plain = [Column(Kind.PLAIN, name) for name in _FIXED]
    every = [*plain, *(column for column in chosen if column not in plain)]
    yield _csv_line(["id", *map(str, every)])
    for ids in orm.in_batches(list(matches.values_list("pk", flat=True))):
        rows = {row.pk: row for row in experiments.with_relations(Experiment.objects.filter(pk__in=ids))}
        recorded = recorded_by(list(rows.values()))
        times = experiments.times_of(rows.values())
        for row in (rows[experiment_id] for experiment_id in ids if experiment_id in rows):
            values = [value_of(row, times[row.pk], recorded[row.pk], column) for column in every]
            yield _csv_line([row.pk, *map(_csv_text, values)])


def _csv_text(value: object) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    if value is None:
        return ""
    if isinstance(value, int | float):
        return str(value)
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _csv_line(values: Sequence[str]) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow(values)
    return line.getvalue().encode()
