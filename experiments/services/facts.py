"""Keeping the facts and keys by which lists of experiments are filtered, in step with what experiments record.

Called inside the transaction that writes the record itself.
"""

from collections.abc import Iterable, Mapping, Sequence

from core import orm
from experiments.engine import columns
from experiments.engine.columns import MAX_KEY, Kind
from experiments.models import Experiment, Fact, FactKey


def write_given(experiments: Sequence[Experiment]) -> None:
    """Note the parameters and datasets that new experiments of one project were given."""
    write([(row, Kind.PARAM, row.parameters) for row in experiments])
    write([(row, Kind.DATA, _commits(row)) for row in experiments])


def write(recorded: Iterable[tuple[Experiment, Kind, Mapping[str, object]]]) -> None:
    """Note recorded values; a key that was noted before gets its new value."""
    rows: dict[tuple[str, Kind, str], Fact] = {}
    keys: set[tuple[str, Kind, str]] = set()
    for experiment, kind, values in recorded:
        for key, value in values.items():
            name, reading = key[:MAX_KEY], columns.read(value)
            rows[experiment.pk, kind, name] = Fact(
                experiment=experiment, kind=kind, key=name, number=reading.number, text=reading.text
            )
            keys.add((experiment.project_id, kind, name))
    Fact.objects.bulk_create(
        rows.values(),
        batch_size=orm.BATCH_ROWS,
        update_conflicts=True,
        unique_fields=["experiment", "kind", "key"],
        update_fields=["number", "text"],
    )
    write_keys(keys)


def write_keys(keys: Iterable[tuple[str, Kind, str]]) -> None:
    """Note under which keys a project's experiments record something: (project's id, kind, key)."""
    names = {(project_id, str(kind), key[:MAX_KEY]) for project_id, kind, key in keys}
    for project_id in sorted({project_id for project_id, _, _ in names}):
        known = set(FactKey.objects.filter(project=project_id).values_list("project_id", "kind", "key"))
        # In one order everywhere, so that two writers never wait for each other.
        new = sorted(name for name in names - known if name[0] == project_id)
        FactKey.objects.bulk_create(
            [FactKey(project_id=project_id, kind=kind, key=key) for _, kind, key in new],
            batch_size=orm.BATCH_ROWS,
            ignore_conflicts=True,
        )


def forget(experiment: Experiment, kind: Kind, key: str) -> None:
    """Drop a value that was taken back."""
    Fact.objects.filter(experiment=experiment, kind=kind, key=key[:MAX_KEY]).delete()


def _commits(experiment: Experiment) -> dict[str, object]:
    return {str(item["dataset"]): item["commit"] for item in experiment.datasets if item.get("dataset")}
