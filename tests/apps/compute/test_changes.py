"""What would let a waiting job start sooner: when, where, and whom that stops; nothing is changed by trying it."""

from datetime import UTC, datetime, timedelta

import pytest

from accounts.errors import PermissionDenied
from accounts.models import Project
from compute.models import Job
from compute.services import changes, jobs
from compute.workers import forecasts
from core import clock
from scheduler.models import Queue
from scheduler.services import pool_members
from tests.apps.compute.test_trials import SYSTEM, attach, facts, submit, turn
from tests.factories.api import call
from tests.factories.browsers import browser_of

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
PRIORITY = "Give it the priority {} in place of 50"


@pytest.fixture
def labs(project, null_queue):
    """Return two pools: of the four GPUs of `lab` each team has a quota of one; team-b holds two, team-a waits for two."""
    with clock.frozen_at(NOON):
        labs = attach("lab", 4), attach("cloud", 2)
        other = Project.objects.create(name="team-b")
        pool_members.ensure_queues([project.pk, other.pk])
        Queue.objects.update(gpu_quota_milli=1000)
        submit(other, "lab.g2", "sweep", 3600)
        submit(other, "cloud.g2", "short", 900)
        submit(project, "lab.g1", "own", 7200)
        turn(*labs)
        submit(project, "lab.g2", "train", 600)
        turn(*labs)
        yield labs


def told(actor) -> dict[str, tuple[float, str, str] | None]:
    """Return by change in how many seconds, where, and in whose place the job starts then; None: no sooner."""
    tried = changes.try_changes(actor=actor, job=Job.objects.get(name="train"))
    return {
        each.text: ((each.starts_at - NOON).total_seconds(), *each.nodes, each.stops_text) if each.helps else None
        for each in tried.changes
    }


@pytest.mark.django_db
def test_each_change_says_when_the_job_starts_then_and_whom_it_stops(labs, site_admin):
    before = facts()

    assert told(site_admin) == {
        "Raise the quota of team-a from 1 to 3 GPUs": (0, "lab-0", "sweep (team-b)"),
        "Take lab.g1 (1 GPU) in place of 2 GPUs": (0, "lab-0", ""),
        "Run it on cloud.g2": (900, "cloud-0", ""),
        PRIORITY.format("build-preemptible (75)"): (0, "lab-0", "own (team-a)"),
        PRIORITY.format("inference (125)"): (0, "lab-0", "own (team-a)"),
        "Do not let it be preempted": None,
    }
    assert facts() == before


@pytest.mark.django_db
def test_names_of_strangers_stay_hidden_and_who_may_not_submit_is_told_nothing(labs, member, viewer):
    assert told(member)["Raise the quota of team-a from 1 to 3 GPUs"] == (0, "lab-0", "a job of another project")
    with pytest.raises(PermissionDenied):
        told(viewer)


@pytest.mark.django_db
def test_what_is_told_is_worked_out_anew_after_a_while_and_not_for_a_job_that_does_not_wait(labs, member):
    first = told(member)
    Queue.objects.update(gpu_quota_milli=3000)

    assert told(member) == first
    with clock.frozen_at(NOON + timedelta(seconds=15)):
        assert "Raise the quota of team-a from 1 to 3 GPUs" not in told(member)
    jobs.cancel_job(actor=SYSTEM, job=Job.objects.get(name="train"))
    assert told(member) == {}


@pytest.mark.django_db
def test_api_and_page_say_what_helps_first(labs, member):
    forecasts.forecast_all()
    page = browser_of(member)

    answer = call(member, "GET", "/compute/jobs/train/changes").body

    assert [(each["kind"], each["helps"], each["needs_admin"]) for each in answer["changes"]] == [
        ("less", True, False),
        ("place", True, False),
        ("priority", True, False),
        ("priority", True, False),
        ("quota", True, True),
        ("preemptible", False, False),
    ]
    assert answer["changes"][4]["stops_text"] == "a job of another project"
    assert 'hx-get="/jobs/train/changes/"' in page.get("/jobs/train/").content.decode()
    assert "a job of another project" in page.get("/jobs/train/changes/").content.decode()


@pytest.mark.django_db
def test_who_has_no_turn_for_long_is_told_that_nothing_was_tried(labs, site_admin, monkeypatch):
    monkeypatch.setattr(changes, "_BUDGET_S", 0.01)
    job = Job.objects.get(name="train")

    with changes._lock:
        tried = changes.try_changes(actor=site_admin, job=job)

    assert (tried.changes, tried.is_complete) == ([], False)
    assert changes.try_changes(actor=site_admin, job=job).changes


@pytest.mark.django_db
def test_a_job_that_is_not_preemptible_is_told_the_same_quota_as_its_advice(labs, site_admin, project):
    submit(project, "lab.g2", "firm", 600, is_preemptible=False)
    turn(*labs)

    job = Job.objects.get(name="firm")

    assert job.workload.answer.advice == "raise the quota of team-a by 1 GPU, or let it be preempted"
    texts = [each.text for each in changes.try_changes(actor=site_admin, job=job).changes if each.kind == "quota"]
    assert texts == ["Raise the quota of team-a from 1 to 2 GPUs"]
