"""A dump of a cycle says all that decided: from it the same is decided again, also after a way through JSON."""

import json
import os
import random
from dataclasses import replace

import pytest

from scheduler.engine import dumps
from scheduler.engine.cycle import decide
from scheduler.engine.decisions import Explain, Stop
from scheduler.engine.receipts import write_receipts
from scheduler.engine.session import Session
from scheduler.engine.snapshot import NEARLINE, PARITY, Snapshot
from tests.engine.scheduler.test_failures import POOLS, random_rules, with_pools
from tests.engine.scheduler.test_rounds import random_job
from tests.engine.scheduler.world import World
from tests.factories.scheduler import cut_node, held, node, queue, snapshot_of, wait

SEEDS = range(int(os.environ.get("NEARLINE_TEST_DUMPS", "4")))
"""Each has 20 cycles. 500 in all by hand: `NEARLINE_TEST_DUMPS=25`."""


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_random_world_decided_is_decided_again_and_each_stop_has_its_receipt(seed):
    dice = random.Random(seed)
    nodes = [node(f"n{i}", dice.choice([1, 2, 4, 8]), cpu=dice.choice([8, 64])) for i in range(dice.randint(1, 5))]
    nodes = [replace(row, labels={"type": dice.choice("xy")}, pool=dice.choice(POOLS)) for row in nodes]
    queues = [
        replace(queue(name, dice.randint(0, 4), age=9 - i), training=random_rules(dice), interactive=random_rules(dice))
        for i, name in enumerate(("a", "b", "c"))
    ]
    policy = PARITY if seed % 4 == 3 else NEARLINE
    world = World(nodes, queues, policy)
    for number in range(20):
        world.submit(with_pools(dice, random_job(dice, number)))
        session = Session(world.snapshot, policy)
        decisions = decide(session)
        receipts = write_receipts(session, decisions)

        replay = dumps.replay(json.loads(json.dumps(dumps.write(world.snapshot, policy, decisions))))

        assert replay.is_same
        assert len(replay.recorded) == sum(not isinstance(decision, Explain) for decision in decisions)
        assert receipts.keys() == {decision.job_id for decision in decisions if isinstance(decision, Stop)}
        world.cycle()
        world.pass_time(dice)


def test_slices_are_cut_again_as_they_were():
    snapshot = snapshot_of(cut_node("n1"), queue("a", 1), wait("job", "a", parts={"mig": (("3g.20gb", 1),)}))
    session = Session(snapshot, NEARLINE)

    replay = dumps.replay(json.loads(json.dumps(dumps.write(snapshot, NEARLINE, decide(session)))))

    assert replay.is_same
    assert replay.replayed == [["Start", "job", "job", "n1", ["0:3g.20gb@4"]]]


def test_another_decision_is_told():
    snapshot = snapshot_of(
        node("n1", 1), queue("a", 1), held("low", "a", "n1", {0: 1}), wait("high", "a", 1, priority=90)
    )
    dump = dumps.write(snapshot, NEARLINE, decide(Session(snapshot, NEARLINE)))

    replay = dumps.replay({**dump, "moves": dump["moves"][:1]})

    assert not replay.is_same
    assert len(replay.replayed) == 2


def test_what_is_no_dump_is_refused():
    for dump in ({}, {"format": 2}, {"format": 1, "input": {"snapshot": 3}, "moves": []}):
        with pytest.raises(ValueError):
            dumps.replay(dump)


def test_an_empty_snapshot_is_a_dump_too():
    assert dumps.replay(dumps.write(Snapshot(), NEARLINE, [])).is_same
