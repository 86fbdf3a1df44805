"""Preemption inside a queue, where others wait for what they may claim."""

import pytest

from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Stop
from scheduler.engine.snapshot import PodState, PodView, Policy, Snapshot
from tests.engine.scheduler.test_rounds import gang
from tests.factories.scheduler import needs, node, queue


def running(name: str, queue_name: str, gpus: int, devices: str):
    view = gang(name, queue_name, gpus, 1, 1, running_for_s=60, rank=(0,))
    (pod,) = view.pods
    at = PodView(pod.id, PodState.RUNNING, needs(gpus, resource="lab"), node_id="n", devices=tuple(devices))
    return type(view)(name, queue_name, (at,), view.structure, rank=(0,), running_for_s=60)


@pytest.mark.parametrize(("honors_reservations", "stopped"), [(True, []), (False, ["small"])])
def test_a_larger_job_does_not_take_what_another_queue_would_reclaim(honors_reservations, stopped):
    """Queue a holds its share of 2. A job of 3 could push out one of 1, and would be reclaimed in the next cycle."""
    jobs = [
        running("small", "a", 1, "0"),
        running("other", "a", 1, "1"),
        gang("large", "a", 3, 1, 1, priority=75, rank=(1,)),
        gang("theirs", "b", 4, 1, 1, rank=(2,)),
    ]
    snapshot = Snapshot([node("n", 4)], [queue("a", 2), queue("b", 2)], jobs)

    decisions = run_cycle(snapshot, Policy(honors_reservations=honors_reservations))

    assert [decision.job_id for decision in decisions if isinstance(decision, Stop)] == stopped
