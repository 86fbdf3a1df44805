"""A waiting workload on which the engine fails: the others are scheduled, its owner is told, and it is tried again."""

from datetime import timedelta

import pytest

from core import clock, isolation
from scheduler.engine import cycle as engine_cycle
from scheduler.models import Workload
from scheduler.workers import cycle, undecided
from scheduler.workers.cycle import CycleReport, SessionCache
from tests.apps.scheduler.test_cycle import NOON
from tests.factories.scheduler import enqueue, report, report_nodes

pytestmark = pytest.mark.django_db


def failing_on(monkeypatch, *workloads):
    """Give the engine a fault that shows in a cycle with any of these workloads."""
    names = {workload.name for workload in workloads}

    def decide(session):
        if names & {job.view.name for job in session.jobs.values()}:
            raise ZeroDivisionError
        return engine_cycle.decide_moves(session)

    monkeypatch.setattr(cycle, "decide_moves", decide)


def states():
    return dict(Workload.objects.order_by("pk").values_list("name", "state"))


def test_a_workload_on_which_the_engine_fails_holds_up_no_other(project, monkeypatch):
    report_nodes(report("n1", 8))
    workloads = enqueue(project, *(f"job-{number}" for number in range(7)), gpus=1)
    failing_on(monkeypatch, workloads[4])

    with clock.frozen_at(NOON):
        reports = [cycle.run_once() for _ in range(2)]

    assert reports == [CycleReport(waiting=7), CycleReport(placed=6)]
    assert [name for name, state in states().items() if state == "pending"] == ["job-4"]


def test_several_such_workloads_are_found_one_by_one(project, monkeypatch):
    report_nodes(report("n1", 8))
    workloads = enqueue(project, *(f"job-{number}" for number in range(6)), gpus=1)
    failing_on(monkeypatch, workloads[0], workloads[5])

    with clock.frozen_at(NOON):
        for _ in range(3):
            cycle.run_once()

    assert [name for name, state in states().items() if state == "pending"] == ["job-0", "job-5"]


def test_its_owner_is_told(project, monkeypatch):
    report_nodes(report("n1", 8))
    (workload,) = enqueue(project, "job", gpus=1)

    failing_on(monkeypatch, workload)

    cycle.run_once()

    workload.refresh_from_db()
    (failure,) = isolation.find([undecided.DECIDE])
    assert (failure.item_id, workload.reason_code) == (workload.pk, "internal_error")
    assert workload.reason == (
        "The platform could not schedule this job: an internal error (ZeroDivisionError). "
        f"It tries again; the log has the details under {failure.pk}."
    )


def test_it_is_tried_again_after_a_delay_and_placed_once_the_engine_can(project, monkeypatch):
    report_nodes(report("n1", 8))
    (workload,) = enqueue(project, "job", gpus=1)
    with clock.frozen_at(NOON):
        with monkeypatch.context() as faulty:
            failing_on(faulty, workload)
            cycle.run_once()
        early = cycle.run_once()

    with clock.frozen_at(NOON + timedelta(seconds=2)):
        late = cycle.run_once()

    assert (early.placed, late.placed) == (0, 1)
    assert isolation.find([undecided.DECIDE]) == []


@pytest.mark.parametrize(("module", "name"), [(cycle, "decide_moves"), (cycle, "Session")], ids=["deciding", "reading"])
def test_a_pool_in_which_the_engine_fails_whoever_waits_holds_up_no_other(project, monkeypatch, module, name):
    monkeypatch.setattr(cycle, "_sessions", SessionCache())
    report_nodes(report("n1", 8))
    report_nodes(report("c1", 8), resource="res_cloud")
    works = getattr(module, name)

    def fail_there(given, *more):  # a session, or the snapshot of which one is made
        if any(getattr(node, "view", node).name == "c1" for node in given.nodes):
            raise ZeroDivisionError
        return works(given, *more)

    with clock.frozen_at(NOON), monkeypatch.context() as faulty:
        faulty.setattr(module, name, fail_there)
        faulty.setattr(undecided, "Session", cycle.Session)
        (there,) = enqueue(project, "there", gpus=1, resource="res_cloud")
        enqueue(project, "here", gpus=1)
        first = cycle.run_once()
        enqueue(project, "later", gpus=1)
        second = cycle.run_once()
    (failure,) = isolation.find([undecided.DECIDE, undecided.DECIDE_POOL])
    told = Workload.objects.get(pk=there.pk).reason
    with clock.frozen_at(NOON + timedelta(seconds=2)):
        third = cycle.run_once()

    assert [each.placed for each in (first, second, third)] == [1, 1, 1]
    assert (failure.kind, failure.item_id) == ("scheduler.decide_pool", there.queue.pool_id)
    assert told == (
        "The platform could not schedule the jobs of this pool: an internal error (ZeroDivisionError). "
        f"It tries again; the log has the details under {failure.pk}."
    )
    assert isolation.find([undecided.DECIDE, undecided.DECIDE_POOL]) == []


def test_other_pools_get_their_places_before_a_cause_is_looked_for(project, monkeypatch):
    """It takes some cycles more, while the lease of this one goes on."""
    monkeypatch.setattr(cycle, "_sessions", SessionCache())
    report_nodes(report("n1", 1))
    report_nodes(report("c1", 1), resource="res_cloud")
    (bad,) = enqueue(project, "bad", gpus=1, resource="res_cloud")
    enqueue(project, "here", gpus=1)
    failing_on(monkeypatch, bad)
    seen = []
    monkeypatch.setattr(undecided, "find_cause", lambda *_: seen.append(states()))

    cycle.run_once()

    assert seen == [{"bad": "pending", "here": "placed"}]


def test_who_waits_in_a_pool_in_which_the_engine_fails_keeps_a_reason(project, monkeypatch):
    """What is told of one pool is not taken away because another one alone was decided."""
    monkeypatch.setattr(cycle, "_sessions", SessionCache())
    report_nodes(report("n1", 1))
    report_nodes(report("c1", 8), resource="res_cloud")
    (big,) = enqueue(project, "big", gpus=2)
    (elsewhere,) = enqueue(project, "elsewhere", gpus=9, resource="res_cloud")
    cycle.run_once()
    failing_on(monkeypatch, *enqueue(project, "bad", gpus=1, resource="res_cloud"))

    cycle.run_once()
    enqueue(project, "small", gpus=1)
    cycle.run_once()

    assert states() == {"big": "pending", "elsewhere": "pending", "bad": "pending", "small": "placed"}
    assert {Workload.objects.get(pk=each.pk).why_code for each in (big, elsewhere)} == {"never_fits"}
