"""When waiting jobs start: the scheduler run forward over the ends of those that run."""

import math
import os
import random
from dataclasses import replace

import pytest

from scheduler.engine.cycle import ACTIONS
from scheduler.engine.decisions import StopCode
from scheduler.engine.forward import APART, Arrival, Forward, Holder, PlannedStop
from scheduler.engine.run_times import RunTimes, each_once
from scheduler.engine.snapshot import NEARLINE, GroupView, PodSetView, PodState, PodView, Snapshot, WorkRules
from tests.engine.scheduler.timed_cluster import Cluster
from tests.engine.scheduler.world import gang
from tests.factories.scheduler import held, needs, node, queue, wait

HOUR = 3600.0


def forward(jobs, lengths, *, nodes=None, queues=None):
    snapshot = Snapshot(nodes or [node("n1", 2)], queues or [queue("team", 2)], jobs)
    run_times = {
        name: RunTimes(each_once(*(each if isinstance(each, tuple) else (each,)))) for name, each in lengths.items()
    }
    return Forward(snapshot, NEARLINE, run_times)


def forecast(jobs, lengths, *, wanted=None, **world):
    return forward(jobs, lengths, **world).starts(wanted)


def test_a_job_starts_at_the_known_end_of_the_one_that_holds_its_gpus():
    told = forecast([held("a", "team", "n1", {0: 1, 1: 1}), wait("b", "team", 2)], {"a": HOUR, "b": HOUR})

    assert (told["b"].likely_s, told["b"].late_s, told["b"].node_ids) == (HOUR, HOUR, ("n1",))
    assert told["b"].holders == (Holder("a", HOUR, 2000, is_ahead=False),)


def test_jobs_ahead_in_line_start_first_and_their_ends_count_too():
    jobs = [held("a", "team", "n1", {0: 1, 1: 1}), wait("b", "team", 2, minute=1), wait("c", "team", 2, minute=2)]

    told = forecast(jobs, {"a": HOUR, "b": 2 * HOUR, "c": HOUR})

    assert (told["b"].ahead, told["c"].ahead) == (0, 1)
    assert told["c"].likely_s == 3 * HOUR
    assert told["c"].holders == (Holder("b", 3 * HOUR, 2000, is_ahead=True),)


def test_likely_and_late_are_quantiles_of_the_lengths_that_a_run_may_have():
    lengths = tuple(float(minute) for minute in range(60, 1260, 60))

    told = forecast([held("a", "team", "n1", {0: 1, 1: 1}), wait("b", "team", 2)], {"a": lengths, "b": HOUR})

    assert (told["b"].likely_s, told["b"].late_s) == (600, 1080)


def test_of_several_holders_the_first_end_counts_and_not_the_slowest():
    jobs = [held(f"h{i}", "team", "n1", {i: 1}) for i in range(8)] + [wait("b", "team", 1)]
    lengths = tuple(float(number) for number in range(10, 1010, 10))

    told = forecast(
        jobs, {f"h{i}": lengths for i in range(8)} | {"b": HOUR}, nodes=[node("n1", 8)], queues=[queue("team", 8)]
    )

    assert told["b"].likely_s < 200
    assert told["b"].late_s < 400


def test_runs_of_one_kind_are_partly_long_or_short_together():
    """Nine jobs run one after the other, each for one hour to ten, before the last one starts."""
    ahead = [f"b{number}" for number in range(9)]
    jobs = [held(ahead[0], "team", "n1", {0: 1, 1: 1})]
    jobs += [wait(name, "team", 2, minute=minute) for minute, name in enumerate([*ahead[1:], "last"])]
    snapshot = Snapshot([node("n1", 2)], [queue("team", 2)], jobs)
    hours = [HOUR * hour for hour in range(1, 11)]

    one_kind = Forward(snapshot, NEARLINE, dict.fromkeys(ahead, RunTimes(each_once(*hours)))).starts({"last"})["last"]
    nine_kinds = Forward(snapshot, NEARLINE, {name: RunTimes(each_once(*hours)) for name in ahead}).starts({"last"})[
        "last"
    ]

    assert (one_kind.likely_s / HOUR, one_kind.late_s / HOUR) == (44, 73)
    assert (nine_kinds.likely_s / HOUR, nine_kinds.late_s / HOUR) == (50, 60)


