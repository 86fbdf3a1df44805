"""The guard of big work: it is not starved by small jobs, and they do not wait for it for longer than the bound."""

import math
import random
from dataclasses import replace
from datetime import timedelta

import pytest

from scheduler.engine.cycle import ACTIONS
from scheduler.engine.decisions import Reserve
from scheduler.engine.session import Session
from scheduler.engine.snapshot import (
    NEARLINE,
    PARITY,
    GroupView,
    JobView,
    NodeView,
    PodSetView,
    PodState,
    PodView,
    Policy,
    TopologyConstraint,
)
from tests.engine.scheduler.rebuilt_session import differences
from tests.engine.scheduler.test_rounds import check, random_job
from tests.engine.scheduler.world import World
from tests.factories.scheduler import START, decide, held, needs, node, queue, snapshot_of, wait

MINUTE = 60
POLICY = replace(NEARLINE, reserve_after_s=10 * MINUTE, reserve_for_s=30 * MINUTE)
UNGUARDED = replace(POLICY, reserve_after_s=None)


def gang(
    name: str,
    queue_name: str,
    gpus: float,
    count: int,
    *,
    topology_constraint: TopologyConstraint | None = None,
    **more,
) -> JobView:
    """Return a gang that has waited for long enough, unless told otherwise."""
    pods = tuple(PodView(f"{name}-{i}", PodState.PENDING, needs(gpus, resource="lab")) for i in range(count))
    more = {"rank": (START - timedelta(hours=1),), "waited_s": 10 * MINUTE, **more}
    return JobView(name, queue_name, pods, GroupView((PodSetView("", count, topology_constraint),)), **more)


class Stream:
    """Two nodes of two GPUs, always full of jobs of one GPU, of which each minute one ends and another one comes."""

    def __init__(self, policy: Policy) -> None:
        self.world = World([node("n1", 2), node("n2", 2)], [queue("a", 4)], policy)
        self.now = 0
        self.come: dict[str, int] = {}
        self.started: dict[str, int] = {}
        self.submit(*[wait(f"old{i}", "a", 1) for i in range(4)])
        self.world.cycle()
        self.started = {f"old{i}": i - 4 for i in range(4)}

    def submit(self, *jobs: JobView) -> None:
        self.come |= dict.fromkeys((job.id for job in jobs), self.now)
        self.world.submit(*(replace(job, rank=(self.now, job.id)) for job in jobs))

    def run(self, minutes: int) -> None:
        """Let minutes pass: in each, what has run for four of them ends, a job comes, a cycle runs."""
        for _ in range(minutes):
            done = {name for name in self.world.running() if self.now - self.started[name] >= 4}
            self.world.delete(*(done - {"for ever"}))
            self.submit(wait(f"s{self.now:03}", "a", 1))
            jobs = [replace(job, waited_s=(self.now - self.come[job.id]) * MINUTE) for job in self.world.snapshot.jobs]
            self.world.snapshot = replace(self.world.snapshot, jobs=jobs)
            self.world.cycle()
            self.started |= dict.fromkeys(self.world.running() - self.started.keys(), self.now)
            self.now += 1

    def waits(self) -> list[int]:
        """Return for how many minutes each of the small jobs waited, in the order in which they came."""
        return [self.started.get(name, self.now) - self.come[name] for name in sorted(self.come) if name[0] == "s"]


# --- a gang among a stream of small jobs


def test_without_the_guard_a_gang_of_two_nodes_starves():
    stream = Stream(UNGUARDED)
    stream.submit(gang("big", "a", 2, 2))

    stream.run(120)

    assert "big" not in stream.started
    assert set(stream.waits()) == {0}


def test_with_the_guard_it_starts_as_soon_as_what_ran_when_its_time_came_is_done():
    stream = Stream(POLICY)
    stream.submit(gang("big", "a", 2, 2))

    stream.run(20)

    assert stream.started["big"] == 13


def test_small_jobs_wait_only_while_room_is_gathered_and_the_gang_runs():
    stream = Stream(POLICY)
    stream.submit(gang("big", "a", 2, 2))

    stream.run(40)

    assert stream.waits()[:14] == [0] * 10 + [7, 6, 5, 4]
    assert max(stream.waits()) == 7


def test_room_that_never_suffices_is_given_back_after_the_bound_and_gathered_again_much_later():
    stream = Stream(POLICY)
    stream.submit(gang("big", "a", 2, 2))
    stream.world.delete("old3")
    stream.submit(held("for ever", "a", "n2", {1: 1}))
    stream.started["for ever"] = 0

    stream.run(90)

    begun = {stream.started[name] for name in stream.started if name[0] == "s"}
    assert sorted(begun & set(range(8, 90))) == [8, 9, 40, 44, 48, 80, 84, 88]


