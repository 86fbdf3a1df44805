"""What holds for every cycle, whatever the cluster and whoever asks."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Decision, Explain, Start
from scheduler.engine.snapshot import Fill, JobView, PodState, Policy, Snapshot
from tests.factories.scheduler import START, decide, node, queue, share_of, wait

GPUS = [0, 0, 0.25, 0.3, 0.5, 0.7, 1, 1, 2, 3, 8]


@st.composite
def clusters(draw) -> Snapshot:
    """A few nodes of two resources, a few queues, and work; some of the work holds capacity from an earlier cycle."""
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
    before = Snapshot([replace(row, is_ready=True) for row in nodes], queues, jobs[:earlier])
    running = [job for job in after(before, allocated(before)).jobs if job.pods[0].state is PodState.RUNNING]
    return Snapshot(nodes, queues, [*running, *jobs[earlier:]])


def allocated(snapshot: Snapshot, policy: Policy = Policy()) -> list[Decision]:  # noqa: B008
    return run_cycle(snapshot, policy, ["allocate"])


def after(snapshot: Snapshot, decisions: list[Decision]) -> Snapshot:
    """Return what a cluster looks like when all that was started runs."""
    starts = {decision.pod_id: decision for decision in decisions if isinstance(decision, Start)}

    def started(job: JobView) -> JobView:
        return replace(job, pods=tuple(
            replace(pod, state=PodState.RUNNING, node_id=starts[pod.id].node_id, devices=starts[pod.id].devices)
            if pod.id in starts else pod
            for pod in job.pods
        ))  # fmt: skip

    return replace(snapshot, jobs=[started(job) for job in snapshot.jobs])


def running(snapshot: Snapshot):
    return [pod for job in snapshot.jobs for pod in job.pods if pod.state is PodState.RUNNING]


def waiting(snapshot: Snapshot) -> list[JobView]:
    return [job for job in snapshot.jobs if job.pods[0].state is PodState.PENDING]


policies = st.sampled_from([Policy(), Policy(gpu_nodes=Fill.SPREAD, cpu_nodes=Fill.SPREAD, devices=Fill.SPREAD)])


@given(clusters(), policies)
def test_no_node_and_no_device_is_ever_given_out_beyond_what_it_has(snapshot, policy):
    cpu: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    devices: Counter[tuple[str, str]] = Counter()
    for pod in running(after(snapshot, allocated(snapshot, policy))):
        cpu[pod.node_id] += pod.request.cpu_millicores
        memory[pod.node_id] += pod.request.memory_bytes
        assert len(pod.devices) == (pod.request.gpus or bool(pod.request.share_milli))
        for device in pod.devices:
            devices[pod.node_id, device] += share_of(pod.request)

    for row in snapshot.nodes:
        assert cpu[row.id] <= row.cpu_millicores
        assert memory[row.id] <= row.memory_bytes
    known = {(row.id, str(index)) for row in snapshot.nodes for index in row.devices}
    assert devices.keys() <= known
    assert all(milli <= 1000 for milli in devices.values())


def starts_of(snapshot: Snapshot, policy: Policy) -> list[Start]:
    return [decision for decision in allocated(snapshot, policy) if isinstance(decision, Start)]


@given(clusters(), policies)
def test_nothing_starts_on_a_node_that_is_not_ready_or_of_another_resource(snapshot, policy):
    nodes = {row.id: row for row in snapshot.nodes}
    jobs = {job.id: job for job in snapshot.jobs}

    for start in starts_of(snapshot, policy):
        assert nodes[start.node_id].is_ready
        assert nodes[start.node_id].pool == jobs[start.job_id].pods[0].request.pool


@given(clusters(), policies)
def test_every_waiting_job_is_either_started_or_explained(snapshot, policy):
    decisions = allocated(snapshot, policy)

    assert Counter(decision.job_id for decision in decisions) == Counter(job.id for job in waiting(snapshot))
    assert all(decision.text for decision in decisions if isinstance(decision, Explain))


@given(clusters(), policies)
def test_no_room_stays_idle_that_someone_who_waits_could_use(snapshot, policy):
    assert starts_of(after(snapshot, allocated(snapshot, policy)), policy) == []


@given(clusters(), st.randoms(use_true_random=False))
def test_the_order_in_which_things_are_listed_changes_nothing(snapshot, random):
    parts = [list(part) for part in (snapshot.nodes, snapshot.queues, snapshot.jobs)]
    for part in parts:
        random.shuffle(part)

    assert run_cycle(Snapshot(*parts), Policy()) == run_cycle(snapshot, Policy())


@given(clusters())
def test_what_is_not_preemptible_never_outgrows_its_quota_by_a_new_start(snapshot):
    decisions = allocated(snapshot)
    jobs = {job.id: job for job in snapshot.jobs}
    firm: Counter[str] = Counter()
    for job in after(snapshot, decisions).jobs:
        if not job.is_preemptible and job.pods[0].state is PodState.RUNNING:
            firm[job.queue_id] += job.pods[0].request.charge_milli(1)

    for start in starts_of(snapshot, Policy()):
        job = jobs[start.job_id]
        if not job.is_preemptible and job.pods[0].request.wants_gpu:
            quota = next(row.quota.gpu_milli for row in snapshot.queues if row.id == job.queue_id)
            assert firm[job.queue_id] <= quota


def test_an_empty_cluster_decides_nothing():
    assert run_cycle(Snapshot(), Policy()) == []


def test_of_a_thousand_waiting_jobs_as_many_start_as_there_is_room_for():
    jobs = [wait(f"w{i:04}", f"q{i % 5}", cpu=1) for i in range(1000)]
    jobs = [replace(job, rank=(START + timedelta(seconds=i),)) for i, job in enumerate(jobs)]
    cluster = [node(f"n{i}", cpu=16) for i in range(4)], [queue(f"q{i}") for i in range(5)], jobs

    outcome = decide(*[part for parts in cluster for part in parts])

    assert len(outcome.order) == 64
