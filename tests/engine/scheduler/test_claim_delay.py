"""How soon a claim takes from others, which rules hold for whom, and when running work is moved."""

from dataclasses import replace

import pytest

from benchmarks.scheduler import philly
from scheduler.engine.actions.taking import consolidate
from scheduler.engine.cycle import run_cycle
from scheduler.engine.decisions import Stop, StopCode
from scheduler.engine.forward import Forward, PlannedStop
from scheduler.engine.queues import shares_if_all_ask
from scheduler.engine.run_times import RunTimes, each_once
from scheduler.engine.session import Session
from scheduler.engine.sharing import PRESETS, STEADY, SharingRules
from scheduler.engine.snapshot import NEARLINE, Snapshot
from tests.factories.scheduler import held, node, queue, snapshot_of, wait

HOUR = 3600.0


def stopped(*parts, policy=NEARLINE) -> dict[str, StopCode]:
    decisions = run_cycle(snapshot_of(node("n1", 2), *parts), policy)
    return {decision.job_id: decision.code for decision in decisions if isinstance(decision, Stop)}


def test_a_claim_takes_nothing_from_other_queues_before_its_delay_is_over():
    parts = [queue("owner", 2), queue("guest"), held("g", "guest", "n1", {0: 1, 1: 1})]

    assert stopped(*parts, replace(wait("c", "owner", 1), claims_at=60.0)) == {}
    assert stopped(*parts, wait("c", "owner", 1)) == {"g": StopCode.RECLAIMED}


@pytest.mark.parametrize(("claims", "stops"), [(7, 0), (8, 1), (10, 3)])
def test_no_delay_holds_while_a_queue_claims_eight_gpus_or_more(claims, stops):
    waiting = [replace(wait(f"c{index}", "owner", 1), claims_at=60.0) for index in range(claims)]
    running = [held(f"g{index}", "guest", "n1", {index: 1}) for index in range(10)]
    snapshot = snapshot_of(node("n1", 10), queue("owner", 10), queue("guest"), *running, *waiting)

    assert len([each for each in run_cycle(snapshot, NEARLINE) if isinstance(each, Stop)]) == stops


def test_a_higher_priority_in_the_same_queue_waits_for_no_claim_delay():
    claim = replace(wait("c", "team", 1, priority=80), claims_at=60.0)

    assert stopped(queue("team", 2), held("low", "team", "n1", {0: 1, 1: 1}), claim) == {"low": StopCode.PREEMPTED}


@pytest.mark.parametrize(("consolidates", "moved"), [(True, {"a"}), (False, set())])
def test_running_work_is_moved_only_in_a_cycle_that_consolidates(consolidates, moved):
    jobs = [held("a", "team", "n1", {0: 1}), held("b", "team", "n2", {0: 1}), wait("c", "team", 2)]
    snapshot = Snapshot([node("n1", 2), node("n2", 2)], [queue("team", 4)], jobs)

    decisions = run_cycle(snapshot, replace(NEARLINE, consolidates=consolidates))

    assert len([each for each in decisions if isinstance(each, Stop)]) == len(moved)


def test_only_what_could_help_is_moved_on_trial_and_once_whichever_queue_asks():
    jobs = [held("pair", "team", "n1", {0: 1, 1: 1}, minute=9), held("a", "team", "n2", {0: 1})]
    jobs += [held("b", "team", "n3", {0: 1}), wait("c", "team", 2, resource=""), wait("d", "other", 2, resource="")]
    nodes = [node(name, 2) for name in ("n1", "n2", "n3")]
    session = Session(Snapshot(nodes, [queue("team", 4), queue("other", 2)], jobs), NEARLINE)
    session.trials_of_moves = 1

    consolidate(session)

    assert {pod.id for pod in session.moved_since(0)} - {"c", "d"} in ({"a"}, {"b"})


@pytest.mark.parametrize(
    ("own", "above", "pool", "stops"), [(None, None, 600, 0), (None, 60, 600, 1), (600, 60, 0, 0), (0, 600, 600, 1)]
)
def test_a_queue_has_its_own_rule_else_that_of_the_nearest_above_else_that_of_the_pool(own, above, pool, stops):
    department = replace(queue("lab"), reclaim_min_runtime_s=above)
    guest = replace(queue("guest"), parent_id="lab", reclaim_min_runtime_s=own)
    running = replace(held("g", "guest", "n1", {0: 1, 1: 1}), running_for_s=120.0)
    policy = replace(NEARLINE, sharing=SharingRules(reclaim_min_runtime_s=pool))
    # The claimant is in the same department: its siblings' own rules hold.
    owner = replace(queue("owner", 2), parent_id="lab")

    assert len(stopped(department, guest, owner, running, wait("c", "owner", 1), policy=policy)) == stops