def test_a_job_behind_one_of_unknown_length_has_no_forecast():
    told = forecast([held("a", "team", "n1", {0: 1, 1: 1}), wait("b", "team", 2)], {"b": HOUR})

    assert told["b"].likely_s == math.inf


def test_a_limit_of_time_of_the_holder_is_an_end():
    snapshot = Snapshot(
        [node("n1", 2)], [queue("team", 2)], [held("a", "team", "n1", {0: 1, 1: 1}), wait("b", "team", 2)]
    )

    told = Forward(snapshot, NEARLINE, {"a": RunTimes(ran_s=600, limit_s=HOUR)}).starts()

    assert told["b"].likely_s == 3000


def test_a_gang_starts_when_the_last_of_its_pods_finds_capacity():
    jobs = [held("a", "team", "n1", {0: 1}), held("b", "team", "n1", {1: 1}), gang("g", "team", 1, 2, 2)]

    told = forecast(jobs, {"a": HOUR, "b": 2 * HOUR, "g": HOUR})

    assert told["g"].likely_s == 2 * HOUR


def test_who_is_stopped_for_a_job_is_told():
    jobs = [held("a", "borrows", "n1", {0: 1, 1: 1}), wait("b", "owns", 2)]

    told = forecast(jobs, {"a": HOUR, "b": HOUR}, queues=[queue("borrows", 0), queue("owns", 2)])

    assert told["b"].likely_s == 0
    assert told["b"].stops == (PlannedStop("a", 0.0, StopCode.RECLAIMED),)


def test_what_was_stopped_waits_again_and_runs_anew():
    jobs = [held("a", "borrows", "n1", {0: 1, 1: 1}), wait("b", "owns", 2), wait("c", "borrows", 2, minute=1)]

    told = forecast(jobs, {"a": HOUR, "b": HOUR, "c": HOUR}, queues=[queue("borrows", 0), queue("owns", 2)])

    assert told["c"].likely_s == 2 * HOUR


def test_a_job_that_runs_now_and_runs_anew_later_is_not_ahead_of_the_one_that_stops_it():
    jobs = [
        *(held("a", "borrows", "n1", {0: 1, 1: 1}), held("q", "owns", "n1", {2: 1, 3: 1})),
        *(wait("b", "owns", 4), wait("c", "borrows", 4, minute=1)),
    ]
    lengths = {"a": 10 * HOUR, "q": HOUR, "b": HOUR, "c": HOUR}

    told = forecast(jobs, lengths, nodes=[node("n1", 4)], queues=[queue("borrows", 0), queue("owns", 4)])

    assert told["b"].stops == (PlannedStop("a", HOUR, StopCode.RECLAIMED),)
    assert [(each.job_id, each.is_ahead) for each in told["b"].holders] == [("a", False), ("q", False)]
    assert (told["b"].ahead, told["c"].ahead) == (0, 1)


def test_what_terminates_now_is_free_at_once():
    leaving = held("a", "team", "n1", {0: 1, 1: 1})
    pod = replace(leaving.pods[0], state=PodState.TERMINATING)

    told = forecast([replace(leaving, pods=(pod,)), wait("b", "team", 2, minute=-1)], {"a": HOUR, "b": HOUR})

    assert told["b"].likely_s == 0


def test_who_is_stopped_at_the_moment_of_his_start_has_not_started_then():
    jobs = [
        held("a", "team", "n1", {0: 1}),
        held("b", "team", "n1", {1: 1}, firm=True),
        wait("first", "team", 2, priority=90),
        wait("c", "team", 1, minute=1),
    ]
    snapshot = Snapshot([node("n1", 2)], [queue("team", 2)], jobs)
    run_times = {
        name: RunTimes(each_once(length_s)) for name, length_s in {"a": 10 * HOUR, "b": HOUR, "first": 600.0}.items()
    }

    told = Forward(snapshot, NEARLINE, {**run_times, "c": RunTimes(each_once(HOUR))}, grain=0.0).starts({"c"})

    assert told["c"].likely_s == HOUR + 600


