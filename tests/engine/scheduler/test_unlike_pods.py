"""A gang of unlike pods, a launcher and its workers, against all ways in which a small cluster could hold it."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

import pytest

from scheduler.engine.cycle import ACTIONS
from scheduler.engine.session import Session
from scheduler.engine.sharing import PROMPT, STEADY, SharingRules
from scheduler.engine.snapshot import (
    NEARLINE,
    GroupView,
    JobView,
    NodeView,
    PodSetView,
    PodState,
    PodView,
    Request,
    Snapshot,
    TopologyConstraint,
)
from scheduler.engine.upper_bound import UpperBound
from tests.engine.scheduler.rebuilt_session import differences
from tests.engine.scheduler.test_kept_session import decide
from tests.engine.scheduler.test_rounds import random_job
from tests.engine.scheduler.world import World, is_half_up
from tests.factories.scheduler import held, needs, node, queue

POLICY = replace(NEARLINE, reserve_after_s=600)
RACK = TopologyConstraint(("rack",), "rack")


def mpi(name: str, queue_name: str, workers: Sequence[Request], launcher: Request, *, is_in_one_rack: bool, **more):
    """Return a launcher with its workers, which come first in it."""
    pods = [PodView(f"{name}-{i}", PodState.PENDING, asked, "workers") for i, asked in enumerate(workers)]
    pods.append(PodView(f"{name}-l", PodState.PENDING, launcher, "launcher"))
    constraint = RACK if is_in_one_rack else None
    tree = GroupView((PodSetView("workers", len(workers), constraint), PodSetView("launcher", 1)))
    return JobView(name, queue_name, tuple(pods), tree, **more)


def random_nodes(dice: random.Random) -> list[NodeView]:
    """Return a few small nodes in two racks."""
    return [
        replace(node(f"n{i}", dice.choice([0, 1, 2, 2, 4]), cpu=dice.choice([4, 8])), labels={"rack": f"r{i % 2}"})
        for i in range(dice.randint(1, 4))
    ]


def random_gang(dice: random.Random, **more) -> JobView:
    """Return a gang of one to four equal workers and a launcher, which may be the larger one."""
    worker = needs(dice.choice([1, 1, 2]), cpu=dice.choice([1, 2, 4]), resource="lab")
    launcher = needs(0, cpu=dice.choice([1, 2, 4]), resource="lab")
    return mpi("mpi", "a", [worker] * dice.randint(1, 4), launcher, is_in_one_rack=dice.random() < 0.5, **more)


def random_work(dice: random.Random, nodes: Iterable[NodeView], **more) -> list[JobView]:
    """Return jobs that hold some of the nodes' GPUs and cores, one of each node."""
    jobs = []
    for row in nodes:
        taken = dice.randint(0, len(row.devices))
        cpu = dice.randint(0, row.cpu_millicores // 1000)
        if taken or cpu:
            jobs.append(held(f"on-{row.id}", "b", row.id, dict.fromkeys(range(taken), 1), cpu=cpu, **more))
    return jobs


def can_hold(nodes: Sequence[NodeView], jobs: Iterable[JobView], gang: JobView) -> bool:
    """Return whether nodes can hold a gang beside jobs, by trying all places of all its pods."""
    free = {row.id: [len(row.devices), row.cpu_millicores] for row in nodes}
    for pod in (pod for job in jobs for pod in job.pods if pod.node_id in free):
        free[pod.node_id][0] -= pod.request.gpus
        free[pod.node_id][1] -= pod.request.cpu_millicores
    is_in_one_rack = gang.structure.children[0].topology_constraint is not None
    for places in product(nodes, repeat=len(gang.pods)):
        left = {name: list(amounts) for name, amounts in free.items()}
        for place, pod in zip(places, gang.pods, strict=True):
            left[place.id][0] -= pod.request.gpus
            left[place.id][1] -= pod.request.cpu_millicores
        racks = {place.labels["rack"] for place in places[:-1]}
        if min(map(min, left.values())) >= 0 and (len(racks) == 1 or not is_in_one_rack):
            return True
    return False


@pytest.mark.parametrize("seed", range(20))
def test_a_bound_never_denies_what_would_fit(seed):
    dice = random.Random(seed)
    for _ in range(5):
        nodes, gang = random_nodes(dice), random_gang(dice)
        work = random_work(dice, nodes)
        session = Session(Snapshot(nodes, [queue("a", 9), queue("b")], [*work, gang]), POLICY)
        units = [session.jobs[job.id].pods for job in work]
        recorded = dice.sample(units, dice.randint(0, len(units)))
        bound = UpperBound(session, session.jobs["mpi"].next_pods(), recorded)
        left = [job for job in work if session.jobs[job.id].pods not in recorded]

        assert bound.is_enough() or not can_hold(nodes, left, gang)
        for job in list(left):
            bound.free(session.jobs[job.id].pods)
            place = session.node_of[job.pods[0].node_id]
            others = [other for other in work if session.jobs[other.id].pods not in recorded and other is not job]
            assert bound.is_enough_on(place) or not can_hold(nodes, others, gang)
            left.remove(job)
            assert bound.is_enough() or not can_hold(nodes, left, gang)


def test_a_bound_denies_a_gang_of_which_one_kind_finds_too_little_whoever_leaves():
    nodes = [node("n1", 2), node("n2", 1), node("cpu", cpu=4)]
    work = [held("x", "b", "n1", {0: 1}), held("y", "b", "cpu", cpu=3)]
    bounds = []
    for count, cpu in ((3, 1), (4, 1), (3, 65)):
        workers, launcher = [needs(1, resource="lab")] * count, needs(0, cpu=cpu, resource="lab")
        gang = mpi("mpi", "a", workers, launcher, is_in_one_rack=False)
        session = Session(Snapshot(nodes, [queue("a", 9), queue("b")], [*work, gang]), POLICY)
        bound = UpperBound(session, session.jobs["mpi"].next_pods(), [])
        before = bound.is_enough()
        for job in work:
            bound.free(session.jobs[job.id].pods)
        bounds.append((bound.is_known, before, bound.is_enough()))

    assert bounds == [(True, False, True), (True, False, False), (True, False, False)]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_reserved_for_a_gang_holds_all_of_it_once_it_is_empty(seed):
    dice = random.Random(seed)
    for _ in range(5):
        nodes, gang = random_nodes(dice), random_gang(dice, waited_s=600)
        work = random_work(dice, nodes, firm=True)
        session = Session(Snapshot(nodes, [queue("a", 99), queue("b")], [*work, gang]), POLICY)

        for action in ACTIONS.values():
            action(session)

        kept = {place.view.id for place in session.reserved_nodes.get(session.jobs["mpi"], [])}
        is_big = sum(pod.request.gpus for pod in gang.pods) >= max(len(row.devices) for row in nodes)
        is_due = is_big and "mpi" in session.waiting and can_hold(nodes, [], gang)
        left = [job for job in work if job.pods[0].node_id not in kept]
        assert bool(kept) is is_due
        assert not kept or can_hold(nodes, left, gang)


def kept_for(nodes: Sequence[NodeView], *jobs: JobView) -> dict[str, list[str]]:
    """Return the nodes that a cycle keeps for each job."""
    session = Session(Snapshot(nodes, [queue("a", 99), queue("b")], jobs), POLICY)
    for action in ACTIONS.values():
        action(session)
    return {job.view.id: [place.view.id for place in places] for job, places in session.reserved_nodes.items()}


def full(name: str, *, cpu: float = 1) -> JobView:
    """Return the job that nobody may take away and that holds both devices of a node."""
    return held(f"on-{name}", "b", name, {0: 1, 1: 1}, cpu=cpu, firm=True)


def test_workers_that_must_stay_in_one_rack_keep_nodes_of_one_rack():
    racks = {"n1": "r1", "n2": "r2", "n3": "r2"}
    nodes = [replace(node(name, 2), labels={"rack": rack}) for name, rack in racks.items()]
    gang = mpi("mpi", "a", [needs(2, resource="lab")] * 2, needs(0, resource="lab"), is_in_one_rack=True, waited_s=600)

    assert kept_for(nodes, *map(full, racks), gang) == {"mpi": ["n2", "n3"]}


def test_a_gang_that_no_rack_holds_does_not_hide_one_that_may_go_anywhere():
    nodes = [replace(node(name, 2), labels={"rack": name}) for name in ("n1", "n2")]
    gangs = [
        mpi(name, "a", [needs(2, resource="lab")] * 2, needs(0, resource="lab"), is_in_one_rack=is_in_one_rack,
            waited_s=600, rank=(name,))
        for name, is_in_one_rack in (("first", True), ("second", False))
    ]  # fmt: skip

    assert kept_for(nodes, full("n1"), *gangs) == {"second": ["n2", "n1"]}


def test_a_launcher_that_finds_no_cores_keeps_the_node_without_gpus_that_has_most():
    nodes = [node("n1", 2, cpu=4), node("cpu1", cpu=8), node("cpu2", cpu=8)]
    busy = [held(f"on-{name}", "b", name, cpu=cpu, firm=True) for name, cpu in (("cpu1", 7), ("cpu2", 6))]
    for launcher_cpu, others in ((2, []), (4, ["cpu2"])):
        workers, launcher = [needs(1, cpu=2, resource="lab")] * 2, needs(0, cpu=launcher_cpu, resource="lab")
        gang = mpi("mpi", "a", workers, launcher, is_in_one_rack=False, waited_s=600)

        assert kept_for(nodes, full("n1", cpu=4), *busy, gang) == {"mpi": ["n1", *others]}


# --- whole cycles


def any_job(dice: random.Random, number: int) -> JobView:
    """Return a job, a gang, an elastic one, or a launcher with its workers, some of which have waited for long."""
    job = random_job(dice, number)
    if dice.random() < 0.4:
        more = {"priority": job.priority, "is_preemptible": job.is_preemptible, "rank": job.rank}
        workers = [needs(dice.choice([1, 1, 2]), cpu=dice.choice([1, 2]), resource="lab")] * dice.randint(1, 3)
        launcher = needs(0, cpu=dice.choice([1, 1, 4]), resource="lab")
        job = mpi(job.id, job.queue_id, workers, launcher, is_in_one_rack=dice.random() < 0.4, **more)
    return replace(job, waited_s=dice.choice([None, 0, 600]))


def check(world: World) -> None:
    """No gang is half placed or in two racks; a queue holds the GPUs of workers, and what is firm within its quota."""
    racks = {row.id: row.labels["rack"] for row in world.snapshot.nodes}
    held_milli, firm_milli = Counter(), Counter()
    for job in world.snapshot.jobs:
        assert not is_half_up(job)
        pods = [pod for pod in job.pods if pod.state is PodState.RUNNING]
        if job.structure.children[0].topology_constraint is not None:
            assert len({racks[pod.node_id] for pod in pods if pod.pod_set == "workers"}) <= 1
        workers = sum(1000 * pod.request.gpus + pod.request.share_milli for pod in pods if pod.pod_set != "launcher")
        held_milli[job.queue_id] += workers
        firm_milli[job.queue_id] += 0 if job.is_preemptible else workers
    assert all(held_milli[name] == round(1000 * gpus) for name, gpus in world.allocated().items())
    assert all(firm_milli[row.id] <= (row.quota.gpu_milli or 0) for row in world.snapshot.queues)


@pytest.mark.parametrize("seed", range(5))
def test_no_gang_is_half_placed_whoever_claims_and_a_session_that_is_kept_decides_as_a_new_one(seed):
    dice = random.Random(seed)
    rules = dice.choice([PROMPT, STEADY, SharingRules(reclaim_min_runtime_s=120.0), SharingRules(evictions_at_most=1)])
    policy = replace(POLICY, sharing=rules)
    nodes = [replace(row, id=f"{row.id}{half}", name=f"{row.id}{half}") for row in random_nodes(dice) for half in "ab"]
    world = World(nodes, [queue(name, dice.randint(0, 6), age=9 - i) for i, name in enumerate("abc")], policy)
    kept, known = Session(world.snapshot, policy), {}
    for number in range(16):
        world.submit(any_job(dice, number))
        if world.running() and dice.random() < 0.4:
            world.delete(dice.choice(sorted(world.running())))
        jobs = {job.id: job for job in world.snapshot.jobs}
        kept.change([job for job in jobs.values() if known.get(job.id) != job], known.keys() - jobs.keys())
        known = jobs

        assert differences(kept) == []
        assert decide(kept) == decide(Session(world.snapshot, policy))
        world.cycle()
        check(world)
        world.pass_time(dice)
