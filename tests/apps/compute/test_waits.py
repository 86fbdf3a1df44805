"""What a waiting job is told of those who hold what it needs: their known end, and names only of its own people."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.services import projects
from compute.models import Job
from compute.selectors import waits
from core import clock
from scheduler.workers import cycle
from tests.factories import compute as make
from tests.factories.api import call

HOURS_S = 7200


@pytest.fixture
def whole(resource):
    return make.make_template(resource, "whole", cpu_millicores=8000)


def wait_of(actor, name: str):
    job = Job.objects.select_related("workload").get(name=name)
    return waits.find_waits(actor=actor, jobs=[job]).get(job.pk)


def start_and_wait(project, template, *, of=None, **spec) -> None:
    [holder] = make.submit(of or project, template, "holder", **spec)
    make.start([holder])
    make.submit(project, template, "waits")
    cycle.run_once()


def test_a_waiting_job_is_told_the_expected_end_of_its_holder(member, project, whole):
    now = clock.now()
    with clock.frozen_at(now) as move_to:
        start_and_wait(project, whole, simulated_duration_s=HOURS_S)
        move_to(now + timedelta(minutes=35))

        wait = wait_of(member, "waits")

    assert wait.text == (
        "What it needs on node-1 is held by holder, which is expected to end in 1 h. Others may be served first."
    )
    assert (wait.ends_at, wait.node, wait.holders, wait.is_limit) == (
        now + timedelta(seconds=HOURS_S),
        "node-1",
        ["holder"],
        False,
    )


def test_a_holder_that_runs_longer_than_expected_is_told_by_its_time_limit_or_not_at_all(member, project, whole):
    now = clock.now()
    with clock.frozen_at(now) as move_to:
        start_and_wait(project, whole, simulated_duration_s=60, timeout_s=HOURS_S)
        move_to(now + timedelta(minutes=35))
        wait = wait_of(member, "waits")
        Job.objects.filter(name="holder").update(spec={"name": "holder", "command": "true", "simulated_duration_s": 60})

        assert (wait.is_limit, wait.ends_at) == (True, now + timedelta(seconds=HOURS_S))
        assert "which must end in 1 h" in wait.text
        assert wait_of(member, "waits") is None


def test_the_specs_of_those_who_hold_resources_are_not_read(member, project, whole):
    start_and_wait(project, whole, timeout_s=HOURS_S, simulated_duration_s=HOURS_S)
    job = Job.objects.select_related("workload").get(name="waits")

    with CaptureQueriesContext(connection) as queries:
        wait = waits.find_waits(actor=member, jobs=[job])[job.pk]

    assert wait.holders == ["holder"]
    # What stands in brackets is one key of it.
    assert [query["sql"] for query in queries if ', "compute_job"."spec"' in query["sql"]] == []


def test_the_jobs_of_other_projects_are_not_named(member, site_admin, project, whole):
    other = projects.create_project(actor=site_admin, name="team-z")
    start_and_wait(project, whole, of=other, simulated_duration_s=HOURS_S)

    assert wait_of(member, "waits").holders == ["a job of another project"]
    assert wait_of(site_admin, "waits").holders == ["holder"]
    answer = call(member, "GET", "/compute/jobs/waits").body
    assert "holder," not in answer["wait"]["text"]
    assert answer["wait"]["holders"] == ["a job of another project"]


def test_a_job_that_waits_for_something_else_than_a_holder_is_told_no_end(member, project, whole, resource):
    huge = make.make_template(resource, "huge", cpu_millicores=10**9)
    [holder] = make.submit(project, whole, "holder", simulated_duration_s=HOURS_S)
    make.start([holder])
    make.submit(project, huge, "waits")
    cycle.run_once()

    assert wait_of(member, "waits") is None
