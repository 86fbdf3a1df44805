"""Jobs that may go to one of several pools, in the order in which they want them."""

from dataclasses import replace

import pytest

from scheduler.engine.cycle import ACTIONS, run_cycle
from scheduler.engine.decisions import Decision, Explain, Reserve, Start, Stop, Withdraw
from scheduler.engine.proof import Remedy, Suggestion
from scheduler.engine.session import Session
from scheduler.engine.snapshot import (
    NEARLINE,
    PARITY,
    GroupView,
    JobView,
    NodeView,
    PodSetView,
    PodState,
    Policy,
    QueueView,
    Quota,
    TopologyConstraint,
    WorkRules,
)
from tests.engine.scheduler.rebuilt_session import differences
from tests.engine.scheduler.world import World, choosing, gang
from tests.factories.scheduler import decide, held, node, queue, snapshot_of, wait

AB = ("a", "b")
Q = queue("q", 16)


def there(name: str, gpus: int, pool: str = "", **more) -> NodeView:
    """Return a node of the pool that its name begins with, unless told otherwise."""
    return replace(node(name, gpus, resource=pool or name[0]), **more)


def one(name: str = "job", gpus: float = 1, queue_name: str = "q", pools: tuple[str, ...] = AB, **more) -> JobView:
    return choosing(wait(name, queue_name, gpus, **more), *pools)


def some(name: str, gpus: float, count: int, least: int, pools: tuple[str, ...] = AB, **more) -> JobView:
    return choosing(gang(name, "q", gpus, count, least, **more), *pools)


def full(name: str, gpus: int, *, of: str = "q", firm: bool = True, leaves: bool = False) -> tuple[NodeView, JobView]:
    """Return a node, and the job that holds all its devices."""
    job = held(f"on-{name}", of, name, dict.fromkeys(range(gpus), 1), firm=firm)
    state = PodState.TERMINATING if leaves else PodState.RUNNING
    return there(name, gpus), replace(job, pods=(replace(job.pods[0], state=state),))


def moves(*parts, policy: Policy = NEARLINE, actions=tuple(ACTIONS)) -> list[Decision]:
    return [d for d in run_cycle(snapshot_of(*parts), policy, actions) if not isinstance(d, Explain)]


def places(*parts, **more) -> dict[str, tuple[type, str]]:
    """Return what each pod got: started or promised, and on which node."""
    return {d.pod_id: (type(d), d.node_id) for d in moves(*parts, **more) if isinstance(d, Start | Reserve)}


# --- one pod


@pytest.mark.parametrize("policy", [NEARLINE, PARITY], ids=["nearline", "parity"])
@pytest.mark.parametrize(
    ("a", "b", "place"),
    [
        ([there("a1", 8)], full("b1", 1), (Start, "a1")),
        ([there("a1", 8)], [there("b1", 1)], (Start, "a1")),  # the first, though the second would be filled
        (full("a1", 1), [there("b1", 8)], (Start, "b1")),
        (full("a1", 1, leaves=True), [there("b1", 8)], (Start, "b1")),  # now comes before the first
        (full("a1", 1, leaves=True), full("b1", 1, leaves=True), (Reserve, "a1")),
        (full("a1", 1), full("b1", 1, leaves=True), (Reserve, "b1")),
        (full("a1", 1), full("b1", 1), None),
        ([], [there("b1", 1)], (Start, "b1")),
    ],
)
def test_the_first_pool_with_room_now_is_taken_then_the_first_where_room_is_coming(policy, a, b, place):
    assert places(*a, *b, Q, one(), there("c1", 8), policy=policy) == ({"job": place} if place else {})


def test_another_order_is_another_choice():
    nodes = there("a1", 1), there("b1", 1), there("c1", 1)

    assert places(*nodes, Q, one(pools=("c", "a"))) == {"job": (Start, "c1")}


def test_a_share_that_fits_beside_another_goes_to_the_first_pool_all_the_same():
    parts = there("a1", 1), there("b1", 1), held("half", "q", "b1", {0: 0.5})

    assert places(*parts, Q, one(gpus=0.5)) == {"job": (Start, "a1")}