@pytest.mark.parametrize(("evictions", "stops"), [(1, 1), (2, 0)])
def test_a_queue_may_say_how_often_its_jobs_are_stopped_at_most(evictions, stops):
    guest = replace(queue("guest"), evictions_at_most=2)
    running = replace(held("g", "guest", "n1", {0: 1, 1: 1}), evictions=evictions)

    assert len(stopped(queue("owner", 2), guest, running, wait("c", "owner", 1))) == stops


def forecast(*, sharing: SharingRules, claims_at: float | None = None, ran_s: float = 0.0, gpus: int = 2):
    """Forecast a claim of an owner on what a guest holds that goes on for ten hours."""
    jobs = [
        replace(held("g", "guest", "n1", {0: 1, 1: 1}), running_for_s=ran_s),
        replace(wait("c", "owner", gpus), claims_at=claims_at),
    ]
    snapshot = Snapshot([node("n1", 2)], [queue("owner", 2), queue("guest")], jobs)
    run_times = {"g": RunTimes(each_once(10 * HOUR), ran_s=ran_s), "c": RunTimes(each_once(HOUR))}
    return Forward(snapshot, replace(NEARLINE, sharing=sharing), run_times, at_s=1000.0)


def test_a_forecast_takes_when_the_claim_delay_is_over():
    told = forecast(sharing=SharingRules(claim_delay_s=120), claims_at=1060.0).starts()["c"]

    assert (told.likely_s, told.stops) == (60.0, (PlannedStop("g", 60.0, StopCode.RECLAIMED),))


def test_a_forecast_takes_when_the_minimum_run_time_is_over():
    told = forecast(sharing=SharingRules(reclaim_min_runtime_s=600), ran_s=100.0).starts()["c"]

    assert told.likely_s == 500.0


def test_a_forecast_takes_when_a_job_of_the_same_queue_has_run_its_minimum_time():
    jobs = [
        replace(held("g", "team", "n1", {0: 1, 1: 1}, priority=25), running_for_s=100.0),
        replace(wait("c", "team", 2), priority=90),
    ]
    snapshot = Snapshot([node("n1", 2)], [replace(queue("team", 2), preempt_min_runtime_s=300.0)], jobs)

    told = Forward(
        snapshot, NEARLINE, {"g": RunTimes(each_once(HOUR), ran_s=100.0), "c": RunTimes(each_once(HOUR))}
    ).starts()["c"]

    assert (told.likely_s, told.stops) == (200.0, (PlannedStop("g", 200.0, StopCode.PREEMPTED),))


def test_the_claim_delay_of_a_job_whose_data_comes_counts_from_its_submission():
    told = forecast(sharing=SharingRules(claim_delay_s=120), claims_at=1060.0)
    new = wait("new", "owner", 1)

    assert told.start_of(new, RunTimes(each_once(HOUR)), instead_of="c", in_s=60.0, since_s=-10.0).likely_s == 110.0
    assert told.start_of(new, RunTimes(each_once(HOUR)), instead_of="c", in_s=60.0, since_s=-90.0).likely_s == 60.0


def test_a_job_that_would_be_submitted_has_a_claim_delay_of_its_own_by_its_gpus():
    told = forecast(sharing=SharingRules(claim_delay_s=120), claims_at=1060.0)

    assert told.start_of(wait("new", "owner", 2), RunTimes(each_once(HOUR)), instead_of="c").likely_s == 60.0
    assert told.start_of(wait("new", "owner", 1), RunTimes(each_once(HOUR)), instead_of="c").likely_s == 120.0


def test_the_replay_of_philly_runs_the_rules_of_the_product():
    assert replace(NEARLINE, sharing=PRESETS["steady"]) == philly.POLICY
    assert STEADY.claim_delay_s > 0


def test_shares_if_all_ask_lean_to_who_used_less():
    views = [replace(queue("a", 2), used=(0.75, 0, 0)), replace(queue("b", 2), used=(0.25, 0, 0))]

    assert shares_if_all_ask(views, 12_000, usage_pull=0.0) == {"a": 6000, "b": 6000}
    assert shares_if_all_ask(views, 12_000, usage_pull=1.0) == {"a": 4000, "b": 8000}
