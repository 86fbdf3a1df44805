"""The rules of a pool: what an admin sets, cycles, trials, receipts and forecasts go by, with past use and without."""

from dataclasses import replace
from datetime import timedelta

import pytest

from accounts.services import projects
from benchmarks.scheduler import philly
from core import clock
from scheduler.engine.run_times import RunTimes, each_once
from scheduler.engine.snapshot import NEARLINE
from scheduler.models import DEFAULT_POOL_ID, Eviction, Pool, Queue, Workload
from scheduler.selectors import evictions
from scheduler.selectors.forecasts import Outlooks
from scheduler.selectors.snapshots import SnapshotReader
from scheduler.services import pool_members, queues
from scheduler.workers import cycle, usage
from tests.factories.api import call
from tests.factories.scheduler import NOON, enqueue, report, report_nodes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("move")]

SHARING = "/scheduler/pools/default/sharing"
MINUTE = timedelta(minutes=1)


@pytest.fixture
def owner(site_admin, project):
    """Return the project that has a quota of two GPUs, all there are."""
    queue = Queue.objects.get(pk=pool_members.ensure_queue(project_id=project.pk))
    queues.set_quota(actor=site_admin, queue=queue, gpu_quota_milli=2000)
    report_nodes(report("n1", 2))
    return project


@pytest.fixture
def guest(site_admin, owner):
    """Return a project without a quota, whose job holds both GPUs since noon."""
    guest = projects.create_project(actor=site_admin, name="guests")
    enqueue(guest, "borrower", gpus=2)
    cycle.run_once()
    return guest


def set_rules(site_admin, **rules) -> dict:
    status, told = call(site_admin, "PATCH", SHARING, rules)
    assert status == 200
    return told


def test_one_key_sets_all_rules_of_a_pool_and_those_are_the_ones_of_the_replay(owner, site_admin):
    told = set_rules(site_admin, preset="steady", usage_pull=0.5)

    view = SnapshotReader().read()[DEFAULT_POOL_ID]
    assert (told["preset"], told["usage_pull"]) == ("steady", 0.5)
    assert replace(view.sharing, usage_pull=0.0) == philly.POLICY.sharing
    assert view.apply_rules(NEARLINE, clock.now()) == replace(
        philly.POLICY, sharing=replace(philly.POLICY.sharing, usage_pull=0.5)
    )


@pytest.mark.parametrize(
    "rules", [{"claim_dely_s": 1}, {"preset": "slow"}, {"claim_delay_s": -1}, {"evictions_at_most": 0.5}]
)
def test_rules_that_are_none_are_refused_and_nothing_changes(owner, site_admin, rules):
    assert call(site_admin, "PATCH", SHARING, rules)[0] == 400
    assert Pool.objects.filter(claim_delay_s=0.0, evictions_at_most=5).count() == 1


def test_a_claim_waits_for_its_delay_then_for_the_minimum_run_time_and_the_receipt_names_both(
    owner, guest, site_admin, move
):
    set_rules(site_admin, claim_delay_s=120, reclaim_min_runtime_s=300)
    move(NOON + 4 * MINUTE)
    enqueue(owner, "claim", gpus=1)

    # The delay ends at 12:06, the minimum of the borrower at 12:05.
    told = []
    for moment in (4 * MINUTE, 5.5 * MINUTE, 6 * MINUTE):
        move(NOON + moment)
        told.append(cycle.run_once().evicted)

    (view,) = evictions.view_evictions(actor=site_admin, rows=[Eviction.objects.get()])
    assert told == [0, 0, 1]
    assert view.rule == (
        "Reclaim by right after a claim delay of 2 min: the claimant stays within its quota of 2 GPUs; "
        "the project of the job that was stopped held 2 GPUs, of a quota of 0 GPUs. "
        "The job had run for longer than the minimum of 5 min."
    )


