"""What comes of the rules of the open-sourced Run:AI scheduler where the reference scenarios do not say it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from scheduler.engine.cycle import ACTIONS, run_cycle
from scheduler.engine.decisions import Reserve, Start, Stop
from scheduler.engine.snapshot import NEARLINE, PARITY, PodState, Policy
from tests.engine.scheduler.world import apply, gang
from tests.factories.scheduler import START, Outcome, decide, held, node, queue, snapshot_of, wait
from tests.scenarios.outcome import outcomes, outcomes_of
from tests.scenarios.running import CYCLE, move_on
from tests.scenarios.running import decide as run_actions

BOTH = pytest.mark.parametrize("policy", [PARITY, NEARLINE], ids=["parity", "nearline"])


def stopped(*parts, policy: Policy = PARITY) -> list[str]:
    """Return the jobs of which a cycle stops anything, in order."""
    return [decision.job_id for decision in run_cycle(snapshot_of(*parts), policy) if isinstance(decision, Stop)]


# --- shares that are moved


@BOTH
def test_a_share_alone_on_its_device_is_moved_to_an_emptier_one_so_that_another_fits(policy):
    jobs = [held("old", "a", "n", {0: 0.3}, minute=1), held("young", "a", "n", {1: 0.6}, minute=2)]

    outcome = decide(
        node("n", 2), queue("a", 2), *jobs, wait("large", "a", 0.8, minute=3), policy=policy, actions=("consolidate",)
    )

    stops = [decision for decision in outcome.decisions if isinstance(decision, Stop)]
    places = {d.job_id: d.devices for d in outcome.decisions if isinstance(d, Reserve)}
    assert [stop.job_id for stop in stops] == ["young"]
    assert places == {"young": ("0",), "large": ("1",)}


def test_a_share_is_moved_off_a_fuller_device_before_a_second_job_is_moved():
    jobs = [
        held("a1", "a", "n", {1: 0.3}, minute=1),
        held("a2", "a", "n", {0: 0.2}, minute=2),
        held("young", "a", "n", {0: 0.3}, minute=3),
    ]

    assert stopped(node("n", 2), queue("a", 2), *jobs, wait("large", "a", 0.8, minute=9), policy=NEARLINE) == ["young"]


@BOTH
def test_a_share_starts_on_an_idle_device_rather_than_wait_for_one_that_all_are_about_to_leave(policy):
    leaving = held("leaving", "a", "n", {0: 0.9})
    leaving = replace(leaving, pods=tuple(replace(pod, state=PodState.TERMINATING) for pod in leaving.pods))

    outcome = decide(node("n", 2), queue("a", 2), leaving, wait("new", "a", 0.5), policy=policy)

    assert outcome.devices == {"new": ("1",)}


# --- who goes first


def test_the_youngest_go_first_even_where_older_ones_on_one_node_would_do():
    nodes = [node("n1", 3), node("n2", 1)]
    jobs = [
        held("oldest", "guest", "n1", {0: 1}, minute=1),
        held("older", "guest", "n1", {1: 1}, minute=2),
        held("young", "guest", "n2", {0: 1}, minute=3),
        held("youngest", "guest", "n1", {2: 1}, minute=4),
    ]
    claim = gang("claim", "owner", 1, 3, 3)

    assert set(stopped(*nodes, queue("owner", 4), queue("guest", 0), *jobs, claim)) == {"youngest", "young", "older"}


# --- jobs that are started and revoked


def contested() -> list:
    """Return a cluster where a job that starts is reclaimed at once: the head of its line hides the claim of `b`."""
    return [
        node("n", 4), queue("a", 2, weight=0, age=3), queue("b", 2, weight=0, age=2), queue("c", 1, weight=1, age=1),
        held("c1", "c", "n", {0: 1}), held("a1", "a", "n", {1: 1, 2: 1}, minute=1),
        wait("a2", "a", 1, minute=4), wait("b1", "b", 0.3, minute=2), gang("b2", "b", 2, 3, 3, priority=75),
    ]  # fmt: skip


def test_without_stored_reservations_nothing_moves_where_a_start_would_be_revoked_in_each_cycle():
    snapshot = snapshot_of(*contested())
    before = outcomes_of(snapshot)

    for _ in range(3):
        session = run_actions(snapshot, PARITY, CYCLE)
        assert outcomes(session) == before
        assert [d for d in run_cycle(snapshot, PARITY) if isinstance(d, Start | Reserve | Stop)] == []
        snapshot = move_on(snapshot, session, dict.fromkeys((job.id for job in snapshot.jobs), True))


def test_without_stored_reservations_a_start_that_was_revoked_for_a_move_comes_in_the_next_cycle():
    snapshot = snapshot_of(
        node("n1", 1, cpu=2), node("n2", 1, cpu=2), queue("a"), gang("cores", "a", 0, 2, 2, rank=(START,)),
        wait("first", "a", 1, minute=1), wait("second", "a", 1, minute=2),
    )  # fmt: skip

    once = Outcome(snapshot, PARITY, tuple(ACTIONS))
    twice = Outcome(apply(snapshot, once.decisions), PARITY, tuple(ACTIONS))

    assert Outcome(snapshot, PARITY, ("allocate",)).nodes == {"cores-0": "n1", "cores-1": "n1", "first": "n2"}
    assert once.nodes == {"first": "n2"}
    assert twice.nodes == {"cores-0": "n2", "cores-1": "n1", "second": "n1"}
    assert not any(isinstance(decision, Stop) for decision in once.decisions + twice.decisions)


# --- promises that are lost


def evictions_with_lost_promises(*parts, rounds: int) -> list[list[str]]:
    """Return what each of some rounds evicts where no reservation outlives its round."""
    snapshot = snapshot_of(*parts)
    evicted = []
    for _ in range(rounds):
        session = run_actions(snapshot, NEARLINE, CYCLE)
        after = outcomes(session)
        running = [pod for job in snapshot.jobs for pod in job.pods if pod.state is PodState.RUNNING]
        evicted.append([pod.id for pod in running if after[pod.id].state != "running"])
        snapshot = move_on(snapshot, session, dict.fromkeys((job.id for job in snapshot.jobs), True))
    return evicted


def behind_a_gang() -> list:
    """Return a cluster where a claim of `a` waits behind a gang that does not fit, and `b` can use all that is free."""
    return [
        node("n", 2), queue("a", 0, weight=1, age=3), queue("b", 1, weight=0, age=2), queue("c", 0, weight=1, age=1),
        gang("c1", "c", 1, 3, 3, rank=(START,)), wait("b1", "b", 2, minute=1),
        gang("a1", "a", 1, 3, 3, rank=(START + timedelta(minutes=2),)), wait("a2", "a", 0.7, minute=3),
    ]  # fmt: skip


@pytest.mark.parametrize("cluster", [contested, behind_a_gang])
def test_nothing_is_evicted_again_and_again_for_a_claim_that_could_have_been_served_first(cluster):
    assert evictions_with_lost_promises(*cluster(), rounds=7) == [[]] * 7


def test_a_job_is_evicted_no_more_often_than_the_policy_allows_though_every_promise_is_lost():
    parts = [
        node("n", 3), queue("owner", 2, weight=0, age=2), queue("guest", 0, weight=1, age=1),
        held("old", "owner", "n", {0: 0.7}), held("firm", "owner", "n", {1: 0.5}, firm=True, priority=100),
        wait("head", "owner", 2, firm=True, priority=100), wait("claim", "owner", 0.7, minute=9),
        wait("borrower", "guest", 0.7, minute=1),
    ]  # fmt: skip

    evicted = evictions_with_lost_promises(*parts, rounds=14)

    assert [name for names in evicted for name in names] == ["borrower"] * NEARLINE.sharing.evictions_at_most
    assert evicted[-3:] == [[], [], []]