@pytest.mark.parametrize(
    ("minutes", "is_kept"),
    [(None, False), (9, False), (10, True), (39, True), (40, False), (49, False), (50, True), (79, True), (80, False),
     (129, False), (130, True), (159, True), (160, False), (290, True), (320, False)],
)  # fmt: skip
def test_room_is_kept_for_a_while_after_ever_longer_waits(minutes, is_kept):
    assert POLICY.reserves_after(None if minutes is None else minutes * MINUTE) is is_kept


@pytest.mark.parametrize("minutes", [0, 9, 10, 39, 40, 49, 50, 79, 80, 129, 130, 159, 160, 289, 290, 319, 320])
def test_the_span_of_a_wait_is_how_long_room_is_kept_or_not(minutes):
    from_s, until_s = POLICY.wait_span(minutes * MINUTE)
    within = {POLICY.reserves_after(wait_s) for wait_s in (from_s, minutes * MINUTE, until_s - 1)}

    assert from_s <= minutes * MINUTE < until_s
    assert within == {not POLICY.reserves_after(until_s)}
    assert not from_s or within == {not POLICY.reserves_after(from_s - 1)}


def test_with_parity_room_is_never_kept():
    assert not PARITY.reserves_after(1e9)
    assert PARITY.wait_span(1e9) == (0, math.inf)


# --- for whom


def kept_for(*parts, policy: Policy = POLICY) -> dict[str, list[str]]:
    """Return the nodes that a cycle keeps for each job."""
    session = Session(snapshot_of(*parts), policy)
    for action in ACTIONS.values():
        action(session)
    return {job.view.id: [node.view.name for node in nodes] for job, nodes in session.reserved_nodes.items()}


def full(name: str, gpus: int = 2, *, of: str = "a", taken: int | None = None) -> tuple[NodeView, JobView]:
    """Return a node, and the job that nobody may take away and that holds all, or some, of its devices."""
    devices = dict.fromkeys(range(gpus if taken is None else taken), 1)
    return node(name, gpus), held(f"on-{name}", of, name, devices, firm=True)


def test_work_smaller_than_a_node_is_not_guarded():
    assert kept_for(*full("n1"), queue("a", 2), gang("big", "a", 1, 1)) == {}


def test_a_job_that_needs_one_whole_node_is_guarded():
    assert kept_for(*full("n1"), queue("a", 2), gang("big", "a", 2, 1)) == {"big": ["n1"]}


def test_a_gang_that_has_not_waited_for_long_is_not_guarded():
    assert kept_for(*full("n1"), queue("a", 2), gang("big", "a", 2, 1, waited_s=599)) == {}


def test_a_gang_that_would_not_fit_if_all_nodes_were_empty_is_not_guarded():
    assert kept_for(*full("n1"), queue("a", 4), gang("big", "a", 2, 2)) == {}


def test_a_gang_beyond_the_share_of_its_queue_is_not_guarded():
    parts = *full("n1", of="b"), *full("n2", of="b"), queue("a", 1, weight=0), queue("b", 4)

    assert kept_for(*parts, gang("big", "a", 2, 2)) == {}


def test_a_gang_that_its_quota_forbids_is_not_guarded():
    parts = *full("n1"), *full("n2"), queue("a", 4)

    assert kept_for(*parts, gang("big", "a", 2, 2, is_preemptible=False)) == {}


def test_only_the_first_in_the_order_of_service_is_guarded_in_a_pool():
    parts = *full("n1"), *full("n2"), queue("a", 4)

    assert kept_for(*parts, gang("late", "a", 2, 1, rank=(START,)), gang("early", "a", 2, 1)) == {"early": ["n1"]}


def test_each_pool_guards_one():
    farm = node("n2", 2, resource="farm"), held("x", "a", "n2", {0: 1, 1: 1})
    there = gang("there", "a", 2, 1)
    there = replace(there, pods=tuple(replace(pod, request=needs(2, resource="farm")) for pod in there.pods))

    assert kept_for(*full("n1"), *farm, queue("a", 4), gang("here", "a", 2, 1), there) == {
        "here": ["n1"],
        "there": ["n2"],
    }


# --- where


def test_the_freest_nodes_are_kept_and_no_more_than_are_needed():
    parts = *full("n1", 8), *full("n2", 8, taken=3), *full("n3", 8, taken=5), *full("n4", 8, taken=2), queue("a", 32)

    assert kept_for(*parts, gang("big", "a", 8, 2)) == {"big": ["n4", "n2"]}


