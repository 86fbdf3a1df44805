"""Work goes where its data lies, if there is capacity."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Explain, Start
from scheduler.engine.snapshot import NEARLINE, Policy, Snapshot
from tests.engine.scheduler.test_rounds import gang
from tests.factories.scheduler import held, node, queue, wait

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


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([40, 50, 60]), st.booleans()), min_size=1, max_size=14),
    st.integers(0, 4),
    st.dictionaries(st.sampled_from(["n0", "n1", "n2"]), st.integers(0, 100 * GB)),
)
def test_data_decides_where_work_goes_and_never_what_a_queue_gets(work, borrowed, missing_bytes):
    nodes = [node(f"n{number}", 3) for number in range(3)]
    queues = [queue("a", 5), queue("b", 3)]
    runs = [held(f"runs{number}", "b", f"n{number % 3}", {number // 3: 1}) for number in range(borrowed)]

    def decide(sizes: dict[str, int]) -> list[tuple[type, str]]:
        waits = [
            wait(f"job{number}", owner, 1, resource="", priority=priority, minute=number, firm=is_firm,
                 parts={"missing_bytes": tuple(sizes.items())})
            for number, (owner, priority, is_firm) in enumerate(work)
        ]  # fmt: skip
        decisions = run_cycle(Snapshot(nodes, queues, [*runs, *waits]), NEARLINE)
        return sorted((type(item).__name__, item.job_id) for item in decisions if not isinstance(item, Explain))

    assert decide(missing_bytes) == decide({})
