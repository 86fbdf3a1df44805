"""Every eviction leaves a receipt: what it tells, who may read it, and that its cycle can be decided again."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from accounts.models import Project
from accounts.permissions import Actor, Level
from scheduler.errors import PoolNotFound
from scheduler.models import CycleDump, Eviction, Workload
from scheduler.selectors import evictions
from scheduler.services import workloads
from scheduler.workers import apply, cycle
from tests.factories.scheduler import NOON, enqueue, report, report_nodes

pytestmark = pytest.mark.django_db


@pytest.fixture
def evicted(owner, guest, move):
    """Let guests hold two GPUs for ten minutes, and the owner claim one of them."""
    report_nodes(report("n1", 2))
    enqueue(guest, "x", "y", gpus=1)
    cycle.run_once()
    move(NOON + timedelta(minutes=10))
    enqueue(owner, "claim", gpus=1)
    cycle.run_once()
    return Eviction.objects.get()


def member_of(project) -> Actor:
    return Actor(user_id=7, name="ana", levels={project.pk: Level.READ})


def test_a_receipt_tells_for_whom_by_what_right_and_at_what_cost(evicted, owner, guest, site_admin):
    (view,) = evictions.view_evictions(actor=site_admin, rows=[evicted])

    assert (view.job.label, view.job.project) == ("y", "guests")
    assert (view.claimant.label, view.claimant.project) == ("claim", owner.name)
    assert (evicted.code, evicted.claim_class, evicted.is_moved, evicted.gpu_milli) == (
        "reclaimed",
        "by_right",
        False,
        1000,
    )
    assert (evicted.at, evicted.placed_at, evicted.saved_at) == (NOON + timedelta(minutes=10), NOON, NOON)
    assert (evicted.lost_gpu_s, view.since_saved_s, view.had_checkpoint) == (600, 600, False)
    assert view.rule == (
        "Reclaim by right: the claimant stays within its quota of 2 GPUs; the project of the job that was stopped held "
        "2 GPUs, of a quota of 0 GPUs."
    )
    assert [evicted.victim_share[part] for part in ("quota", "fair", "before", "after")] == [0, 1000, 2000, 1000]
    assert [evicted.claimant_share[part] for part in ("quota", "fair", "before", "after")] == [2000, 1000, 0, 1000]


def test_who_would_have_gone_instead_is_named_with_the_reason(evicted, site_admin):
    (view,) = evictions.view_evictions(actor=site_admin, rows=[evicted])

    (other,) = view.alternatives
    assert (other.job.label, other.gpu_milli, other.lost_gpu_s, other.why_text) == ("x", 1000, 600, "is older")


def test_a_member_reads_the_receipts_of_its_project_and_no_stranger_s_name(evicted, owner, guest):
    member = member_of(guest)

    (view,) = evictions.view_evictions(actor=member, rows=evictions.list_evictions(actor=member))

    assert (view.job.label, view.claimant) == (
        "y",
        evictions.NamedJob("", "a job of another project", "another project"),
    )
    assert owner.name not in view.rule
    assert not evictions.list_evictions(actor=member_of(owner)).exists()


def test_a_receipt_outlives_the_project_of_its_claimant_and_says_that_it_is_deleted(evicted, owner, guest, move):
    member, deleted = member_of(guest), evictions.NamedJob("", "a job of a deleted project", "a deleted project")

    Project.objects.filter(pk=owner.pk).update(deleted_at=NOON)
    (hidden,) = evictions.view_evictions(actor=member, rows=evictions.list_evictions(actor=member))
    Workload.objects.filter(project=owner).delete()  # as its removal does
    (removed,) = evictions.view_evictions(actor=member, rows=evictions.list_evictions(actor=member))

    assert (hidden.claimant, removed.claimant) == (deleted, deleted)
    assert removed.rule == hidden.rule


def test_receipts_are_found_by_job_project_pool_and_time(evicted, owner, guest, site_admin):
    def count(**filters: object) -> int:
        return evictions.list_evictions(actor=site_admin, **filters).count()

    assert [count(job="y"), count(job="x"), count(project="guests"), count(project=owner.name)] == [1, 0, 1, 0]
    assert count(pool="default") == 1
    with pytest.raises(PoolNotFound):
        count(pool="other")
    assert [count(since=evicted.at), count(until=evicted.at)] == [1, 0]


def test_receipts_are_counted_by_project_and_week(evicted, site_admin):
    (week,) = evictions.list_weeks(actor=site_admin)

    assert (week.project, week.evictions, week.moves, week.lost_gpu_s) == ("guests", 1, 0, 600)
    assert week.begins_at <= evicted.at < week.begins_at + timedelta(days=7)
    assert week.begins_at.weekday() == 0


def test_a_workload_that_was_requeued_keeps_its_receipts(evicted, owner, move):
    workloads.requeue_many([evicted.workload_id])
    cycle.run_once()

    assert list(Eviction.objects.values_list("pk", flat=True)) == [evicted.pk]


def test_a_cycle_is_decided_again_from_its_dump(evicted, tmp_path):
    out, file = StringIO(), tmp_path / "cycle.json"

    call_command("replay_cycle", evicted.cycle, save=file, stdout=out)
    call_command("replay_cycle", str(file), stdout=out)

    lines = out.getvalue().splitlines()
    assert [json.loads(line)[0] for line in lines[:2]] == ["Stop", "Reserve"]
    assert lines[2] == "The same 2 moves are decided again."
    assert lines[3:] == lines[:3]


def test_a_dump_that_says_something_else_is_told(evicted, tmp_path):
    file = tmp_path / "cycle.json"
    file.write_text(json.dumps({**evictions.read_dump(evicted.cycle), "moves": []}))

    with pytest.raises(CommandError, match="Something else is decided now"):
        call_command("replay_cycle", str(file), stdout=StringIO(), stderr=StringIO())


@pytest.mark.parametrize("dump", ["cycle_none", __file__])
def test_what_is_no_dump_is_refused_in_words(db, dump):
    with pytest.raises(CommandError, match="is no dump of a cycle that can be read"):
        call_command("replay_cycle", dump)


def test_a_cycle_that_evicts_nobody_leaves_no_dump(project, move):
    report_nodes(report("n1", 2))
    enqueue(project, "job", gpus=1)

    cycle.run_once()

    assert not CycleDump.objects.exists()


def test_receipts_and_dumps_are_deleted_when_they_are_old(evicted, move):
    move(evicted.at + apply.KEEP_DUMPS + timedelta(seconds=1))
    apply.collect_receipts()
    assert (Eviction.objects.count(), CycleDump.objects.count()) == (1, 0)

    move(evicted.at + apply.KEEP_RECEIPTS + timedelta(seconds=1))
    apply.collect_receipts()
    assert not Eviction.objects.exists()


def test_dumps_beyond_the_most_are_deleted_the_oldest_first(evicted, monkeypatch):
    pool_id = CycleDump.objects.get().pool_id
    newest = CycleDump.objects.create(pool_id=pool_id, data=b"")
    monkeypatch.setattr(apply, "MOST_DUMPS", 1)

    apply.collect_receipts()

    assert CycleDump.objects.get() == newest
