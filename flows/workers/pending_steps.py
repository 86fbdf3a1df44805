"""The rows of steps that have not begun, read some ahead: those of a chain are not read one by one.

Only plans change them, and each plan that does writes an event. So what a process has read holds for as long as the
run's newest event has the same number, as in `step_counts`.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.db.models import QuerySet

from core.prepared import prepared
from flows.engine.states import StepState
from flows.models import Run, Step

_COLUMNS = tuple(field.attname for field in Step._meta.concrete_fields)
_KEY = _COLUMNS.index("key")
_AHEAD = 20
_MOST_RUNS = 64
_Rows = Mapping[str, Sequence[tuple[Any, ...]]]
_known: OrderedDict[str, tuple[int, _Rows]] = OrderedDict()


def read(run: Run, keys: Collection[str], ahead: Iterable[str]) -> list[Step]:
    """Return the pending instances of some steps of a run whose lease the caller holds.

    Where they are to be read, the first of the steps `ahead` of them, which have one instance each, are read too.
    """
    event_seq, known = _known.get(run.pk, (None, {}))
    if event_seq != run.event_seq or not known.keys() >= set(keys):
        rows: dict[str, list[tuple[Any, ...]]] = {key: [] for key in (*keys, *islice(ahead, _AHEAD))}
        for row in _pending(run.pk, rows):
            rows[row[_KEY]].append(row)
        _keep(run.pk, run.event_seq, known := rows)
    return [Step.from_db(DEFAULT_DB_ALIAS, _COLUMNS, row) for key in keys for row in known[key]]


def note(run: Run, event_seq: int, changed: Collection[str]) -> None:
    """Keep what is known of a run after a plan that changed instances of some steps, with its newest event."""
    known_seq, known = _known.get(run.pk, (None, {}))
    if known_seq == run.event_seq:
        _keep(run.pk, event_seq, {key: rows for key, rows in known.items() if key not in changed})


def _keep(run_id: str, event_seq: int, rows: _Rows) -> None:
    _known.pop(run_id, None)  # of threads that plan other runs, one may drop it at any moment
    _known[run_id] = event_seq, rows
    while len(_known) > _MOST_RUNS:
        _known.popitem(last=False)


@prepared
def _pending(run_id: str, keys: Collection[str]) -> QuerySet[Step, tuple[Any, ...]]:
    return Step.objects.filter(run=run_id, state=StepState.PENDING, key__in=keys).values_list(*_COLUMNS)
