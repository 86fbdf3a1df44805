"""Work goes where its data lies, if there is capacity."""

from dataclasses import replace

import pytest

from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Start
from scheduler.engine.snapshot import Policy, Snapshot
from tests.engine.scheduler.test_rounds import gang
from tests.factories.scheduler import node, queue

GB = 10**9


def place(missing_bytes: dict[str, int], *nodes) -> list[str]:
    """Return the nodes of two jobs that read the same data, one after the other."""
    jobs = []
    for number in range(2):
        job = gang(f"job{number}", "a", 1, 1, 1, rank=(number,))
        (pod,) = job.pods
        jobs.append(
            replace(
                job,
                pods=(replace(pod, request=replace(pod.request, pool="", missing_bytes=tuple(missing_bytes.items()))),),
            )
        )
    decisions = run_cycle(Snapshot(nodes, [queue("a", 4)], jobs), Policy())
    return [decision.node_id for decision in decisions if isinstance(decision, Start)]


@pytest.mark.parametrize(
    ("missing_bytes", "where"),
    [
        ({}, ["holds", "far"]),  # nothing is known: the fullest nodes
        ({"elsewhere": 0}, ["holds", "far"]),  # no node has any of it
        # All of it is there; then, as that node is full, the one that lacks least.
        ({"holds": 0, "part": 5 * GB, "less": 80 * GB}, ["holds", "part"]),
    ],
)
def test_the_node_that_lacks_least_of_the_data_is_taken_before_the_fullest(missing_bytes, where):
    nodes = [node("holds", 1), node("far", 2), node("part", 8), node("less", 8)]

    assert place(missing_bytes, *nodes) == where


def test_what_is_missing_in_a_pool_is_missing_on_each_of_its_nodes():
    nodes = [node("full", 1, resource="cold"), node("near", 8, resource="warm")]

    assert place({"cold": 80 * GB, "warm": 5 * GB}, *nodes) == ["near", "near"]
