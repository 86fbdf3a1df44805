"""How many instances of each step of a run are in which state: counted once, and then kept from plan to plan.

Only plans change the states of steps, and each plan that does writes an event. So what a process counted holds for as
long as the run's newest event has the same number.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from django.db.models import Count, QuerySet

from core.prepared import prepared
from flows.engine.states import StepState
from flows.models import Run, Step

StepCounts = Mapping[str, Mapping[StepState, int]]
"""How many instances of each step of the spec are in which state; no state has none."""

_MOST_RUNS = 64
_known: OrderedDict[str, tuple[int, StepCounts]] = OrderedDict()


def read(run: Run) -> StepCounts:
    """Return the counts of a run whose lease the caller holds."""
    event_seq, known = _known.get(run.pk, (None, {}))
    if event_seq == run.event_seq:
        return known
    counts: dict[str, dict[StepState, int]] = {}
    for key, state, count in _step_counts(run.pk):
        counts.setdefault(key, {})[StepState(state)] = count
    return counts


def note(run_id: str, event_seq: int, counts: StepCounts) -> None:
    """Keep the counts of a run as they are with its event of this number."""
    _known[run_id] = event_seq, counts
    _known.move_to_end(run_id)
    while len(_known) > _MOST_RUNS:
        _known.popitem(last=False)


def moved(counts: StepCounts, moves: Iterable[tuple[str, StepState, StepState]]) -> StepCounts:
    """Return the counts after instances of steps have gone from one state to another."""
    changed = dict(counts)
    for key, before, after in moves:
        states = dict(changed[key])
        states[before] -= 1
        states[after] = states.get(after, 0) + 1
        changed[key] = {state: count for state, count in states.items() if count}
    return changed


@prepared
def _step_counts(run_id: str) -> QuerySet[Step, tuple[str, str, int]]:
    found = Step.objects.filter(run=run_id).order_by().values("key", "state")
    return found.annotate(count=Count("pk")).values_list("key", "state", "count")