def test_nodes_on_which_it_may_not_run_are_not_kept():
    big = gang("big", "a", 2, 1)
    big = replace(big, pods=tuple(replace(pod, allowed_nodes=frozenset({"n2"})) for pod in big.pods))

    assert kept_for(*full("n1"), *full("n2"), queue("a", 4), big) == {"big": ["n2"]}


def test_a_gang_that_must_stay_in_one_rack_keeps_nodes_of_one_rack():
    parts = [part for name in ("n1", "n2", "n3", "n4") for part in full(name, taken=1 if name in {"n1", "n4"} else 2)]
    racks = {"n1": "r1", "n2": "r1", "n3": "r2", "n4": "r3"}
    parts = [replace(p, labels={"rack": racks[p.id]}) if isinstance(p, NodeView) else p for p in parts]

    kept = kept_for(
        *parts, queue("a", 8), gang("big", "a", 2, 2, topology_constraint=TopologyConstraint(("rack",), "rack"))
    )

    assert kept == {"big": ["n1", "n2"]}


def test_what_was_kept_is_open_again_when_the_next_cycle_begins():
    session = Session(snapshot_of(*full("n1", taken=1), queue("a", 2), gang("big", "a", 2, 1)), POLICY)
    ACTIONS["allocate"](session)
    assert not session.nodes[0].fits(needs(1), now=False)

    session.change([])

    assert session.reserved_nodes == {}
    assert session.nodes[0].fits(needs(1), now=False)
    assert differences(session) == []


# --- what it means for others


def test_who_comes_before_the_gang_still_gets_the_room():
    parts = *full("n1", taken=1), queue("a", 2), gang("big", "a", 2, 1)

    assert decide(*parts, wait("small", "a", 1, priority=60), policy=POLICY, actions=ACTIONS).order == ["small"]
    assert decide(*parts, wait("small", "a", 1), policy=POLICY, actions=ACTIONS).order == []
    assert decide(*parts, wait("small", "a", 1), policy=UNGUARDED, actions=ACTIONS).order == ["small"]


def test_a_share_of_a_device_is_not_given_out_on_a_kept_node():
    parts = node("n1", 2), held("half", "a", "n1", {0: 0.5}, firm=True), queue("a", 2), gang("big", "a", 2, 1)

    assert decide(*parts, wait("other", "a", 0.5), policy=POLICY, actions=ACTIONS).order == []
    assert decide(*parts, wait("other", "a", 0.5), policy=UNGUARDED, actions=ACTIONS).order == ["other"]


def test_nodes_that_are_not_needed_stay_open_for_all():
    parts = *full("n1", taken=1), *full("n2", 1, taken=0), queue("a", 3), gang("big", "a", 2, 1)

    assert decide(*parts, wait("small", "a", 1), policy=POLICY, actions=ACTIONS).nodes == {"small": "n2"}


def test_nobody_is_moved_or_taken_away_for_a_small_job_to_get_round_the_guard():
    soft = held("soft", "b", "n2", {0: 1})
    parts = *full("n1", taken=1), node("n2", 1), soft, queue("a", 3), queue("b"), gang("big", "a", 2, 1)

    outcome = decide(*parts, wait("small", "b", 1), policy=POLICY, actions=ACTIONS)

    assert outcome.decisions[:-2] == []
    assert set(outcome.texts) == {"big", "small"}


def test_the_gang_itself_uses_what_is_kept_for_it_when_it_reclaims():
    parts = node("n1", 2), held("soft", "b", "n1", {0: 1}), queue("a", 2), queue("b")

    outcome = decide(*parts, gang("big", "a", 2, 1), policy=POLICY, actions=ACTIONS)

    stop, reserve = outcome.decisions[:2]
    assert (stop.job_id, stop.code, stop.for_job) == ("soft", "reclaimed", "big")
    assert stop.text == "Another queue claims its share; b holds more than it may keep."
    assert reserve == Reserve("big", "big-0", "n1")


@pytest.mark.parametrize("seed", range(12))
def test_random_work_with_guards_is_never_double_placed_and_comes_to_rest(seed):
    dice = random.Random(seed)
    nodes = [node(f"n{i}", dice.choice([2, 4, 4, 8])) for i in range(dice.randint(1, 5))]
    world = World(nodes, [queue(name, dice.randint(0, 6), age=9 - i) for i, name in enumerate("abc")])
    for number in range(30):
        small = random_job(dice, number)
        big = gang(small.id, small.queue_id, dice.choice([4, 8]), dice.choice([1, 2]), rank=small.rank)
        world.submit(replace(dice.choice([small, small, small, big]), waited_s=dice.choice([0, 1000, 2000])))
        if world.running() and dice.random() < 0.3:
            world.delete(dice.choice(sorted(world.running())))
        world.cycle()
        check(world)
    world.settle()
    check(world)
