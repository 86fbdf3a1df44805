"""Ten thousand random cycles in which nodes fail and come back and what was decided is lost now and then."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf

import pytest

from scheduler.engine.decisions import Explain, Reserve, Start, Stop
from scheduler.engine.snapshot import (
    GroupView,
    JobView,
    PodSetView,
    PodState,
    PodView,
    QueueView,
    Quota,
    Snapshot,
    WorkRules,
)
from tests.engine.scheduler.world import UP, Flaky, apply, choosing, ended_by, gang, is_ghost, is_half_up
from tests.factories.scheduler import DEVICE_MIB, needs, node, queue

WORLDS, CYCLES = 20, 250
OCCUPYING = UP - {PodState.RESERVED} | {PodState.TERMINATING, PodState.STUCK_TERMINATING}
LEAVES = ("a1", "a2", "b1", "c1")
GRACE_S = 60
POOLS = ("lab", "farm")


def random_job(dice: random.Random, number: int) -> JobView:
    """Return a training, an interactive job, a gang, an elastic one, or a launcher with its workers."""
    name, leaf, rank = f"job{number:04}", dice.choice(LEAVES), (number,)
    kind = dice.choice(["one", "one", "one", "shared", "shared", "firm", "gang", "elastic", "workers", "groups"])
    size = dice.choice([0, 0.25, 0.5, 0.5, 0.75] if kind == "shared" else [0, 1, 1, 1, 2, 4])
    if kind == "firm":
        size = dice.choice([0, 0.5, 1])
        return gang(name, leaf, size, 1, 1, priority=100, is_preemptible=False, rank=rank)
    if kind == "gang":
        count = dice.randint(2, 4)
        return gang(name, leaf, min(size, 2), count, count, priority=dice.choice([50, 75]), rank=rank)
    if kind == "elastic":
        count = dice.randint(2, 4)
        return gang(name, leaf, min(size, 1), count, dice.randint(1, count), rank=rank)
    if kind == "workers":
        return launcher_with_workers(name, leaf, dice.randint(1, 3), rank=rank)
    if kind == "groups":
        return groups(name, leaf, 3, rank=rank)
    return gang(name, leaf, size, 1, 1, priority=dice.choice([50, 50, 75]), rank=rank)


def launcher_with_workers(name: str, leaf: str, count: int, **more) -> JobView:
    launcher = PodView(f"{name}-l", PodState.PENDING, needs(0, resource="lab"), "launcher")
    workers = [PodView(f"{name}-{i}", PodState.PENDING, needs(1, resource="lab"), "workers") for i in range(count)]
    tree = GroupView((PodSetView("launcher", 1), PodSetView("workers", count)))
    return JobView(name, leaf, (launcher, *workers), tree, **more)


def groups(name: str, leaf: str, count: int, **more) -> JobView:
    """Return a job of groups of two, of which two are needed."""
    pods = tuple(
        PodView(f"{name}-{group}-{i}", PodState.PENDING, needs(0.5, resource="lab"), group)
        for group in (f"g{number}" for number in range(count))
        for i in range(2)
    )
    tree = GroupView(tuple(PodSetView(f"g{number}", 2) for number in range(count)), min_children=2)
    return JobView(name, leaf, pods, tree, **more)


def random_queues(dice: random.Random) -> list[QueueView]:
    """Return two departments of two projects and of one, and a project without a department."""
    rows = [("a", None, 6), ("b", None, 3), ("a1", "a", 4), ("a2", "a", 2), ("b1", "b", 3), ("c1", None, 2)]
    return [
        replace(
            queue(name, max(0, quota + dice.randint(-2, 2)), age=20 - rank),
            parent_id=parent,
            limit=Quota(dice.choice([None, None, 1000 * (quota + 4)]), dice.choice([None, 16_000]), None),
            training=random_rules(dice),
            interactive=random_rules(dice),
        )
        for rank, (name, parent, quota) in enumerate(rows)
    ]


def with_pools(dice: random.Random, job: JobView) -> JobView:
    """Let most jobs choose between pools, in either order."""
    pools = dice.choice([("lab",), POOLS, POOLS[::-1], ()])
    return choosing(job, *pools) if pools else job


def random_rules(dice: random.Random) -> WorkRules:
    """Return rules for one kind of work, most often none."""
    labels = frozenset({("type", dice.choice("xy"))})
    return WorkRules(dice.choice([None, None, None, labels]), dice.choice([None, None, 1800]), dice.choice([None, 300]))


def rules_for(snapshot: Snapshot, job: JobView) -> WorkRules:
    """Return the rules for a job, those of its department included."""
    rows = {row.id: row for row in snapshot.queues}
    row, rules = rows[job.queue_id], WorkRules()
    while row is not None:
        rules = rules.or_else(row.training if job.is_preemptible else row.interactive)
        row = rows.get(row.parent_id)
    return rules


# --- what holds after every cycle


def check_nodes(snapshot: Snapshot, states: frozenset[PodState]) -> None:
    """No node is given out beyond what it has. A promised device may turn out to be another one of its node."""
    used: Counter[tuple[str | None, str]] = Counter()
    shares: Counter[tuple[str | None, str]] = Counter()
    for pod in (pod for job in snapshot.jobs for pod in job.pods if pod.state in states):
        used[pod.node_id, "cpu"] += pod.request.cpu_millicores
        used[pod.node_id, "memory"] += pod.request.memory_bytes
        used[pod.node_id, "devices"] += pod.request.gpus
        for device in pod.devices if pod.request.is_shared else ():
            shares[pod.node_id, device] += pod.request.share_milli
    used.update((node_id, "devices") for node_id, _ in shares)

    assert all(milli <= 1000 for milli in shares.values())
    known = {
        (row.id, what): free
        for row in snapshot.nodes
        for what, free in [("cpu", row.cpu_millicores), ("memory", row.memory_bytes), ("devices", len(row.devices))]
    }
    assert all(amount <= known.get(key, 0) for key, amount in used.items())


def check_devices(snapshot: Snapshot) -> None:
    """Nobody uses a device that another uses whole, or that is used up."""
    milli: Counter[tuple[str | None, str]] = Counter()
    for pod in (pod for job in snapshot.jobs for pod in job.pods if pod.state in OCCUPYING):
        assert len(set(pod.devices)) == len(pod.devices) == (pod.request.gpus or bool(pod.request.share_milli))
        for device in pod.devices:
            milli[pod.node_id, device] += pod.request.share_milli or 1000
    assert milli.keys() <= {(row.id, str(device)) for row in snapshot.nodes for device in row.devices}
    assert all(used <= 1000 for used in milli.values())


def check_bounds(snapshot: Snapshot, states: frozenset[PodState]) -> None:
    """No queue is beyond its limit, and what is not preemptible is within the quota, all the way up."""
    by_id = {row.id: row for row in snapshot.queues}
    held: Counter[tuple[str, int]] = Counter()
    firm: Counter[tuple[str, int]] = Counter()
    for job in snapshot.jobs:
        for pod in (pod for pod in job.pods if pod.state in states):
            charge = (pod.request.charge_milli(DEVICE_MIB), pod.request.cpu_millicores, pod.request.memory_bytes)
            name: str | None = job.queue_id
            while name is not None:
                for resource, amount in enumerate(charge):
                    held[name, resource] += amount
                    firm[name, resource] += 0 if job.is_preemptible else amount
                name = by_id[name].parent_id
    for (name, resource), amount in held.items():
        limit, quota = by_id[name].limit[resource], by_id[name].quota[resource]
        assert limit is None or amount <= limit, f"{name} is beyond its limit"
        assert quota is None or firm[name, resource] <= quota, f"{name} is beyond its quota"


def check(world: Flaky, before: Snapshot) -> None:
    told = apply(before, world.decisions)
    check_devices(world.snapshot)
    check_nodes(world.snapshot, OCCUPYING)
    check_nodes(told, UP)
    check_bounds(world.snapshot, frozenset({PodState.RUNNING}))
    check_bounds(told, UP)
    check_gangs(world, before, told)
    check_that_nobody_is_forgotten(world, told)
    check_starts(world, before)
    check_rules(world, before)
    check_pools(before, told)


def check_gangs(world: Flaky, before: Snapshot, told: Snapshot) -> None:
    """Half a gang is made whole, or told to stop once its grace is over; only what is lost may keep it half up."""
    graces = {job.id: job.stale_for_s or 0 for job in before.jobs}
    for job in told.jobs:
        assert not is_half_up(job) or graces[job.id] < GRACE_S, f"{job.id} is kept half up"
    for job in world.snapshot.jobs:
        assert job.id in world.lost or (job.stale_for_s or 0) <= GRACE_S, f"{job.id} is half up for long"


def check_that_nobody_is_forgotten(world: Flaky, told: Snapshot) -> None:
    """Each job of which pods wait on is explained, once; who was stopped just now may be looked at next time."""
    stopped = {decision.pod_id for decision in world.decisions if isinstance(decision, Stop)}
    waiting = {
        job.id for job in told.jobs for pod in job.pods if pod.state is PodState.PENDING and pod.id not in stopped
    }
    assert sorted(decision.job_id for decision in world.decisions if isinstance(decision, Explain)) == sorted(waiting)


def check_starts(world: Flaky, before: Snapshot) -> None:
    """Capacity is given on nodes that take work, to those who have none, once."""
    ready = {row.id for row in before.nodes if row.is_open}
    states = {pod.id: pod.state for job in before.jobs for pod in job.pods}
    given = [decision for decision in world.decisions if isinstance(decision, Start | Reserve)]
    assert {decision.node_id for decision in given} <= ready
    assert len({decision.pod_id for decision in given}) == len(given)
    for decision in given:
        assert isinstance(decision, Reserve) or states[decision.pod_id] in {PodState.PENDING, PodState.RESERVED}


def check_rules(world: Flaky, before: Snapshot) -> None:
    """Capacity is given on nodes that the project's rules allow; what has reached a limit ends, and what has ended is over."""
    given = [decision for decision in world.decisions if isinstance(decision, Start | Reserve)]
    assert not {decision.job_id for decision in given} & world.over
    check_labels(before, given)
    told = ended_by(world.decisions)
    for job in before.jobs:
        rules = rules_for(before, job)
        runs = (job.running_for_s or 0) >= (rules.run_at_most_s or inf)
        is_overdue = runs or (job.idle_for_s or 0) >= (rules.idle_at_most_s or inf)
        has_running = any(pod.state is PodState.RUNNING for pod in job.pods)
        assert (job.id in told) == (is_overdue and has_running), f"{job.id} is stopped too early or too late"