def test_jobs_that_want_the_pools_in_opposite_orders_each_get_their_own():
    nodes = there("a1", 1), there("b1", 1)

    got = places(*nodes, Q, one("x", pools=("b", "a")), one("y", pools=("a", "b"), minute=1))

    assert got == {"x": (Start, "b1"), "y": (Start, "a1")}


def test_who_finds_no_room_does_not_stand_for_those_with_other_pools():
    parts = *full("a1", 1), there("b1", 1), Q

    assert places(*parts, one("x", pools=("a",)), one("y", pools=("b",), minute=1)) == {"y": (Start, "b1")}


def test_of_the_nodes_in_its_pools_only_those_serve_that_the_project_allows():
    labelled = there("b1", 1, labels={"type": "new"})
    rule = replace(Q, training=WorkRules(frozenset({("type", "new")})))

    assert places(there("a1", 8), labelled, there("b2", 1), rule, one()) == {"job": (Start, "b1")}


# --- gangs


def test_a_gang_goes_to_the_first_pool_that_holds_all_of_it():
    nodes = there("a1", 2), there("b1", 2), there("b2", 2)

    assert places(*nodes, Q, some("g", 1, 3, 3)) == {
        f"g-{i}": (Start, node) for i, node in enumerate(["b1", "b1", "b2"])
    }


def test_a_gang_is_never_spread_over_two_pools():
    assert places(there("a1", 2), there("b1", 2), Q, some("g", 1, 3, 3)) == {}


def test_a_gang_that_would_have_to_wait_for_some_of_its_room_starts_in_the_next_pool():
    parts = there("a1", 1), *full("a2", 1, leaves=True), there("b1", 2)

    assert places(*parts, Q, some("g", 1, 2, 2)) == {"g-0": (Start, "b1"), "g-1": (Start, "b1")}


def test_a_gang_is_promised_all_of_its_room_in_one_pool():
    parts = there("a1", 1), *full("a2", 1, leaves=True), there("b1", 1)

    assert places(*parts, Q, some("g", 1, 2, 2)) == {"g-0": (Reserve, "a1"), "g-1": (Reserve, "a2")}


def test_a_gang_stays_in_one_rack_of_one_pool():
    racks = [
        there("a1", 1, labels={"rack": "r1"}),
        there("a2", 1, labels={"rack": "r2"}),
        there("b1", 8, labels={"rack": "r1"}),
    ]
    rack = GroupView((PodSetView("", 2, TopologyConstraint(("rack",), "rack")),))

    got = places(*racks, Q, replace(some("g", 1, 2, 2), structure=rack))

    assert got == {"g-0": (Start, "b1"), "g-1": (Start, "b1")}


def test_an_elastic_job_grows_only_where_it_has_begun():
    nodes = there("a1", 2), there("b1", 8)

    assert places(*nodes, Q, some("g", 1, 4, 2)) == {"g-0": (Start, "a1"), "g-1": (Start, "a1")}


@pytest.mark.parametrize(("state", "devices"), [(PodState.RUNNING, ("0",)), (PodState.RESERVED, ())])
def test_the_rest_follows_where_a_part_is_up_already(state, devices):
    job = some("g", 1, 2, 1)
    job = replace(job, pods=(replace(job.pods[0], state=state, node_id="b1", devices=devices), job.pods[1]))

    assert places(there("a1", 8), there("b1", 2), Q, job)["g-1"] == (Start, "b1")
    assert "g-1" not in places(there("a1", 8), there("b1", 1), Q, job)


def test_a_launcher_and_its_workers_go_to_the_same_pool():
    tree = GroupView((PodSetView("launcher", 1), PodSetView("workers", 2)))
    job = some("g", 1, 3, 3)
    names = "launcher", "workers", "workers"
    pods = tuple(replace(pod, pod_set=name) for pod, name in zip(job.pods, names, strict=True))

    got = places(there("a1", 2), there("b1", 3), Q, replace(job, pods=pods, structure=tree))

    assert set(got.values()) == {(Start, "b1")}


# --- promises


def reserved(job: JobView, node_id: str) -> JobView:
    return replace(job, pods=(replace(job.pods[0], state=PodState.RESERVED, node_id=node_id),))


