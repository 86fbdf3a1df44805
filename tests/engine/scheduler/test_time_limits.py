"""How long work may run, and leave its GPUs unused."""

from dataclasses import replace
from math import inf

import pytest

from scheduler.engine.cycle import ACTIONS
from scheduler.engine.decisions import Explain, Reserve, Stop, StopCode, Withdraw
from scheduler.engine.snapshot import NEARLINE, PARITY, JobView, PodState, QueueView, WorkRules
from tests.engine.scheduler.world import World, gang
from tests.factories.scheduler import decide, held, node, queue, wait

HOUR = 3600


def project(name: str, gpus: float = 4, *, training=WorkRules(), interactive=WorkRules(), **more) -> QueueView:  # noqa: B008
    return replace(queue(name, gpus), training=training, interactive=interactive, **more)


def at_most(run_h: float | None = None, idle_h: float | None = None) -> WorkRules:
    return WorkRules(None, run_h and run_h * HOUR, idle_h and idle_h * HOUR)


def up(name: str, *, firm: bool = True, ran_s: float | None = None, idle_s: float | None = None, **more) -> JobView:
    """Return a job that holds the first device of n1."""
    return replace(held(name, "a", "n1", {0: 1}, firm=firm, **more), running_for_s=ran_s, idle_for_s=idle_s)


def stops(*parts, policy=NEARLINE) -> list[tuple[str, str]]:
    """Return which pods a whole cycle stops, and by which code."""
    outcome = decide(node("n1", 4), *parts, actions=tuple(ACTIONS), policy=policy)
    return [(d.pod_id, d.code.value) for d in outcome.decisions if isinstance(d, Stop)]


# --- who is stopped


@pytest.mark.parametrize(
    ("ran_s", "idle_s", "code"),
    [
        (8 * HOUR - 1, HOUR - 1, None),
        (8 * HOUR, 0, "time_limit"),
        (9 * HOUR, 0, "time_limit"),
        (HOUR, HOUR, "idle_limit"),
        (8 * HOUR, HOUR, "time_limit"),
        (None, None, None),
        (0, None, None),
    ],
)
@pytest.mark.parametrize("policy", [NEARLINE, PARITY], ids=["nearline", "parity"])
@pytest.mark.parametrize("firm", [True, False], ids=["interactive", "training"])
def test_a_job_is_stopped_once_it_has_lasted_for_as_long_as_it_may(firm, policy, ran_s, idle_s, code):
    rules = {"interactive" if firm else "training": at_most(8, 1)}

    stopped = stops(project("a", **rules), up("job", firm=firm, ran_s=ran_s, idle_s=idle_s), policy=policy)

    assert stopped == ([("job", code)] if code else [])


@pytest.mark.parametrize("firm", [True, False])
def test_the_limits_of_one_kind_of_work_do_not_bind_the_other(firm):
    rules = {"training" if firm else "interactive": at_most(1, 1)}

    assert stops(project("a", **rules), up("job", firm=firm, ran_s=9 * HOUR, idle_s=9 * HOUR)) == []


@pytest.mark.parametrize(
    ("own", "code"),
    [
        (at_most(), "time_limit"),  # as the department rules
        (at_most(idle_h=9), "time_limit"),  # each limit by itself
        (at_most(3), None),
        (at_most(inf), None),
    ],
)
def test_a_project_goes_by_its_own_limit_or_else_by_that_of_its_department(own, code):
    department = project("d", interactive=at_most(2))

    stopped = stops(department, project("a", interactive=own, parent_id="d"), up("job", ran_s=2 * HOUR))

    assert stopped == ([("job", code)] if code else [])


def test_what_waits_is_not_bound_by_limits():
    waiting = replace(wait("job", "a", 1, firm=True), running_for_s=9 * HOUR, idle_for_s=9 * HOUR)

    assert decide(node("n1", 1), project("a", interactive=at_most(1, 1)), waiting, actions=tuple(ACTIONS)).order == [
        "job"
    ]


@pytest.mark.parametrize(
    ("job", "rules", "text"),
    [
        (
            up("job", ran_s=8 * HOUR), {"interactive": at_most(8)},
            "The limit of 8 h for interactive work of a is reached: it has run for 8 h.",
        ),
        (
            up("job", firm=False, ran_s=30 * HOUR), {"training": at_most(24)},
            "The limit of 1 d for training of a is reached: it has run for 1 d 6 h.",
        ),
        (
            up("job", ran_s=8 * HOUR, idle_s=1.5 * HOUR), {"interactive": at_most(idle_h=1)},
            "The limit of 1 h for interactive work of a is reached: it has not used its GPUs for 1 h 30 min.",
        ),
    ],
)  # fmt: skip
def test_the_stop_says_how_long_it_was_and_how_long_it_may_be(job, rules, text):
    outcome = decide(node("n1", 1), project("a", **rules), job, actions=tuple(ACTIONS))

    (stop,) = outcome.decisions
    assert stop == Stop("job", "job", None, stop.code, text, None)


