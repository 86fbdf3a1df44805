"""A waiting workload on which the engine fails: the others are scheduled, its owner is told, and it is tried again."""

from datetime import timedelta

import pytest

from core import clock, isolation
from scheduler.engine import cycle as engine_cycle
from scheduler.models import Workload
from scheduler.workers import cycle, undecided
from scheduler.workers.cycle import CycleReport
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


def test_a_failure_that_no_waiting_workload_causes_is_raised(project, monkeypatch):
    report_nodes(report("n1", 8))
    enqueue(project, "job", gpus=1)

    def decide(_session):
        raise ZeroDivisionError

    monkeypatch.setattr(cycle, "decide_moves", decide)
    with pytest.raises(ZeroDivisionError):
        cycle.run_once()

    assert isolation.find([undecided.DECIDE]) == []