def test_a_promise_is_kept_where_it_was_given_though_a_better_pool_has_room_now():
    job = reserved(one(), "b1")

    assert moves(there("a1", 1), *full("b1", 1, leaves=True), Q, job) == []
    assert moves(there("a1", 1), there("b1", 1), Q, job) == [Start("job", "job", "b1", ("0",))]


def test_a_promise_that_cannot_come_is_exchanged_for_room_in_another_pool():
    closed = there("a1", 1, is_drained=True)

    assert moves(closed, there("b1", 1), Q, reserved(one(), "a1")) == [Start("job", "job", "b1", ("0",))]
    assert moves(closed, *full("b1", 1), Q, reserved(one(), "a1")) == [Withdraw("job", "job")]


# --- taking from others


def runs(job: JobView, node_name: str, *devices: int) -> JobView:
    return replace(job, pods=held(job.id, "q", node_name, dict.fromkeys(devices, 1)).pods)


def stops_and_plans(*parts, **more) -> list[tuple[type, str, str | None]]:
    return [
        (type(d), d.pod_id, d.node_id if isinstance(d, Reserve) else d.moves_to)
        for d in moves(*parts, **more)
        if isinstance(d, Stop | Reserve)
    ]


GUEST = queue("guest", 0)


@pytest.mark.parametrize(
    ("a", "b", "victim", "where"),
    [
        (full("a1", 1, of="guest", firm=False), full("b1", 1, of="guest", firm=False), "on-a1", "a1"),
        (full("a1", 1), full("b1", 1, of="guest", firm=False), "on-b1", "b1"),
    ],
)
@pytest.mark.parametrize("policy", [NEARLINE, PARITY], ids=["nearline", "parity"])
def test_room_is_reclaimed_in_the_first_pool_where_that_is_possible(policy, a, b, victim, where):
    got = stops_and_plans(*a, *b, queue("q", 2, age=1), GUEST, one(), policy=policy)

    assert got == [(Stop, victim, None), (Reserve, "job", where)]


def test_of_many_alike_as_many_as_possible_reclaim_in_the_first_pool():
    nodes = [part for name in ("a1", "a2", "b1", "b2", "b3", "b4") for part in full(name, 1, of="guest", firm=False)]
    jobs = [one(f"job{number}", minute=number) for number in range(5)]

    got = stops_and_plans(*nodes, queue("q", 5, age=1), GUEST, *jobs)

    where = {pod_id: place for kind, pod_id, place in got if kind is Reserve}
    assert [where[job.id][0] for job in jobs] == ["a", "a", "b", "b", "b"]


def test_a_gang_reclaims_in_the_first_pool_that_can_hold_all_of_it():
    nodes = [part for name in ("a1", "b1", "b2") for part in full(name, 2, of="guest", firm=False)]

    got = stops_and_plans(*nodes, queue("q", 4, age=1), GUEST, some("g", 2, 2, 2))

    assert set(got) == {(Stop, "on-b1", None), (Stop, "on-b2", None), (Reserve, "g-0", "b1"), (Reserve, "g-1", "b2")}


def test_the_victims_of_a_gang_are_all_in_its_pool():
    nodes = [part for name in ("a1", "a2", "b1", "b2") for part in full(name, 2, of="guest", firm=False)]

    got = stops_and_plans(*nodes, queue("q", 4, age=1), GUEST, some("g", 2, 2, 2, pools=("b", "a")))

    assert {pod_id for kind, pod_id, _ in got if kind is Stop} == {"on-b1", "on-b2"}
    assert {where for kind, _, where in got if kind is Reserve} == {"b1", "b2"}


@pytest.mark.parametrize("policy", [NEARLINE, PARITY], ids=["nearline", "parity"])
def test_who_is_in_another_pool_is_not_moved_about_for_a_gang(policy):
    names = [f"a{number}" for number in range(8)]
    nodes = [there(name, 1) for name in names] + [there("c1", 4), there("c2", 4)]
    guests = [runs(one(f"on-{name}", queue_name="guest", pools=("a",)), name, 0) for name in names]
    aside = [runs(one(f"in-{name}", queue_name="guest", pools=("c",), minute=9), name, 0) for name in ("c1", "c2")]
    parts = *nodes, *guests, *aside, queue("q", 8, age=1), GUEST

    got = stops_and_plans(*parts, some("g", 1, 8, 8, pools=("a",)), policy=policy)

    assert {pod_id for kind, pod_id, _ in got if kind is Stop} == {job.id for job in guests}