def test_what_the_engine_is_told_has_run_time_delay_and_stops(owner, guest, site_admin, move):
    queues.set_quota(actor=site_admin, queue=Queue.objects.get(project=owner), claim_delay_s=60)
    set_rules(site_admin, reclaim_min_runtime_s=300)
    Workload.objects.filter(name="borrower").update(evictions=3)
    move(NOON + 10 * MINUTE)
    enqueue(owner, "claim", gpus=2)

    jobs = {job.name: job for job in SnapshotReader().read()[DEFAULT_POOL_ID].jobs.values()}

    assert (jobs["borrower"].running_for_s, jobs["borrower"].evictions) == (300.0, 3)
    # A claim of two GPUs waits for half of the delay.
    assert jobs["claim"].claims_at == (NOON + 10.5 * MINUTE).timestamp()


def test_a_trial_and_a_forecast_go_by_the_rules(owner, guest, site_admin, move):
    move(NOON + MINUTE)
    enqueue(owner, "claim", gpus=1)

    def stops(sharing: dict) -> list[str]:
        status, trial = call(site_admin, "POST", "/scheduler/quota-trials", {"sharing": sharing})
        assert status == 200
        return [job["name"] for job in trial["stops"]]

    assert (stops({}), stops({"claim_delay_s": 60}), stops({"preset": "steady"})) == (["borrower"], [], [])
    set_rules(site_admin, reclaim_min_runtime_s=300)
    borrower = Workload.objects.get(name="borrower")
    (outlook,) = Outlooks({borrower.pk: RunTimes(each_once(36_000.0), ran_s=60.0)}).of_waiting()
    assert (outlook.start.likely_s, [stop.in_s for stop in outlook.start.stops]) == (240.0, [240.0])


def test_moves_are_looked_for_once_in_an_interval_and_only_after_a_change(owner, site_admin, move):
    set_rules(site_admin, consolidate_every_s=300)
    enqueue(owner, "a", gpus=2)
    cycle.run_once()
    report_nodes(report("n1", 2), report("n2", 1))

    moments = []
    for minute, submitted in ((1, "b"), (6, None), (7, "c"), (8, "d")):
        move(NOON + minute * MINUTE)
        if submitted:
            enqueue(owner, submitted, gpus=2)
        cycle.run_once()
        moments.append(Pool.objects.get().consolidated_at)

    assert moments == [NOON + minute * MINUTE for minute in (1, 1, 7, 7)]


def test_what_happens_in_one_pool_puts_off_no_moves_in_another(owner, site_admin, move):
    set_rules(site_admin, consolidate_every_s=300)
    report_nodes(report("c1", 2), resource="res_cloud")
    enqueue(owner, "a", gpus=2)
    cycle.run_once()
    report_nodes(report("n1", 2), report("n2", 1))
    enqueue(owner, "b", gpus=2)

    moments = []
    for second in range(3):
        move(NOON + timedelta(seconds=second))
        enqueue(owner, f"elsewhere-{second}", gpus=1, resource="res_cloud")
        cycle.run_once()
        moments.append(Pool.objects.get(pk=DEFAULT_POOL_ID).consolidated_at)

    assert moments == [NOON] * 3


def test_use_halves_over_the_half_life_and_leans_shares_once_the_dial_is_up(owner, guest, site_admin, move):
    set_rules(site_admin, usage_half_life_s=60)
    usage.sample()
    for minute in (1, 2):
        move(NOON + minute * MINUTE)
        usage.sample()
    other = projects.create_project(actor=site_admin, name="others")
    enqueue(other, "wish-1", "wish-2", gpus=1)
    queues.set_quota(actor=site_admin, queue=Queue.objects.get(project=owner), gpu_quota_milli=0)

    def shares() -> tuple[int, ...]:
        fair = cycle.fair_shares(DEFAULT_POOL_ID)
        return tuple(fair[Queue.objects.get(project=each).pk] for each in (guest, other))

    # Two GPUs for a minute are 120 s, of which half is left a minute later.
    assert Queue.objects.get(project=guest).used_gpu_s == 60 + 120
    assert shares() == (1000, 1000)
    set_rules(site_admin, usage_pull=1.0)
    assert shares() == (0, 2000)
