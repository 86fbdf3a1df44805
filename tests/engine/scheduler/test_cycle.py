"""What holds for every cycle, whatever the cluster and whoever asks."""

import time
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Explain, Place
from scheduler.engine.resources import NOTHING, Amount
from scheduler.engine.snapshot import NodePlacement, Placed, Policy, Snapshot
from tests.factories.scheduler import START, decide, node, queue, wait

GPUS = [0, 0, 0.25, 0.3, 0.5, 0.7, 1, 1, 2, 3, 8]


@st.composite
def clusters(draw) -> Snapshot:
    """A few nodes of two resources, a few queues, and work; some of the work holds room from an earlier cycle."""
    nodes = [
        node(
            f"n{i}",
            draw(st.sampled_from([0, 1, 2, 4, 8])),
            cpu=draw(st.integers(1, 12)),
            memory_gib=draw(st.integers(1, 12)),
            ready=draw(st.sampled_from([True, True, True, False])),
            resource=draw(st.sampled_from(["lab", "farm"])),
        )
        for i in range(draw(st.integers(0, 5)))
    ]
    queues = [
        queue(
            f"q{i}",
            draw(st.integers(0, 6)),
            weight=draw(st.sampled_from([None, 0, 1, 3])),
            age=draw(st.integers(0, 2)),
            cpu=draw(st.sampled_from([None, None, 3])),
        )
        for i in range(draw(st.integers(1, 4)))
    ]
    names = st.sampled_from([row.id for row in queues])
    jobs = [
        wait(
            f"w{i:02}",
            draw(names),
            draw(st.sampled_from(GPUS)),
            cpu=draw(st.sampled_from([0.5, 1, 3])),
            memory_gib=draw(st.sampled_from([0.5, 1, 4])),
            resource=draw(st.sampled_from(["lab", "lab", "farm", "moon"])),
            priority=draw(st.sampled_from([50, 50, 75])),
            minute=draw(st.integers(0, 3)),
            firm=draw(st.booleans()),
        )
        for i in range(draw(st.integers(0, 24)))
    ]
    earlier = draw(st.integers(0, len(jobs)))
    ready = [replace(row, is_ready=True) for row in nodes]
    before = Snapshot(ready, queues, jobs[:earlier])
    return Snapshot(nodes, queues, jobs[earlier:], held_after(before, run_cycle(before, Policy())))


def held_after(snapshot: Snapshot, decisions) -> list[Placed]:
    jobs = {job.id: job for job in snapshot.waiting}
    return [
        *snapshot.placed,
        *(
            Placed(
                place.workload_id,
                jobs[place.workload_id].queue_id,
                place.node_id,
                jobs[place.workload_id].shape.needs,
                place.gpus,
                jobs[place.workload_id].is_preemptible,
            )
            for place in decisions
            if isinstance(place, Place)
        ),
    ]


policies = st.sampled_from([Policy(), Policy(NodePlacement.SPREAD)])


@given(clusters(), policies)
def test_no_node_and_no_device_is_ever_given_out_beyond_what_it_has(snapshot, policy):
    used: dict[str, Amount] = defaultdict(lambda: NOTHING)
    devices: Counter[tuple[str, int]] = Counter()
    for placed in held_after(snapshot, run_cycle(snapshot, policy)):
        used[placed.node_id] = used[placed.node_id].plus(placed.holds)
        assert sum(milli for _, milli in placed.gpus) == placed.holds.gpu_milli
        for index, milli in placed.gpus:
            devices[placed.node_id, index] += milli

    for row in snapshot.nodes:
        assert used[row.id].cpu_millicores <= row.cpu_millicores
        assert used[row.id].memory_bytes <= row.memory_bytes
    known = {(row.id, index) for row in snapshot.nodes for index in row.devices}
    assert devices.keys() <= known
    assert all(milli <= 1000 for milli in devices.values())


@given(clusters(), policies)
def test_a_fraction_is_on_one_device_and_whole_gpus_are_whole_devices(snapshot, policy):
    jobs = {job.id: job for job in snapshot.waiting}

    for place in decide_places(snapshot, policy):
        gpu_milli = jobs[place.workload_id].shape.needs.gpu_milli
        expected = [gpu_milli] if gpu_milli % 1000 else [1000] * (gpu_milli // 1000)
        assert [milli for _, milli in place.gpus] == expected


def decide_places(snapshot: Snapshot, policy: Policy) -> list[Place]:
    return [decision for decision in run_cycle(snapshot, policy) if isinstance(decision, Place)]


@given(clusters(), policies)
def test_nothing_starts_on_a_node_that_is_not_ready_or_of_another_resource(snapshot, policy):
    nodes = {row.id: row for row in snapshot.nodes}
    jobs = {job.id: job for job in snapshot.waiting}

    for place in decide_places(snapshot, policy):
        assert nodes[place.node_id].is_ready
        assert nodes[place.node_id].resource_id == jobs[place.workload_id].shape.resource_id


@given(clusters(), policies)
def test_every_waiting_workload_gets_exactly_one_decision(snapshot, policy):
    decisions = run_cycle(snapshot, policy)

    assert Counter(decision.workload_id for decision in decisions) == Counter(job.id for job in snapshot.waiting)
    assert all(decision.text for decision in decisions if isinstance(decision, Explain))


@given(clusters(), policies)
def test_no_room_stays_idle_that_someone_who_waits_could_use(snapshot, policy):
    decisions = run_cycle(snapshot, policy)
    left = {decision.workload_id for decision in decisions if isinstance(decision, Explain)}
    after = Snapshot(
        snapshot.nodes,
        snapshot.queues,
        [job for job in snapshot.waiting if job.id in left],
        held_after(snapshot, decisions),
    )

    assert decide_places(after, policy) == []


@given(clusters(), st.randoms(use_true_random=False))
def test_the_order_in_which_things_are_listed_changes_nothing(snapshot, random):
    parts = [list(part) for part in (snapshot.nodes, snapshot.queues, snapshot.waiting, snapshot.placed)]
    for part in parts:
        random.shuffle(part)

    assert run_cycle(Snapshot(*parts), Policy()) == run_cycle(snapshot, Policy())


@given(clusters())
def test_what_is_not_preemptible_never_outgrows_its_quota_by_a_new_start(snapshot):
    jobs = {job.id: job for job in snapshot.waiting}
    decisions = run_cycle(snapshot, Policy())
    firm: Counter[str] = Counter()
    for placed in held_after(snapshot, decisions):
        if not placed.is_preemptible:
            firm[placed.queue_id] += placed.holds.gpu_milli

    for place in decide_places(snapshot, Policy()):
        job = jobs[place.workload_id]
        if not job.is_preemptible and job.shape.needs.gpu_milli:
            quota = next(row.quota.gpu_milli for row in snapshot.queues if row.id == job.queue_id)
            assert firm[job.queue_id] <= quota


def test_an_empty_cluster_decides_nothing():
    assert run_cycle(Snapshot(), Policy()) == []


def test_a_thousand_waiting_workloads_are_decided_in_well_under_a_third_of_a_second():
    jobs = [wait(f"w{i:04}", f"q{i % 5}", cpu=1) for i in range(1000)]
    jobs = [replace(job, enqueued_at=START + timedelta(seconds=i)) for i, job in enumerate(jobs)]
    cluster = [node(f"n{i}", cpu=16) for i in range(4)], [queue(f"q{i}") for i in range(5)], jobs
    begin = time.process_time()

    outcome = decide(*[part for parts in cluster for part in parts])

    assert time.process_time() - begin < 0.3
    assert len(outcome.order) == 64