def test_who_starts_next_is_told_in_the_order_in_which_others_end():
    jobs = [
        held("a", "team", "n1", {0: 1}),
        held("b", "team", "n2", {0: 1}),
        wait("c", "team", 1),
        wait("d", "team", 1),
    ]
    snapshot = Snapshot([node("n1", 1), node("n2", 1)], [queue("team", 2)], jobs)
    lengths_s = {"a": 750.0, "b": 820.0, "c": HOUR, "d": HOUR}
    run_times = {name: RunTimes(each_once(length_s)) for name, length_s in lengths_s.items()}

    told = Forward(snapshot, NEARLINE, run_times).starts()

    assert [(told[name].likely_s, told[name].node_ids) for name in "cd"] == [(750.0, ("n1",)), (820.0, ("n2",))]


def test_a_job_for_which_running_work_may_be_moved_later_starts_then():
    jobs = [held("a", "team", "n1", {0: 1}), held("b", "team", "n2", {0: 1}), wait("c", "team", 2)]
    snapshot = Snapshot([node("n1", 2), node("n2", 2)], [queue("team", 4)], jobs)
    run_times = {name: RunTimes(each_once(HOUR)) for name in "abc"}

    told = Forward(snapshot, NEARLINE, run_times, moves_in_s=300.0).starts()["c"]

    assert told.likely_s == 300


def test_moves_are_looked_for_again_only_once_something_has_happened(monkeypatch):
    snapshot = Snapshot([node("n1", 2)], [queue("team", 4)], [held("a", "team", "n1", {0: 1}), wait("c", "team", 3)])
    policy = replace(NEARLINE, sharing=replace(NEARLINE.sharing, consolidate_every_s=300.0))
    consolidate, looks = ACTIONS["consolidate"], []

    def look(session):
        looks.append(session)
        consolidate(session)

    monkeypatch.setitem(ACTIONS, "consolidate", look)

    told = Forward(snapshot, policy, {"a": RunTimes(each_once(HOUR))}).starts()["c"]

    assert (told.likely_s, len(looks)) == (math.inf, 2)  # now and when a ends


def test_a_job_of_which_one_replica_is_moved_goes_on_until_its_end():
    pods = [held(f"e-{name}", "team", name, {0: 1}).pods[0] for name in ("n1", "n2")]
    elastic = replace(gang("e", "team", 1, 2, least=1), pods=tuple(pods))

    told = forecast(
        [elastic, wait("c", "team", 2), wait("d", "team", 2, minute=1)],
        {"e": HOUR, "c": 2 * HOUR, "d": 60.0},
        nodes=[node("n1", 2), node("n2", 2)],
        queues=[queue("team", 4)],
    )

    assert (told["c"].likely_s, told["c"].stops) == (0, (PlannedStop("e", 0.0, StopCode.MOVED, goes_on=True),))
    assert told["d"].likely_s == HOUR


def test_whom_a_job_stops_are_those_too_that_its_victims_stop_at_the_same_moment():
    first = replace(held("a", "team", "n1", {0: 1}), priority=80)
    second = replace(held("b", "team", "n2", {0: 1}), priority=20)
    nodes, queues = [node("n1", 2), node("n2", 1)], [queue("team", 1), queue("owner", 2)]
    run_times = {name: RunTimes(each_once(HOUR)) for name in "abc"}

    exact = Forward(Snapshot(nodes, queues, [first, second, wait("c", "owner", 2)]), NEARLINE, run_times, grain=0.0)

    assert exact.starts({"c"})["c"].stops == (
        PlannedStop("a", 0.0, StopCode.RECLAIMED),
        PlannedStop("b", 0.0, StopCode.PREEMPTED),
    )


@pytest.mark.parametrize(("count", "goes_on"), [(1, True), (2, True), (3, False)])
def test_who_gives_back_replicas_again_and_again_is_named_once_with_what_becomes_of_it(count, goes_on):
    pods = tuple(held(f"e-{i}", "team", "n1", {i: 1}).pods[0] for i in range(4))
    elastic = replace(gang("e", "team", 1, 4, least=2), pods=pods)
    growing = gang("c", "owner", 1, count, least=1)
    snapshot = Snapshot([node("n1", 4)], [queue("team"), queue("owner", count)], [elastic, growing])

    exact = Forward(snapshot, NEARLINE, {name: RunTimes(each_once(HOUR)) for name in "ec"}, grain=0.0)

    assert exact.starts({"c"})["c"].stops == (PlannedStop("e", 0.0, StopCode.RECLAIMED, goes_on=goes_on),)


