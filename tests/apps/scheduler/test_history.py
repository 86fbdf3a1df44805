"""What queues held lately, from the times at which workloads were placed and released."""

from datetime import UTC, datetime, timedelta

import pytest

from scheduler.engine.states import WorkloadState
from scheduler.models import Queue, Workload
from scheduler.selectors.usage import gpus_over_time
from tests.factories.scheduler import enqueue

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def at(minute: float | None) -> datetime | None:
    return None if minute is None else NOW + timedelta(minutes=minute)


def history(project, *spans: tuple[float, float | None]) -> list[int] | None:
    """Return what the queue held 4, 3, 2, 1 and 0 minutes ago; spans are minutes from now, None: still held."""
    for number, (placed, released) in enumerate(spans):
        enqueue(project, f"w{number}", gpus=number + 1)
        state = WorkloadState.PLACED if released is None else WorkloadState.RELEASED
        row = Workload.objects.filter(name=f"w{number}")
        row.update(state=state, placed_at=at(placed), released_at=at(released))
    queue = Queue.objects.get(project=project)
    return gpus_over_time([queue], until=NOW, span=timedelta(minutes=4), points=5).get(queue.pk)


@pytest.mark.parametrize(
    ("spans", "held"),
    [
        ([(-60, None)], [1000] * 5),
        ([(-2, None)], [0, 0, 1000, 1000, 1000]),
        ([(-2.5, -0.5)], [0, 0, 1000, 1000, 0]),
        ([(-60, -2)], [1000, 1000, 0, 0, 0]),
        ([(-60, None), (-3, -1)], [1000, 3000, 3000, 1000, 1000]),
        ([(-2.6, -2.4)], [0, 0, 0, 0, 0]),
        ([(-60, -30)], None),
    ],
    ids=["all along", "since then", "between", "until then", "two at once", "too short to be seen", "long ago"],
)
def test_a_workload_counts_while_it_has_its_room(project, spans, held):
    assert history(project, *spans) == held


def test_what_waits_holds_nothing(project):
    enqueue(project, "waiting", gpus=2)

    assert gpus_over_time(Queue.objects.all(), until=NOW, span=timedelta(minutes=4), points=5) == {}