def test_where_only_a_limit_is_in_the_way_those_in_other_pools_make_room_too():
    limited = replace(queue("q", 4), limit=Quota(1000))
    low = held("low", "q", "a1", {0: 1}, priority=10)

    got = stops_and_plans(there("a1", 1), there("b1", 1), limited, low, one("high", pools=("b",), priority=75))

    assert got == [(Stop, "low", None), (Reserve, "high", "b1")]


def test_who_has_the_higher_priority_takes_room_in_the_first_pool():
    parts = [*full("a1", 1, firm=False), *full("b1", 1, firm=False)]

    got = stops_and_plans(*parts, queue("q", 2), one(priority=75))

    assert got == [(Stop, "on-a1", None), (Reserve, "job", "a1")]


def test_others_are_moved_together_in_the_pool_where_that_makes_room():
    spread = [held("x", "q", "b1", {0: 1}, minute=1), held("y", "q", "b2", {0: 1}, minute=2)]

    got = stops_and_plans(*full("a1", 2), there("b1", 2), there("b2", 2), Q, *spread, one("wide", 2, minute=3))

    assert [entry for entry in got if entry[0] is Stop] == [(Stop, "y", "b1")]
    assert (Reserve, "wide", "b2") in got


def test_who_must_go_finds_another_place_in_any_of_his_pools():
    mover = runs(one("mover", minute=2), "a1", 0)

    got = stops_and_plans(there("a1", 1), there("b1", 1), Q, mover, one("bound", pools=("a",), minute=1))

    assert got == [(Stop, "mover", "b1"), (Reserve, "mover", "b1"), (Reserve, "bound", "a1")]


def test_who_need_not_go_stays_in_his_pool_though_he_would_rather_be_elsewhere():
    """The younger one is tried first, is not enough, and finds his own place again."""
    younger, older = runs(one("younger", minute=2), "b1", 0), runs(one("older", 2, pools=("b",)), "b1", 1, 2)

    got = stops_and_plans(
        there("a1", 1), there("b1", 3), Q, younger, older, one("high", 2, pools=("b",), priority=75), policy=PARITY
    )

    assert got == [(Stop, "older", None), (Reserve, "high", "b1")]


# --- cycles that follow each other


def test_a_gang_that_reclaims_comes_up_in_one_pool_and_then_all_is_at_rest():
    world = World([there("a1", 2), there("b1", 2), there("b2", 2)], [queue("q", 4, age=1), GUEST])
    world.submit(*[one(f"guest{i}", 2, "guest", pools=(pool,)) for i, pool in enumerate("abb")])
    world.settle()
    assert world.running() == {"guest0", "guest1", "guest2"}

    world.submit(some("g", 2, 2, 2))
    world.settle()

    assert world.running() == {"g", "guest0"}
    assert sorted(world.evicted) == ["guest1", "guest2"]
    assert {pod.node_id for job in world.snapshot.jobs if job.id == "g" for pod in job.pods} == {"b1", "b2"}
    assert not world.cycle()


def test_an_attempt_leaves_nothing_behind():
    session = Session(
        snapshot_of(*full("a1", 1), *full("b1", 1, of="guest", firm=False), Q, GUEST, one("x", 2)), NEARLINE
    )
    before = [pod.shape for job in session.jobs.values() for pod in job.pods]

    for action in ACTIONS.values():
        action(session)

    assert [pod.shape for job in session.jobs.values() for pod in job.pods] == before
    session.change([])
    assert differences(session) == []


# --- capacity that is kept for big work

POLICY = replace(NEARLINE, reserve_after_s=600, reserve_for_s=1800)


def kept_for(*parts) -> dict[str, list[str]]:
    session = Session(snapshot_of(*parts), POLICY)
    for action in ACTIONS.values():
        action(session)
    return {job.view.id: [row.view.name for row in rows] for job, rows in session.reserved_nodes.items()}


