"""What holds for every whole cycle: departments, gangs, elastic jobs, shares, limits, promises and victims."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Decision, Explain, Reserve, Start, Stop
from scheduler.engine.snapshot import (
    NEARLINE,
    PARITY,
    Fill,
    JobView,
    NodeView,
    PodState,
    Policy,
    QueueView,
    Quota,
    Snapshot,
    WorkRules,
)
from tests.engine.scheduler.test_failures import (
    POOLS,
    check_bounds,
    check_devices,
    check_labels,
    check_nodes,
    check_pools,
    groups,
    launcher_with_workers,
)
from tests.engine.scheduler.world import FOR_GOOD, UP, apply, arrive, choosing, gang, is_half_up
from tests.factories.scheduler import node, queue

LEAVES = ("a1", "a2", "b1", "c1")
PARENTS = {"a1": "a", "a2": "a", "b1": "b"}
RUNNING = frozenset({PodState.RUNNING})

policies = st.sampled_from([NEARLINE, PARITY, replace(NEARLINE, gpu_nodes=Fill.SPREAD, devices=Fill.SPREAD)])
usual = settings(
    max_examples=50, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], deadline=None
)


labels = st.sampled_from([None, None, frozenset({("type", "x")}), frozenset({("type", "y")})])
rules = st.builds(WorkRules, labels, st.sampled_from([None, 3600]), st.sampled_from([None, 600]))


@st.composite
def jobs_of(draw, name: str, number: int) -> JobView:
    """Return a job of any kind; no two are of the same age."""
    leaf = draw(st.sampled_from(LEAVES))
    more = {"rank": (draw(st.integers(0, 5)), number), "priority": draw(st.sampled_from([50, 50, 75]))}
    kind = draw(st.sampled_from(["one", "share", "firm", "gang", "elastic", "workers", "groups"]))
    if kind == "workers":
        return launcher_with_workers(name, leaf, draw(st.integers(1, 2)), **more)
    if kind == "groups":
        return groups(name, leaf, 3, **more)
    if kind == "firm":
        return gang(name, leaf, draw(st.sampled_from([0, 0.5, 1])), 1, 1, is_preemptible=False, **more)
    size = draw(st.sampled_from([0.25, 0.5, 0.7] if kind == "share" else [0, 1, 1, 2]))
    count = 1 if kind in {"one", "share"} else draw(st.integers(2, 4))
    return gang(name, leaf, size, count, draw(st.integers(1, count)) if kind == "elastic" else count, **more)


@st.composite
def queues_of(draw) -> list[QueueView]:
    """Return two departments and four projects, some with limits; no two are of the same age."""
    rows = []
    for age, name in enumerate(["a", "b", *LEAVES]):
        quota = draw(st.integers(0, 4)) * (2 if name in "ab" else 1)
        limit = Quota(draw(st.sampled_from([None, None, 1000 * quota + 1000])), draw(st.sampled_from([None, 4000])))
        row = queue(name, quota, weight=draw(st.sampled_from([None, 0, 1, 3])), age=age)
        row = replace(row, training=draw(rules), interactive=draw(rules))
        rows.append(replace(row, parent_id=PARENTS.get(name), limit=limit))
    return rows


@st.composite
def snapshots(draw) -> Snapshot:
    """Return a cluster on which some work runs since earlier cycles, and some waits."""
    nodes = [
        replace(
            node(f"n{i}", draw(st.sampled_from([0, 1, 2, 4])), cpu=draw(st.sampled_from([2, 64]))),
            labels={"type": draw(st.sampled_from("xxy"))},
            pool=draw(st.sampled_from(POOLS)),
        )
        for i in range(draw(st.integers(1, 3)))
    ]
    jobs = [
        choosing(draw(jobs_of(f"job{i:02}", i)), *draw(st.sampled_from([(), ("lab",), POOLS, POOLS[::-1]])))
        for i in range(draw(st.integers(0, 8)))
    ]
    snapshot = Snapshot(nodes, draw(queues_of()), jobs[: draw(st.integers(0, len(jobs)))])
    snapshot = arrive(apply(snapshot, run_cycle(snapshot, NEARLINE)))
    times = st.sampled_from([None, 0, 0, 600])
    snapshot = replace(snapshot, jobs=[replace(j, running_for_s=60, idle_for_s=draw(times)) for j in snapshot.jobs])
    closed = draw(st.sampled_from([None, None, None, 0]))
    nodes = [replace(row, is_drained=index == closed) for index, row in enumerate(nodes)]
    return replace(snapshot, nodes=nodes, jobs=[*snapshot.jobs, *jobs[len(snapshot.jobs) :]])


def moves(decisions: list[Decision]) -> list[Decision]:
    return [decision for decision in decisions if not isinstance(decision, Explain)]


def started_by(decisions: list[Decision]) -> set[Start]:
    return {decision for decision in decisions if isinstance(decision, Start)}


def settled(snapshot: Snapshot, policy: Policy) -> Snapshot:
    """Return what a cluster comes to when all that is decided happens at once, within a few cycles."""
    for _ in range(12):
        decisions = moves(run_cycle(snapshot, policy))
        if not decisions:
            return snapshot
        snapshot = arrive(apply(snapshot, decisions))
    raise AssertionError("still moving")


@usual
@given(snapshots(), policies)
def test_no_node_and_no_device_is_given_out_beyond_what_it_has(snapshot, policy):
    decisions = run_cycle(snapshot, policy)
    starts = [decision for decision in decisions if isinstance(decision, Start)]

    check_devices(apply(snapshot, starts))
    check_nodes(apply(snapshot, starts), RUNNING)
    check_nodes(apply(snapshot, decisions), UP)


@usual
@given(snapshots(), policies)
def test_no_queue_goes_beyond_its_limit_nor_firm_work_beyond_the_quota(snapshot, policy):
    check_bounds(apply(snapshot, run_cycle(snapshot, policy)), UP)


@usual
@given(snapshots(), policies)
def test_work_is_given_room_in_one_of_its_pools_and_where_the_rules_of_its_project_allow(snapshot, policy):
    decisions = run_cycle(snapshot, policy)

    check_labels(snapshot, [decision for decision in decisions if isinstance(decision, Start | Reserve)])
    check_pools(snapshot, apply(snapshot, decisions))


@usual
@given(snapshots(), policies)
def test_a_gang_is_whole_or_absent(snapshot, policy):
    after = apply(snapshot, run_cycle(snapshot, policy))

    assert [job.id for job in after.jobs if is_half_up(job)] == []
    assert [job.id for job in after.jobs if is_half_up(replace(job, pods=arrived(job)))] == []


def arrived(job: JobView):
    return tuple(replace(t, state=PodState.RUNNING) if t.state is PodState.RESERVED else t for t in job.pods)


@usual
@given(snapshots(), policies)
def test_a_running_pod_is_stopped_only_for_somebody_who_gets_room(snapshot, policy):
    decisions = run_cycle(snapshot, policy)

    if any(isinstance(decision, Stop) and decision.code not in FOR_GOOD for decision in decisions):
        assert any(isinstance(decision, Reserve) for decision in decisions)


@usual
@given(snapshots(), policies)
def test_where_all_work_fits_nothing_waits_and_nobody_is_stopped(snapshot, policy):
    count = sum(len(job.pods) for job in snapshot.jobs)
    roomy = [node(f"{pool}{i:02}", 2, resource=pool) for pool in POOLS for i in range(count)]
    free = [QueueView(row.id, row.name, row.parent_id, row.rank, quota=Quota(None)) for row in snapshot.queues]
    snapshot = replace(snapshot, nodes=[*snapshot.nodes, *roomy], queues=free)

    decisions = run_cycle(snapshot, policy)

    waiting = {pod.id for job in snapshot.jobs for pod in job.pods if pod.state is PodState.PENDING}
    assert {decision.pod_id for decision in decisions if isinstance(decision, Start)} == waiting
    assert len(decisions) == len(waiting)


@usual
@given(snapshots(), policies)
def test_each_job_that_goes_on_waiting_is_explained_once(snapshot, policy):
    decisions = run_cycle(snapshot, policy)

    stopped = {decision.pod_id for decision in decisions if isinstance(decision, Stop)}
    waiting = [
        job.id
        for job in apply(snapshot, decisions).jobs
        if any(pod.state is PodState.PENDING and pod.id not in stopped for pod in job.pods)
    ]
    assert Counter(d.job_id for d in decisions if isinstance(d, Explain)) == Counter(waiting)


@usual
@given(snapshots())
def test_the_cluster_comes_to_rest_and_a_further_cycle_changes_nothing(snapshot):
    rest = settled(snapshot, NEARLINE)

    assert moves(run_cycle(rest, NEARLINE)) == []


@usual
@given(snapshots(), policies)
def test_no_room_stays_idle_that_someone_who_waits_could_use(snapshot, policy):
    """Whoever is stopped leaves capacity below a limit, too, which the next cycle gives away: such cycles are left out.

    So are those that revoke a start for a reservation and drop that, as `PARITY` does where nothing has to stop for it.
    """
    decisions = run_cycle(snapshot, policy)
    assume(not any(isinstance(decision, Stop) for decision in decisions))
    assume(policy.honors_reservations or started_by(run_cycle(snapshot, policy, ["allocate"])) <= started_by(decisions))

    further = run_cycle(apply(snapshot, decisions), policy, ["allocate"])

    assert moves(further) == []


@usual
@given(snapshots(), policies, st.randoms(use_true_random=False))
def test_the_order_in_which_things_are_listed_changes_nothing(snapshot, policy, random):
    def shuffled(rows):
        rows = list(rows)
        random.shuffle(rows)
        return rows

    mixed = Snapshot(shuffled(snapshot.nodes), shuffled(snapshot.queues), shuffled(snapshot.jobs))
    pods_too = replace(mixed, jobs=[replace(job, pods=tuple(shuffled(job.pods))) for job in mixed.jobs])

    decisions = run_cycle(snapshot, policy)
    assert run_cycle(mixed, policy) == decisions
    assert run_cycle(pods_too, policy) == decisions


@usual
@given(snapshots(), policies, st.randoms(use_true_random=False))
def test_names_decide_only_between_equals(snapshot, policy, random):
    """No two jobs and no two queues are equal here, so any names will do; those of nodes keep their order."""
    names = [str(number) for number in range(100, 100 + len(snapshot.jobs) + len(snapshot.queues))]
    random.shuffle(names)
    new = dict(zip([*(job.id for job in snapshot.jobs), *(row.id for row in snapshot.queues)], names, strict=True))

    def renamed_pod(pod_id: str) -> str:
        job_id, dash, rest = pod_id.partition("-")
        return new[job_id] + dash + rest

    def renamed(job: JobView) -> JobView:
        pods = tuple(replace(t, id=renamed_pod(t.id), node_id=t.node_id and f"x{t.node_id}") for t in job.pods)
        return replace(job, id=new[job.id], queue_id=new[job.queue_id], pods=pods)

    def moved(decision: Decision) -> Decision:
        names = {"job_id": new[decision.job_id], "pod_id": renamed_pod(decision.pod_id)}
        for place in ("node_id", "moves_to"):
            if (node_id := getattr(decision, place, None)) is not None:
                names[place] = f"x{node_id}"
        if isinstance(decision, Stop) and decision.for_job is not None:
            names["for_job"] = new[decision.for_job]
        return replace(decision, **names)

    nodes: list[NodeView] = [replace(row, id=f"x{row.id}", name=f"x{row.name}") for row in snapshot.nodes]
    queues = [
        replace(row, id=new[row.id], name=new[row.id], parent_id=row.parent_id and new[row.parent_id])
        for row in snapshot.queues
    ]
    other = Snapshot(nodes, queues, [renamed(job) for job in snapshot.jobs])

    ours = [moved(decision) for decision in moves(run_cycle(snapshot, policy))]
    assert without_text(moves(run_cycle(other, policy))) == without_text(ours)


def without_text(decisions: list[Decision]) -> list[Decision]:
    return [replace(decision, text="") if isinstance(decision, Stop) else decision for decision in decisions]


@pytest.mark.parametrize("policy", [NEARLINE, PARITY])
def test_the_same_snapshot_gives_the_same_decisions(policy):
    jobs = [gang(f"job{i}", LEAVES[i % 4], 1, 2, 1, rank=(i,)) for i in range(8)]
    rows = [replace(queue(name, 1, age=i), parent_id=PARENTS.get(name)) for i, name in enumerate(["a", "b", *LEAVES])]
    snapshot = Snapshot([node("n1", 4), node("n2", 2)], rows, jobs)

    assert run_cycle(snapshot, policy) == run_cycle(snapshot, policy)
