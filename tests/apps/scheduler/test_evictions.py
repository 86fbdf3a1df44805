"""Capacity is taken from those who hold more than their share, kept for whom it was taken, and given once it is free."""

from datetime import timedelta

import pytest

from scheduler import signals
from scheduler.models import Node, PastPlacement, Placement, Queue, Reservation, Workload
from scheduler.selectors.usage import gpus_over_time
from scheduler.selectors.workloads import list_terminating
from scheduler.services import nodes, workloads
from scheduler.workers import cycle
from scheduler.workers.cycle import CycleReport
from tests.factories.scheduler import NOON, enqueue, report, report_nodes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("move")]


@pytest.fixture
def news():
    batches: list[list[str]] = []

    def hear(*, workload_ids: list[str], **_: object) -> None:
        batches.append(workload_ids)

    signals.workload_evicted.connect(hear, weak=False)
    yield batches
    signals.workload_evicted.disconnect(hear)


def told(workload: Workload) -> tuple[str, str, str]:
    workload.refresh_from_db()
    return workload.state, workload.why_code, workload.why


def fill(guest, *names: str) -> list[Workload]:
    """Let guests have the whole of a node of two GPUs."""
    report_nodes(report("n1", 2))
    found = enqueue(guest, *names, gpus=2 // len(names))
    cycle.run_once()
    return found


def test_who_holds_more_than_his_share_leaves_and_the_room_is_kept_for_its_owner(owner, guest):
    (visitor,) = fill(guest, "visitor")
    (claim,) = enqueue(owner, "claim", gpus=2)

    assert cycle.run_once() == CycleReport(reserved=1, evicted=1)

    reason = "Another queue claims its share; guests holds more than it may keep."
    assert told(visitor) == ("leaving", "reclaimed", reason)
    assert (visitor.evictions, visitor.placements.get().evicting_since) == (1, NOON)
    kept = "capacity on n1 is reserved for it until the work that holds it has stopped"
    assert told(claim) == ("pending", "promised", kept)
    assert (claim.reservations.get().node.name, claim.reservations.get().devices) == ("n1", [])


@pytest.mark.parametrize("saves", ["older", "younger"])
def test_of_equals_the_one_that_has_saved_a_checkpoint_leaves(owner, guest, move, saves):
    visitors = dict(zip(("older", "younger"), fill(guest, "older", "younger"), strict=True))
    cycle.run_once()
    move(NOON + timedelta(seconds=60))
    workloads.note_saved(workload_id=visitors[saves].pk, at=NOON + timedelta(seconds=45))
    enqueue(owner, "claim", gpus=1)

    assert cycle.run_once() == CycleReport(reserved=1, evicted=1)

    assert told(visitors[saves])[0] == "leaving"


def test_nothing_more_happens_while_somebody_leaves(owner, guest):
    fill(guest, "x", "y")
    enqueue(owner, "claim", gpus=1)
    cycle.run_once()

    for _ in range(3):
        assert cycle.run_once() == CycleReport()

    assert Workload.objects.filter(state="leaving").count() == 1


def test_room_that_was_left_goes_to_whom_it_was_promised_and_the_evicted_wait_as_old_as_they_are(owner, guest, move):
    (visitor,) = fill(guest, "visitor")
    (claim,) = enqueue(owner, "claim", gpus=2)
    cycle.run_once()
    (thief,) = enqueue(owner, "thief", gpus=1, priority=90)

    move(NOON + timedelta(seconds=9))
    assert workloads.requeue_many([visitor.pk]) == [visitor.pk]
    assert cycle.run_once() == CycleReport(placed=1, waiting=2)

    assert (told(claim)[0], told(thief)[0], told(visitor)[:2]) == ("placed", "pending", ("pending", "no_room"))
    assert (visitor.enqueued_at, visitor.waits_since) == (NOON, NOON + timedelta(seconds=9))
    assert not Reservation.objects.exists()


def test_a_workload_is_requeued_once(owner, guest):
    (visitor,) = fill(guest, "visitor")
    enqueue(owner, "claim", gpus=2)
    cycle.run_once()

    assert workloads.requeue_many([visitor.pk]) == [visitor.pk]
    assert workloads.requeue_many([visitor.pk]) == []
    assert PastPlacement.objects.count() == 1


def test_one_that_could_not_begin_where_it_was_placed_is_requeued_and_its_room_is_free(guest):
    (visitor,) = fill(guest, "visitor")

    assert workloads.requeue_many([visitor.pk]) == [visitor.pk]

    assert told(visitor)[0] == "pending"
    assert not Placement.objects.exists()
    assert cycle.run_once() == CycleReport(placed=1)


def test_news_of_evictions_is_sent_after_the_commit(owner, guest, news, django_capture_on_commit_callbacks):
    visitors = fill(guest, "x", "y")
    enqueue(owner, "claim", gpus=2)

    with django_capture_on_commit_callbacks(execute=True):
        cycle.run_once()

    assert [sorted(batch) for batch in news] == [sorted(row.pk for row in visitors)]
    assert set(list_terminating()) == {row.pk for row in visitors}


def test_one_who_ends_while_it_leaves_gives_its_room_to_whom_it_was_promised(owner, guest):
    (visitor,) = fill(guest, "visitor")
    (claim,) = enqueue(owner, "claim", gpus=2)
    cycle.run_once()

    workloads.release_many([visitor.pk])
    cycle.run_once()

    assert (told(visitor)[0], told(claim)[0]) == ("released", "placed")


def test_a_promise_ends_with_its_workload(owner, guest):
    fill(guest, "visitor")
    (claim,) = enqueue(owner, "claim", gpus=2)
    cycle.run_once()

    workloads.withdraw_many([claim.pk])

    assert not Reservation.objects.exists()


def test_a_promise_is_withdrawn_when_its_node_takes_nothing_any_more(owner, guest, site_admin):
    fill(guest, "visitor")
    (claim,) = enqueue(owner, "claim", gpus=2)
    cycle.run_once()

    nodes.set_drained(actor=site_admin, node=Node.objects.get(), is_drained=True)
    cycle.run_once()

    assert told(claim)[:2] == ("pending", "drained")
    assert not Reservation.objects.exists()


def test_nobody_waits_for_the_room_of_one_who_should_have_left_five_minutes_ago(owner, guest, move):
    report_nodes(report("n1", 2), report("n2", 2))
    first, second = enqueue(guest, "first", "second", gpus=2)
    cycle.run_once()
    (claim,) = enqueue(owner, "claim", gpus=2)
    cycle.run_once()
    (stuck,) = Workload.objects.filter(state="leaving")

    move(NOON + timedelta(minutes=5))
    cycle.run_once()
    cycle.run_once()

    assert set(list_terminating()) == {first.pk, second.pk}
    assert Reservation.objects.get(workload=claim).node_id != Placement.objects.get(workload=stuck).node_id


def test_work_is_moved_together_so_that_a_larger_job_finds_room(project):
    report_nodes(report("n1", 2), report("n2", 2))
    enqueue(project, "a", "b", "c", gpus=1)
    cycle.run_once()
    (full,) = [node for node in Node.objects.all() if node.placements.count() == 2]
    workloads.release_many([full.placements.order_by("pk")[0].workload_id])
    (wide,) = enqueue(project, "wide", gpus=2)

    assert cycle.run_once() == CycleReport(reserved=2, evicted=1)
    (mover,) = Workload.objects.filter(state="leaving")
    assert told(mover)[1:] == (
        "moved",
        f"It moves to {mover.reservations.get().node.name}, so that wide finds capacity.",
    )
    assert mover.reservations.get().node_id not in {
        mover.placements.get().node_id,
        wide.reservations.get().node_id,
    }
    assert cycle.run_once().evicted == 0

    workloads.requeue_many([mover.pk])
    kept = (
        f"capacity on {mover.reservations.get().node.name} is reserved for it until the work that holds it has stopped"
    )
    assert told(mover) == ("pending", "promised", kept)
    assert cycle.run_once().placed == 2

    assert told(mover)[0] == told(wide)[0] == "placed"
    assert not Reservation.objects.exists()


def test_the_history_counts_what_was_held_before_an_eviction(owner, guest, move):
    (visitor,) = fill(guest, "visitor")
    move(NOON + timedelta(minutes=2))
    enqueue(owner, "claim", gpus=2)
    cycle.run_once()
    workloads.requeue_many([visitor.pk])

    queue = Queue.objects.get(project=guest)
    held = gpus_over_time([queue], until=NOON + timedelta(minutes=3), span=timedelta(minutes=4), points=5)

    assert held == {queue.pk: [0, 2000, 2000, 0, 0]}
