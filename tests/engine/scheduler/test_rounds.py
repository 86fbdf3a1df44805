"""What holds when whole cycles follow each other while jobs come and go and nodes fail."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from scheduler.engine.snapshot import JobView, PodState, PodView
from tests.engine.scheduler.world import World, gang
from tests.factories.scheduler import node, queue, share_of

SIZES = [0, 0.25, 0.5, 0.5, 1, 1, 1, 2, 4]


def random_job(dice: random.Random, number: int) -> JobView:
    count = dice.choice([1, 1, 1, 2, 3])
    is_firm = dice.random() < 0.2
    return gang(
        f"job{number:04}", dice.choice(["a", "b", "c"]), dice.choice(SIZES), count, dice.randint(1, count),
        priority=100 if is_firm else dice.choice([50, 50, 75]), is_preemptible=not is_firm, rank=(number,),
    )  # fmt: skip


def check(world: World) -> None:
    cpu: Counter[str] = Counter()
    devices: Counter[tuple[str, str]] = Counter()
    for job in world.snapshot.jobs:
        up = [pod for pod in job.pods if pod.state is PodState.RUNNING]
        assert (job.stale_for_s or 0) <= 60, f"half a gang for long: {job.id}"
        for pod in up:
            cpu[pod.node_id] += pod.request.cpu_millicores
            assert len(pod.devices) == len(set(pod.devices)) == (pod.request.gpus or bool(pod.request.share_milli))
            for device in pod.devices:
                devices[pod.node_id, device] += share_of(pod.request)
    known = {row.id: row for row in world.snapshot.nodes}
    assert all(milli <= known[name].cpu_millicores for name, milli in cpu.items())
    assert all(milli <= 1000 for milli in devices.values())
    assert {(name, device) for name, device in devices} <= {(n, str(d)) for n in known for d in known[n].devices}


def fail(world: World, name: str) -> None:
    """Take a node away: what ran there waits again."""

    def without(pod: PodView) -> PodView:
        return replace(pod, state=PodState.PENDING, node_id=None, devices=()) if pod.node_id == name else pod

    nodes = [replace(row, is_ready=row.id != name) if row.id == name else row for row in world.snapshot.nodes]
    jobs = [replace(job, pods=tuple(without(pod) for pod in job.pods)) for job in world.snapshot.jobs]
    halved = {
        job.id
        for job in jobs
        if 0 < sum(t.state is PodState.RUNNING for t in job.pods) < job.structure.children[0].min_available
    }
    jobs = [
        replace(job, pods=tuple(replace(t, state=PodState.PENDING, node_id=None, devices=()) for t in job.pods))
        if job.id in halved
        else job
        for job in jobs
    ]
    world.snapshot = replace(world.snapshot, nodes=nodes, jobs=jobs)


@pytest.mark.parametrize("seed", range(60))
def test_random_work_on_a_random_cluster_is_never_double_placed_and_comes_to_rest(seed):
    dice = random.Random(seed)
    nodes = [node(f"n{i}", dice.choice([1, 2, 4, 8]), cpu=dice.choice([8, 64])) for i in range(dice.randint(1, 5))]
    queues = [queue(name, dice.randint(0, 6), age=9 - i) for i, name in enumerate(("a", "b", "c"))]
    world = World(nodes, queues)
    submitted = 0
    for _ in range(12):
        for _ in range(dice.randint(0, 4)):
            submitted += 1
            world.submit(random_job(dice, submitted))
        if world.running() and dice.random() < 0.3:
            world.delete(dice.choice(sorted(world.running())))
        if dice.random() < 0.1:
            fail(world, dice.choice(nodes).id)
        if dice.random() < 0.3:
            world.snapshot = replace(
                world.snapshot, nodes=[replace(row, is_ready=True) for row in world.snapshot.nodes]
            )
        world.cycle()
        check(world)
    world.settle(at_most=30)
    check(world)