# --- what becomes of the capacity


def test_its_room_is_promised_in_the_same_cycle():
    parts = project("a", 1, interactive=at_most(8)), up("old", ran_s=8 * HOUR), wait("next", "a", 1, firm=True)

    outcome = decide(node("n1", 1), *parts, actions=tuple(ACTIONS))

    assert [type(d) for d in outcome.decisions] == [Stop, Reserve]
    assert outcome.decisions[1] == Reserve("next", "next", "n1")


def test_no_other_is_taken_from_for_whom_that_room_is_enough():
    parts = project("a", 2, interactive=at_most(8)), queue("b"), held("guest", "b", "n1", {1: 1})

    outcome = decide(
        node("n1", 2), *parts, up("old", ran_s=8 * HOUR), wait("next", "a", 1, firm=True), actions=tuple(ACTIONS)
    )

    assert [d.job_id for d in outcome.decisions if isinstance(d, Stop)] == ["old"]


# --- it is over


def elastic(ran_s: float, *states: PodState) -> JobView:
    """Return a job whose pods are in these states, each on a device of n1 if on any."""
    job = gang("e", "a", 1, len(states), 1, running_for_s=ran_s)
    pods = [
        replace(pod, state=state, node_id="n1", devices=() if state is PodState.RESERVED else (str(number),))
        if state is not PodState.PENDING
        else pod
        for number, (pod, state) in enumerate(zip(job.pods, states, strict=True))
    ]
    return replace(job, pods=tuple(pods))


RUNS, WAITS, LEAVES, PROMISED = PodState.RUNNING, PodState.PENDING, PodState.TERMINATING, PodState.RESERVED


@pytest.mark.parametrize(
    ("states", "told"),
    [
        ((RUNS, RUNS, WAITS), [Stop, Stop]),
        ((RUNS, PROMISED, WAITS), [Stop, Withdraw]),
        ((LEAVES, RUNS, WAITS), [Stop]),  # one did not hear of it
    ],
)
def test_nothing_of_it_starts_any_more_and_nothing_of_it_is_said_to_wait(states, told):
    parts = node("n1", 8), project("a", 8, training=at_most(1))

    outcome = decide(*parts, elastic(HOUR, *states), actions=tuple(ACTIONS))

    assert [type(decision) for decision in outcome.decisions] == told


def test_a_job_below_its_limit_goes_on_growing():
    parts = node("n1", 8), project("a", 8, training=at_most(1))

    assert decide(*parts, elastic(HOUR - 1, RUNS, WAITS), actions=tuple(ACTIONS)).order == ["e-1"]


@pytest.mark.parametrize("action", ["consolidate", "reclaim", "preempt"])
def test_who_takes_from_others_neither_finds_it_again_nor_leaves_it_a_place(action):
    parts = [node("n1", 2), node("n2", 2), project("a", 1, training=at_most(1)), queue("b", 3, age=1)]
    over = elastic(HOUR, RUNS, WAITS, WAITS)
    others = [held("x", "b", "n2", {0: 1}), held("y", "a", "n1", {1: 1}, priority=10)]
    wanting = [wait("wide", "b", 2, minute=2), wait("high", "a", 1, priority=75, minute=3)]

    outcome = decide(*parts, over, *others, *wanting, actions=("end_overdue", "allocate", action))

    told = [d for d in outcome.decisions if not isinstance(d, Explain) and d.job_id == "e"]
    assert [(d.pod_id, type(d), d.code) for d in told] == [("e-0", Stop, StopCode.TIME_LIMIT)]
    assert "e" not in outcome.texts


def test_the_cycle_after_changes_nothing_more():
    world = World([node("n1", 1)], [project("a", 1, interactive=at_most(8))])
    world.submit(up("old", ran_s=8 * HOUR), wait("next", "a", 1, firm=True))

    assert world.settle() == 2
    assert (world.evicted, world.running()) == (["old"], {"next"})


def test_of_several_the_oldest_is_stopped_first():
    jobs = [
        replace(held(name, "a", "n1", {number: 1}, firm=True, minute=-number), running_for_s=HOUR)
        for number, name in enumerate(["x", "y", "z"])
    ]

    assert [name for name, _ in stops(project("a", 4, interactive=at_most(1)), *jobs)] == ["z", "y", "x"]
