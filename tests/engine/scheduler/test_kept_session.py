"""A session that is kept and told what changed decides as one that is made anew."""

import random
from dataclasses import replace

import pytest

from scheduler.engine.actions.starting import allocate
from scheduler.engine.cycle import ACTIONS
from scheduler.engine.jobs import Pod
from scheduler.engine.session import Session
from scheduler.engine.snapshot import JobView, PodState, PodView, Policy, Snapshot
from tests.engine.scheduler.rebuilt_session import differences
from tests.engine.scheduler.test_failures import POOLS, random_rules, with_pools
from tests.engine.scheduler.test_rounds import gang, random_job
from tests.engine.scheduler.world import World
from tests.factories.scheduler import node, queue, wait


def decide(session: Session) -> list[tuple]:
    """Run every action; return each move."""
    for action in ACTIONS.values():
        action(session)
    return [(t.view.id, t.state, t.node and t.node.view.id, t.devices) for t in session.moved_since(0)]


@pytest.mark.parametrize("seed", range(20))
def test_every_cycle_decides_as_one_that_knows_nothing_of_those_before(seed):
    dice = random.Random(seed)
    nodes = [node(f"n{i}", dice.choice([1, 2, 4, 8]), cpu=dice.choice([8, 64])) for i in range(dice.randint(1, 5))]
    nodes = [replace(row, labels={"type": dice.choice("xy")}, pool=dice.choice(POOLS)) for row in nodes]
    queues = [
        replace(queue(name, dice.randint(0, 6), age=9 - i), training=random_rules(dice), interactive=random_rules(dice))
        for i, name in enumerate(("a", "b", "c"))
    ]
    world, kept = World(nodes, queues), Session(Snapshot(nodes, queues, []), Policy())
    known: dict[str, JobView] = {}
    for number in range(30):
        world.submit(with_pools(dice, random_job(dice, number)))
        if world.running() and dice.random() < 0.4:
            world.delete(dice.choice(sorted(world.running())))
        jobs = {job.id: job for job in world.snapshot.jobs}
        kept.change([job for job in jobs.values() if known.get(job.id) != job], known.keys() - jobs.keys())
        known = jobs

        assert differences(kept) == []
        assert decide(kept) == decide(Session(world.snapshot, Policy()))
        world.cycle()
        world.pass_time(dice)


@pytest.mark.parametrize("seed", range(20))
def test_starts_that_are_accepted_leave_a_session_as_one_that_is_made_anew(seed):
    dice = random.Random(seed)
    nodes = [node(f"n{number}", dice.choice([2, 4, 8])) for number in range(3)]
    queues = [queue(name, dice.randint(0, 6)) for name in "abc"]
    jobs = {
        job.id: job
        for job in (
            wait(f"job-{number}", dice.choice("abc"), dice.choice([1, 2]), firm=dice.random() < 0.2)
            for number in range(12)
        )
    }
    session = Session(Snapshot(nodes, queues, list(jobs.values())), Policy())
    allocate(session)
    moved = dict.fromkeys(pod.job for pod in session.moved_since(0))
    started = [replace(job.view, saved_at=7.0, pods=tuple(map(_running, job.pods))) for job in moved]

    session.accept(started)
    session.change([])

    assert differences(session) == []
    now = [*(jobs | {view.id: view for view in started}).values()]
    assert decide(session) == decide(Session(Snapshot(nodes, queues, now), Policy()))


def _running(pod: Pod) -> PodView:
    return replace(pod.view, state=PodState.RUNNING, node_id=pod.node.view.id, devices=pod.devices)


def test_a_decision_that_was_lost_is_made_again():
    session = Session(Snapshot([node("n", 1)], [queue("a", 1)], [gang("job", "a", 1, 1, 1)]), Policy())

    first = decide(session)
    session.change([])

    assert first == [("job-0", PodState.STARTING, "n", ("0",))]
    assert decide(session) == first


def test_a_difference_is_named():
    session = Session(Snapshot([node("n", 1)], [queue("a", 1)], [gang("job", "a", 1, 1, 1)]), Policy())
    session.queues["a"].waiting[0] += 1

    assert [line.partition(" [")[0] for line in differences(session)] == ["queue a: waiting is"]