def check_pools(before: Snapshot, told: Snapshot) -> None:
    """A job comes up in one of its pools; only where a part of what it was told is lost may it be in two."""
    pool_of = {row.id: row.pool for row in before.nodes}
    was_in = {job.id: pools_of(job, pool_of) for job in before.jobs}
    for job in told.jobs:
        assert not job.pools or len(was_in[job.id]) > 1 or len(pools_of(job, pool_of)) <= 1, f"{job.id} is spread"
        assert not job.pools or pools_of(job, pool_of) <= {*job.pools}


def pools_of(job: JobView, pool_of: Mapping[str, str]) -> set[str]:
    return {pool_of[pod.node_id] for pod in job.pods if pod.state in UP and pod.node_id in pool_of}


def check_labels(before: Snapshot, given: Iterable[Start | Reserve]) -> None:
    nodes, jobs = {row.id: row for row in before.nodes}, {job.id: job for job in before.jobs}
    for decision in given:
        labels = rules_for(before, jobs[decision.job_id]).node_labels
        assert labels is None or nodes[decision.node_id].bears(labels), f"{decision.pod_id} is where it may not be"


# --- the cycles


def make_trouble(world: Flaky, dice: random.Random) -> None:
    """Let nodes fail, be drained, and come back."""
    names = [row.id for row in world.snapshot.nodes]
    if dice.random() < 0.06:
        world.fail(dice.choice(names), is_known=dice.random() < 0.7, is_gone=dice.random() < 0.4 and len(names) > 1)
    if dice.random() < 0.03:
        world.drain(dice.choice(names))
    if dice.random() < 0.2:
        world.repair()