def test_the_wait_of_a_job_whose_data_comes_counts_from_its_submission():
    jobs = [held("a", "team", "n1", {0: 1})]
    snapshot = Snapshot([node("n1", 2)], [queue("team", 2)], jobs)
    big = replace(wait("big", "team", 2), waited_s=0.0)
    starts = []
    for since_s in (-NEARLINE.reserve_after_s, 0.0):
        arrivals = {
            "big": Arrival(10.0, big, since_s),
            "small": Arrival(10.0, wait("small", "team", 1, minute=1), 0.0),
        }
        run_times = {
            "a": RunTimes(each_once(60.0)),
            "big": RunTimes(each_once(60.0)),
            "small": RunTimes(each_once(HOUR)),
        }
        told = Forward(snapshot, NEARLINE, run_times, arrivals=arrivals).starts()
        starts.append((told["big"].likely_s, told["small"].likely_s))

    assert starts == [(60, 120), (10 + HOUR, 10)]


def test_a_wait_goes_on_from_when_it_began_and_is_told_at_full_minutes_of_the_clock():
    at_s, least_s = 1000 * HOUR + 21, NEARLINE.reserve_after_s
    big = replace(wait("big", "team", 2), waited_s=least_s - 420, waits_since=at_s - 21 - (least_s - 420) - 18)
    jobs = [held("a", "team", "n1", {0: 1}), held("b", "team", "n1", {1: 1}), big, wait("small", "team", 1, minute=1)]
    lengths = {"b": 1000.0, "big": 60.0, "small": HOUR}
    starts = []
    for ends_s in (398.0, 399.0):  # a second before a full minute, and at it
        snapshot = Snapshot([node("n1", 2)], [queue("team", 2)], jobs)
        run_times = {name: RunTimes(each_once(length_s)) for name, length_s in (lengths | {"a": ends_s}).items()}
        starts.append(Forward(snapshot, NEARLINE, run_times, at_s=at_s).starts()["small"].likely_s)

    assert starts == [398, 1060]


def test_who_waits_for_reserved_nodes_starts_once_they_are_reserved_no_more():
    big = replace(wait("big", "team", 2), waited_s=0.0, waits_since=0.0)
    jobs = [held("a", "team", "n1", {0: 1}), held("b", "team", "n1", {1: 1}), big, wait("small", "team", 1, minute=1)]

    told = forecast(jobs, {"a": 1000.0, "b": 3 * HOUR, "big": 60.0, "small": HOUR})

    assert (told["small"].likely_s, told["big"].likely_s) == (NEARLINE.reserve_after_s + HOUR, 3 * HOUR)


def test_nodes_are_reserved_for_a_big_job_too_that_is_stopped_and_waits_again():
    jobs = [held("big", "team", "n1", {0: 1, 1: 1}), *(wait(name, "team", 1, priority=90) for name in "ab")]
    jobs += [wait("small", "team", 1, minute=1)]

    told = forecast(jobs, {"a": 1000.0, "b": 3 * HOUR, "big": 60.0, "small": HOUR})

    assert (told["a"].likely_s, told["b"].likely_s) == (0, 0)
    assert told["small"].likely_s == NEARLINE.reserve_after_s + HOUR


def test_only_what_is_wanted_is_forecast_and_the_passes_leave_nothing_behind():
    jobs = [held("a", "team", "n1", {0: 1, 1: 1}), wait("b", "team", 2, minute=1), wait("c", "team", 2, minute=2)]
    lengths = {"a": (60.0, 600.0), "b": (60.0, 600.0), "c": HOUR}

    alone = forecast(jobs, lengths, wanted={"c"})

    assert alone == {"c": forecast(jobs, lengths)["c"]}


def test_a_job_that_is_tried_is_forecast_without_a_trace():
    world = forward([held("a", "team", "n1", {0: 1, 1: 1}), wait("b", "team", 2, minute=1)], {"a": HOUR, "b": HOUR})
    before = world.starts()

    tried = world.start_of(wait("t", "team", 2, minute=2), RunTimes(each_once(60.0)))

    assert (tried.likely_s, tried.ahead) == (2 * HOUR, 1)
    assert world.starts() == before


