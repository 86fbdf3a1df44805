"""What the cluster keeps of jobs that the database does not know any more."""

import time
from dataclasses import replace

import pytest

from compute.adapters import drivers
from compute.models import Job
from compute.workers import cleaning, launches, observe
from scheduler.models import Workload
from tests.factories import compute as make
from tests.kubernetes.api import LIMIT_S
from tests.kubernetes.attached import attached, run_to_its_end

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def home(settings, tmp_path):
    settings.NEARLINE = replace(settings.NEARLINE, home=tmp_path)


def forget_in_database(job):
    Job.objects.filter(pk=job.pk).delete()
    Workload.objects.filter(pk=job.workload_id).delete()


def runs_of(resource):
    return {name for names in drivers.driver_of(resource).list_leftovers().values() for name in names}


def objects_of(control_plane, namespace):
    names = set()
    for kind in ("pods", "secrets"):
        for item in control_plane.api.list(f"/api/v1/namespaces/{namespace}/{kind}"):
            if item["metadata"]["name"].startswith("nl-"):
                names.add((kind, item["metadata"]["annotations"]["nearline.dev/name"]))
    return names


def test_what_is_left_of_jobs_that_are_gone_is_deleted_and_nothing_of_anybody_else(
    control_plane, home, project, site_admin
):
    with attached(control_plane, site_admin) as (ours, template):
        namespace = ours.config["namespace"]
        with attached(control_plane, site_admin, name="others", namespace=namespace) as (others, of_others):
            run_to_its_end(project, template, "kept")
            forget_in_database(run_to_its_end(project, template, "gone"))
            forget_in_database(run_to_its_end(project, of_others, "foreign"))
            # To this installation the other one does not exist.
            type(others).objects.filter(pk=others.pk).update(detached_at="2026-01-01T00:00:00Z")
            control_plane.api.delete(
                next(
                    f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
                    for pod in control_plane.api.list(f"/api/v1/namespaces/{namespace}/pods")
                    if pod["metadata"]["annotations"]["nearline.dev/name"] == "gone"
                )
            )
            assert runs_of(ours) == {"kept", "gone"}

            assert cleaning.delete_orphans() == 1

            assert objects_of(control_plane, namespace) == {
                ("pods", "kept"),
                ("secrets", "kept"),
                ("pods", "foreign"),
                ("secrets", "foreign"),
            }
            assert cleaning.delete_orphans() == 0


def test_a_pod_that_still_runs_is_stopped_before_it_is_deleted(control_plane, home, project, site_admin):
    with attached(control_plane, site_admin) as (resource, template):
        [job] = make.submit(project, template, "endless", env={"SIMULATED_END": "never"})
        make.place([job])
        launches.start_placed_jobs()
        forget_in_database(job)

        cleaning.delete_orphans()
        assert runs_of(resource) == {"endless"}

        deadline = time.monotonic() + LIMIT_S
        while runs_of(resource):
            assert time.monotonic() < deadline
            observe.observe_resource(resource_id=resource.pk)
            cleaning.delete_orphans()