def end_some(world: Flaky, dice: random.Random) -> None:
    """Let jobs end, the sooner the more there are."""
    names = [job.id for job in world.snapshot.jobs if not is_ghost(job)]
    if names and dice.random() < len(names) / 12:
        world.delete(dice.choice(names))


@pytest.mark.parametrize("seed", range(WORLDS))
def test_nothing_is_double_placed_half_up_or_forgotten_whatever_fails(seed):
    dice = random.Random(seed)
    nodes = [
        replace(
            node(f"n{i}", dice.choice([0, 1, 2, 4, 4]), cpu=dice.choice([2, 4, 64]), resource=dice.choice(POOLS)),
            labels={"type": "xy"[i % 2]},
        )
        for i in range(dice.randint(2, 4))
    ]
    world = Flaky(dice, nodes, random_queues(dice))

    for number in range(CYCLES):
        if dice.random() < 0.4:
            world.submit(with_pools(dice, random_job(dice, number)))
        end_some(world, dice)
        make_trouble(world, dice)
        before = world.snapshot
        world.cycle()
        check(world, before)
        world.pass_time(dice)

    world.repair()
    world.loss = world.slowness = 0
    world.settle(at_most=30)
    check_devices(world.snapshot)
    check_nodes(world.snapshot, UP)