def test_a_job_that_comes_later_or_instead_of_another_one_is_forecast():
    world = forward([held("a", "team", "n1", {0: 1, 1: 1}), wait("b", "team", 2, minute=1)], {"a": HOUR, "b": HOUR})
    again = wait("t", "team", 2, minute=2)

    assert world.start_of(again, RunTimes(each_once(60.0)), instead_of="b").likely_s == HOUR
    assert world.start_of(again, RunTimes(each_once(60.0)), in_s=3 * HOUR).likely_s == 3 * HOUR


def test_of_jobs_that_are_tried_together_none_is_given_the_place_of_another_one():
    world = forward([held("a", "team", "n1", {0: 1}), wait("b", "team", 1, minute=1)], {"a": HOUR, "b": HOUR})
    before = world.starts()
    tried = [(Arrival(0.0, wait(name, "team", 1, minute=2), 0.0), RunTimes(each_once(60.0))) for name in "tuv"]
    tried.append((tried.pop()[0]._replace(in_s=math.inf), RunTimes(each_once(60.0))))

    starts = world.starts_together(tried, instead_of=["b", "not there"])

    assert [start.likely_s for start in starts] == [0, 60, math.inf]
    assert world.starts() == before


def test_later_ends_that_lie_close_together_are_one_and_starts_are_told_by_the_last_of_them():
    early = {f"e{i}": 60.0 * (i + 1) for i in range(APART)}  # on nodes that are too small for those that wait
    jobs = [held(name, "team", f"small-{name}", {0: 1}) for name in early]
    jobs += [held(f"h{i}", "team", f"n{i}", {0: 1, 1: 1}) for i in range(2)]
    jobs += [wait(f"w{i}", "team", 2, minute=i) for i in range(2)]
    nodes = [*(node(f"small-{name}", 1) for name in early), node("n0", 2), node("n1", 2)]
    lengths_s = {**early, "h0": HOUR, "h1": HOUR + 60, "w0": HOUR, "w1": HOUR}

    told = forecast(jobs, lengths_s, nodes=nodes, queues=[queue("team", 20)])

    assert [told[name].likely_s for name in ("w0", "w1")] == [HOUR + 60] * 2


@pytest.mark.parametrize(("waiting", "likely_s"), [(2, 1200), (200, 1140)])
def test_of_two_hundred_jobs_each_is_forecast_from_half_as_many_passes(waiting, likely_s):
    lengths = tuple(float(minute) for minute in range(60, 2460, 60))
    jobs = [held("a", "team", "n1", {0: 1, 1: 1}), *(wait(f"w{i:03}", "team", 2, minute=i) for i in range(waiting))]

    told = forecast(jobs, {"a": lengths} | {f"w{i:03}": 1.0 for i in range(waiting)})

    assert told["w000"].likely_s == likely_s


def limited(run_at_most_s: float):
    return replace(queue("team", 4), training=WorkRules(run_at_most_s=run_at_most_s))


def test_who_has_reached_a_time_limit_does_not_wait_again():
    jobs = [replace(held("a", "team", "n1", {0: 1, 1: 1}), running_for_s=HOUR)]
    jobs += [wait("b", "team", 2, minute=1), wait("c", "team", 2, minute=2)]

    told = forecast(jobs, {"a": 9 * HOUR, "b": 60.0, "c": 60.0}, queues=[limited(HOUR)])

    assert [told[name].likely_s for name in "bc"] == [0, 60]


def test_a_time_limit_counts_from_the_placing_as_in_a_cycle_though_the_job_began_later():
    # It got its place 1000 s ago, and has run for 400 s; `running_for_s` is told in steps.
    jobs = [replace(held("a", "team", "n1", {0: 1, 1: 1}), running_for_s=0.0, runs_since=9000.0)]
    jobs += [wait("b", "team", 2, minute=1)]

    run_times = {"a": RunTimes(each_once(9 * HOUR), ran_s=400.0), "b": RunTimes(each_once(60.0))}
    told = Forward(Snapshot([node("n1", 2)], [limited(HOUR)], jobs), NEARLINE, run_times, at_s=10_000.0).starts()

    assert told["b"].likely_s == HOUR - 1000