def test_room_for_a_big_job_is_kept_in_its_first_pool_and_for_a_second_one_in_the_next():
    parts = *full("a1", 2), *full("b1", 2), Q
    big = [some(name, 2, 1, 1, waited_s=700, rank=(rank,)) for rank, name in enumerate(["first", "second", "third"])]

    assert kept_for(*parts, *big) == {"first": ["a1"], "second": ["b1"]}


def test_a_pool_that_is_too_small_even_when_empty_is_passed_over():
    parts = *full("a1", 1), *full("b1", 2), Q

    assert kept_for(*parts, some("g", 2, 1, 1, waited_s=700)) == {"g": ["b1"]}


# --- why it waits


def explain(*parts, policy: Policy = NEARLINE) -> Explain:
    (found,) = [d for d in decide(*parts, policy=policy).decisions if isinstance(d, Explain)]
    return found


def test_the_answer_says_of_each_pool_why():
    found = explain(*full("a1", 1), there("b1", 1), Q, one(gpus=2))

    assert (found.code, found.text) == (
        "never_fits",
        (
            "finds capacity in none of its pools. "
            "a: never fits: needs 2 GPUs on a; most on any node is 1 GPU (a1). "
            "b: never fits: needs 2 GPUs on b; most on any node is 1 GPU (b1)."
        ),
    )


def test_the_pool_that_is_nearest_to_serving_it_decides():
    found = explain(
        there("a1", 1), *full("b1", 2), there("c1", 8, is_drained=True), Q, one(gpus=2, pools=("a", "b", "c", "d"))
    )

    assert (found.code, found.text) == (
        "no_room",
        (
            "finds capacity in none of its pools. "
            "a: never fits: needs 2 GPUs on a; most on any node is 1 GPU (a1). "
            "b: needs 2 GPUs on b; most free on one node is 0 GPUs (b1). "
            "c: drained: c takes no new work on c1 until an admin opens it again. "
            "d: resource unreachable: it has not reported any node yet."
        ),
    )
    assert [name for name, _ in found.proof.pools] == ["a", "b", "c", "d"]
    assert [node.node for node in found.proof.nearest] == ["b1"]
    assert found.advice == "ask for at most 1 GPU, or wait for 2 GPUs more on b1, or open c1"


def test_a_pool_that_is_not_among_them_is_pointed_out():
    found = explain(*full("a1", 1), *full("b1", 1), there("c1", 1), Q, one())

    assert found.proof.suggestions == (
        *[Suggestion(Remedy.WAIT_FOR_NODE, name, "gpu", 1000) for name in ("a1", "b1")],
        Suggestion(Remedy.DROP_POOL, "a, b"),
    )


def test_a_quota_is_named_without_the_pools():
    tight: QueueView = queue("q", 1)

    found = explain(*full("a1", 1), there("b1", 4), tight, one(firm=True))

    assert (found.code, found.text) == (
        "beyond_quota",
        (
            "is not preemptible, so it must stay within the quota: "
            "it needs 1 GPU, the quota of q is 1 GPU, and its jobs that are not preemptible hold 1 GPU"
        ),
    )


def test_what_has_begun_is_told_of_its_pool_only():
    job = some("g", 1, 2, 1)
    job = replace(job, pods=(replace(job.pods[0], state=PodState.RUNNING, node_id="b1", devices=("0",)), job.pods[1]))

    assert (
        explain(there("a1", 8), there("b1", 1), Q, job).text == "needs 1 GPU on b; most free on one node is 0 GPUs (b1)"
    )


def test_jobs_with_other_choices_are_told_other_things():
    parts = *full("a1", 1), *full("b1", 1), Q, one("x"), one("y", pools=("a",)), one("z", pools=("b", "a"))

    texts = decide(*parts).texts

    in_a, in_b = (f"needs 1 GPU on {name}; most free on one node is 0 GPUs ({name}1)" for name in "ab")
    assert texts == {
        "x": f"finds capacity in none of its pools. a: {in_a}. b: {in_b}.",
        "y": in_a,
        "z": f"finds capacity in none of its pools. b: {in_b}. a: {in_a}.",
    }
