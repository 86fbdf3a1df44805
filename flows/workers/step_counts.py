"""How many instances of each step of a run are in which state: counted once, and then kept from plan to plan.

Only plans change the states of steps, and each plan that does writes an event. So what a process counted holds for as
long as the run's newest event has the same number.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from django.db.models import Count, QuerySet

from core.prepared import prepared
from flows.engine.states import STEP_ENDS, StepState
from flows.models import Run, Step


@dataclass(frozen=True)
class StepCounts:
    """How many instances of each step of the spec are `live`, and which of them are pending or delayed after a failure.

    `ended` counts the others by state. A step that none is counted of may be left out.
    """

    live: Counter[str] = field(default_factory=Counter)
    pending: Counter[str] = field(default_factory=Counter)
    delayed: Counter[str] = field(default_factory=Counter)
    ended: dict[str, Mapping[StepState, int]] = field(default_factory=dict)

    def moved(self, moves: Iterable[tuple[str, StepState, StepState]]) -> "StepCounts":
        """Return the counts after instances of steps have gone from one state to another."""
        counts = StepCounts(Counter(self.live), Counter(self.pending), Counter(self.delayed), dict(self.ended))
        for key, before, after in moves:
            counts.add(key, before, -1)
            counts.add(key, after, 1)
        return counts

    def add(self, key: str, state: StepState, count: int) -> None:
        """Count so many instances of a step more in a state."""
        if state in STEP_ENDS:
            states = self.ended.get(key, {})
            self.ended[key] = {**states, state: states.get(state, 0) + count}
            return
        for counter, of in ((self.live, state), (self.pending, StepState.PENDING), (self.delayed, StepState.BACKOFF)):
            if state is of:
                counter[key] += count
                if not counter[key]:
                    del counter[key]


_MOST_RUNS = 64
_known: OrderedDict[str, tuple[int, StepCounts]] = OrderedDict()


def read(run: Run) -> StepCounts:
    """Return the counts of a run whose lease the caller holds."""
    event_seq, known = _known.get(run.pk, (None, StepCounts()))
    if event_seq == run.event_seq:
        return known
    counts = StepCounts()
    for key, state, count in _step_counts(run.pk):
        counts.add(key, StepState(state), count)
    return counts


def note(run_id: str, event_seq: int, counts: StepCounts) -> None:
    """Keep the counts of a run as they are with its event of this number."""
    _known.pop(run_id, None)  # of threads that plan other runs, one may drop it at any moment
    _known[run_id] = event_seq, counts
    while len(_known) > _MOST_RUNS:
        _known.popitem(last=False)


@prepared
def _step_counts(run_id: str) -> QuerySet[Step, tuple[str, str, int]]:
    found = Step.objects.filter(run=run_id).order_by().values("key", "state")
    return found.annotate(count=Count("pk")).values_list("key", "state", "count")
