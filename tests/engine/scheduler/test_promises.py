"""What comes of capacity that was promised in an earlier cycle."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from scheduler.engine.cycle import ACTIONS, run_cycle
from scheduler.engine.decisions import Explain, Reserve, Start, Withdraw
from scheduler.engine.session import Session
from scheduler.engine.snapshot import JobView, PodState, Policy, Quota
from tests.engine.scheduler.world import gang
from tests.factories.scheduler import held, node, queue, snapshot_of, wait


def reserved(job: JobView, *nodes: str, devices: tuple[str, ...] = ()) -> JobView:
    """Return a job to whose pods capacity was promised on these nodes."""
    pairs = zip(job.pods, nodes, strict=True)
    pods = (replace(pod, state=PodState.RESERVED, node_id=name, devices=devices) for pod, name in pairs)
    return replace(job, pods=tuple(pods))


def terminating(name: str, queue_name: str, node_name: str, gpus: Mapping[int, float] = {0: 1}) -> JobView:
    """Return a job that was told to stop and has not yet."""
    job = held(name, queue_name, node_name, gpus)
    return replace(job, pods=(replace(job.pods[0], state=PodState.TERMINATING),))


def moves(*parts, actions=("honor_reservations",)):
    decisions = run_cycle(snapshot_of(*parts), Policy(), actions)
    return [decision for decision in decisions if not isinstance(decision, Explain)]


def test_who_was_promised_room_starts_there_once_it_is_free():
    assert moves(node("n1", 2), node("n2", 2), queue("a", 2), reserved(wait("job", "a", 1), "n2")) == [
        Start("job", "job", "n2", ("0",))
    ]


def test_a_promise_stands_while_somebody_is_leaving():
    old = terminating("old", "b", "n1")

    assert moves(node("n1", 1), queue("a", 1), queue("b"), old, reserved(wait("job", "a", 1), "n1")) == []


def test_a_gang_starts_only_when_all_of_its_room_is_free():
    parts = node("n1", 1), node("n2", 1), queue("a", 2), queue("b")
    pair = reserved(gang("pair", "a", 1, 2, 2), "n1", "n2")

    assert moves(*parts, terminating("old", "b", "n2"), pair) == []
    assert moves(*parts, pair) == [Start("pair", "pair-0", "n1", ("0",)), Start("pair", "pair-1", "n2", ("0",))]


def test_who_was_to_leave_does_not_keep_a_device_that_is_reserved_for_shares():
    session = Session(
        snapshot_of(node("n1", 2), queue("a", 2), held("whole", "a", "n1", {0: 1}), wait("share", "a", 0.5)), Policy()
    )
    (whole,), (share,) = session.jobs["whole"].pods, session.jobs["share"].pods
    session.evict(whole)
    session.reserve(share, whole.node, ("0",))

    session.reserve(whole, whole.node, ())

    assert (whole.state, whole.moved_from) == (PodState.RESERVED, ("n1", ("0",)))


def test_two_shares_that_were_promised_the_same_device_start_on_it_together():
    shares = [reserved(wait(name, "a", 0.3), "n1", devices=("0",)) for name in ("one", "two")]

    assert moves(node("n1", 1), queue("a", 1), *shares) == [
        Start("one", "one", "n1", ("0",)),
        Start("two", "two", "n1", ("0",)),
    ]


@pytest.mark.parametrize(
    ("job", "devices"), [(wait("job", "a", 1), ()), (wait("job", "a", 0.6), ("0",)), (wait("job", "a", cpu=60), ())]
)
def test_a_promise_is_withdrawn_when_the_stop_of_the_victim_was_lost(job, devices):
    victim = held("victim", "b", "n1", {0: 1 if job.pods[0].request.gpus else 0.6}, cpu=10)

    decided = moves(node("n1", 1), queue("a", 1), queue("b"), victim, reserved(job, "n1", devices=devices))

    assert decided == [Withdraw("job", "job")]


def test_a_promised_device_that_was_not_left_is_exchanged_for_another_of_the_node():
    parts = node("n1", 2), queue("a", 1), queue("b"), held("stays", "b", "n1", {0: 0.6})
    job = reserved(wait("job", "a", 0.6), "n1", devices=("0",))

    assert moves(*parts, terminating("old", "b", "n1", {1: 0.6}), job) == [Reserve("job", "job", "n1", ("1",))]


@pytest.mark.parametrize("away", [{"is_ready": False}, {"is_drained": True}])
def test_a_promise_on_a_node_that_takes_no_work_is_withdrawn(away):
    closed = replace(node("n1", 1), **away)

    assert moves(closed, queue("a", 1), reserved(wait("job", "a", 1), "n1")) == [Withdraw("job", "job")]


def test_a_promise_on_a_node_that_is_gone_is_withdrawn():
    assert moves(node("n2", 1), queue("a", 1), reserved(wait("job", "a", 1), "n1")) == [Withdraw("job", "job")]


def test_a_promise_never_takes_a_queue_beyond_its_limit():
    limited = replace(queue("a", 2), limit=Quota(2000, None, None))
    victim = held("victim", "a", "n1", {0: 1, 1: 1})

    decided = moves(node("n1", 2), node("n2", 2), limited, victim, reserved(wait("job", "a", 1), "n2"))

    assert decided == [Withdraw("job", "job")]


def test_of_two_promises_for_the_room_of_one_the_younger_is_withdrawn():
    old, young = (reserved(wait(name, "a", 1, minute=minute), "n1") for minute, name in enumerate(["b-old", "a-young"]))

    assert moves(node("n1", 1), queue("a", 2), old, young) == [
        Withdraw("a-young", "a-young"),
        Start("b-old", "b-old", "n1", ("0",)),
    ]


def test_room_that_was_promised_is_nobody_elses():
    parts = node("n1", 1), queue("a", 1), queue("b", 1)
    job, thief = reserved(wait("job", "a", 1, minute=5), "n1"), wait("thief", "b", 1, priority=75)

    assert moves(*parts, terminating("old", "b", "n1"), job, thief, actions=ACTIONS) == []
    assert moves(*parts, job, thief, actions=ACTIONS) == [Start("job", "job", "n1", ("0",))]