def test_the_cycle_that_stops_who_reaches_a_time_limit_prefers_what_is_free_at_once():
    jobs = [held("limited", "team", "n1", {0: 1}), held("ends", "team", "n2", {0: 1}), wait("b", "team", 1)]
    lengths = {"limited": 9 * HOUR, "ends": HOUR, "b": 60.0}

    told = forecast(jobs, lengths, nodes=[node("n1", 1), node("n2", 1)], queues=[limited(HOUR)])

    assert (told["b"].likely_s, told["b"].node_ids) == (HOUR, ("n2",))


CASES = int(os.environ.get("NEARLINE_TEST_TRIALS", "60"))
FIRST = int(os.environ.get("NEARLINE_TEST_FIRST_TRIAL", "0"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_what_is_forecast_of_a_trial_is_what_comes_of_cycles_one_by_one(seed):
    dice = random.Random(seed)
    try_among(dice, [queue(name, dice.randint(0, 6)) for name in "abc"[: dice.randint(1, 3)]], _some_job)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES // 3))
def test_a_forecast_knows_time_limits_minimum_run_times_gangs_and_elastic_jobs(seed):
    dice = random.Random(seed)
    queues = [
        replace(
            queue(name, dice.randint(0, 6)),
            training=WorkRules(run_at_most_s=dice.choice((None, 900.0, 1800.0))),
            preempt_min_runtime_s=dice.choice((None, 300.0)),
            reclaim_min_runtime_s=dice.choice((None, 600.0)),
        )
        for name in "abc"[: dice.randint(1, 3)]
    ]
    try_among(dice, queues, _any_job)


def try_among(dice: random.Random, queues, make_job) -> None:
    """Bring a cluster into any state, forecast a job there, and see that this happens."""
    nodes = [node(f"n{number}", dice.choice((2, 4, 8))) for number in range(dice.randint(1, 3))]
    cluster = Cluster(Snapshot(nodes, queues, []))
    for number in range(dice.randint(2, 14)):
        cluster.submit(make_job(dice, f"job-{number:02}", queues), dice.randint(100, 5000) + number / 16)
        cluster.pass_to(cluster.now_s + dice.randint(1, 100))
    tried, length = make_job(dice, "tried", queues), dice.randint(60, 600)
    forward = Forward(cluster.snapshot, NEARLINE, cluster.run_times(), at_s=cluster.now_s, grain=0.0)

    told = forward.start_of(replace(tried, rank=(cluster.rank,)), RunTimes(each_once(float(length))))

    since_s, before = cluster.now_s, list(cluster.stopped)
    cluster.submit(tried, float(length))
    claimants = {"tried"}
    for job, claimant in cluster.stopped[len(before) :] * 2:
        claimants |= {job} if claimant in claimants else set()
    assert {stop.job_id for stop in told.stops if stop.in_s == 0} == claimants - {"tried"}
    while "tried" not in cluster.started and (moment_s := cluster.next_moment()) is not None:
        cluster.pass_to(moment_s)
    at_s, places = cluster.started.get("tried", (math.inf, ()))
    assert told.likely_s == pytest.approx(at_s - since_s)
    assert set(told.node_ids) == set(places)


def _some_job(dice: random.Random, name: str, queues):
    return wait(name, dice.choice(queues).id, dice.choice((1, 2)), firm=dice.random() < 0.2)


def _any_job(dice: random.Random, name: str, queues):
    """Return a job of one pod, a gang with or without a launcher, or an elastic job."""
    queue_id, count = dice.choice(queues).id, dice.randint(2, 4)
    launcher = PodView(f"{name}-l", PodState.PENDING, needs(0, cpu=1000, resource="lab"), "launcher")
    plain = gang(name, queue_id, 1, count, count)
    with_launcher = replace(
        plain,
        pods=(launcher, *plain.pods),
        structure=GroupView((PodSetView("launcher", 1), *plain.structure.children)),
    )
    job = dice.choice((_some_job(dice, name, queues), plain, with_launcher, gang(name, queue_id, 1, count, 1)))
    return replace(job, priority=dice.choice((50, 50, 25, 90)))
