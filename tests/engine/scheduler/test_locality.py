"""Work goes where its data lies, if there is capacity."""

from dataclasses import replace

import pytest

from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Start
from scheduler.engine.snapshot import Policy, Snapshot
from tests.engine.scheduler.test_rounds import gang
from tests.factories.scheduler import node, queue

GB = 10**9


def place(data: str, *nodes) -> list[str]:
    """Return the nodes of two jobs that read the same data, one after the other."""
    jobs = []
    for number in range(2):
        job = gang(f"job{number}", "a", 1, 1, 1, rank=(number,))
        (pod,) = job.pods
        jobs.append(replace(job, pods=(replace(pod, request=replace(pod.request, data=data)),)))
    decisions = run_cycle(Snapshot(nodes, [queue("a", 4)], jobs), Policy())
    return [decision.node_id for decision in decisions if isinstance(decision, Start)]


@pytest.mark.parametrize(
    ("data", "where"),
    [
        ("", ["holds", "far"]),  # nothing is known: the fullest nodes
        ("other@1", ["holds", "far"]),  # no node has any of it
        ("chest@1", ["holds", "part"]),  # all of it is there; then, as that node is full, the one that lacks least
    ],
)
def test_the_node_that_lacks_least_of_the_data_is_taken_before_the_fullest(data, where):
    nodes = [
        replace(node("holds", 1), missing_bytes={"chest@1": 0}),
        node("far", 2),
        replace(node("part", 8), missing_bytes={"chest@1": 5 * GB}),
        replace(node("less", 8), missing_bytes={"chest@1": 80 * GB}),
    ]

    assert place(data, *nodes) == where
