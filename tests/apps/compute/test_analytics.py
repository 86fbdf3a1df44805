"""Analytics: a pool over time, what projects consumed, and evictions with their receipts, as a browser shows them."""

from datetime import timedelta

import pytest

from accounts.services import projects
from compute.models import Job, Template
from compute.services import submissions
from scheduler.models import Eviction, Queue, Workload
from scheduler.services import pool_members, queues
from scheduler.workers import cycle, node_spans, usage
from tests.factories import compute as make
from tests.factories.browsers import browser_of
from tests.factories.scheduler import NOON, enqueue, report, report_nodes

pytestmark = pytest.mark.django_db


def shown(actor, address: str) -> str:
    answer = browser_of(actor).get(address)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.fixture
def evicted(site_admin, project, move) -> Eviction:
    """Let guests lose one of two GPUs to the owner after ten minutes, and sample what was held."""
    queue = Queue.objects.get(pk=pool_members.ensure_queue(project_id=project.pk))
    queues.set_quota(actor=site_admin, queue=queue, gpu_quota_milli=2000)
    guests = projects.create_project(actor=site_admin, name="guests")
    report_nodes(report("n1", 2))
    usage.sample()
    enqueue(guests, "visitor", "stays", gpus=1)
    cycle.run_once()
    move(NOON + timedelta(minutes=10))
    usage.sample()
    enqueue(project, "claim", gpus=1)
    cycle.run_once()
    return Eviction.objects.get()


def test_charts_consumption_and_evictions_are_on_one_page(site_admin, evicted):
    page = shown(site_admin, "/analytics/")

    assert [title in page for title in ("GPUs per project", "Pending GPUs", "Utilisation")] == [True] * 3
    assert "20 GPU-min" in page
    assert "Reclaim by right: the claimant stays within its quota of 2 GPUs" in page
    assert "visitor: is older" in " ".join(page.split())
    assert '<a href="/jobs/claim/">' in page


def test_projects_are_drawn_against_their_quotas_where_they_have_any(site_admin, evicted, move):
    guests = Queue.objects.get(project__name="guests")
    assert "guests quota" not in shown(site_admin, "/analytics/")
    queues.set_quota(actor=site_admin, queue=guests, gpu_quota_milli=1000)
    move(NOON + timedelta(minutes=11))
    usage.sample()

    for address in ("/analytics/", "/analytics/?project=guests&range=7d"):
        chart = browser_of(site_admin).get(address).context["charts"][0]
        held, quota = (next(line for line in chart.series if line.label == name) for name in ("guests", "guests quota"))
        assert (held.hue, held.dashed, quota.dashed, quota.values[-1]) == (quota.hue, False, True, 1)
    assert "Evictions and moves" in shown(site_admin, "/analytics/?range=7d")


def test_each_gpu_has_a_row_over_time_and_projects_of_others_have_no_name_there(site_admin, make_actor, evicted):
    node_spans.sample()

    assert 'aria-label="GPU 0: guests 100%"' in shown(site_admin, "/analytics/")
    assert 'aria-label="GPU 0: another project 100%"' in shown(make_actor(), "/analytics/")


def test_charts_span_the_chosen_time_however_short_the_history_is(site_admin, evicted):
    assert '"x_range": [-24.0, 0.0]' in shown(site_admin, "/analytics/")
    assert '"x_range": [-60.0, 0.0]' in shown(site_admin, "/analytics/?range=1h")


def test_a_pool_with_nodes_that_do_not_exist_is_marked(site_admin):
    report_nodes(report("n1", 2), simulated=False)
    assert '<span class="tag simulated">' not in shown(site_admin, "/analytics/")
    report_nodes(report("n1", 2))
    assert '<span class="tag simulated">' in shown(site_admin, "/analytics/")


def test_a_member_reads_its_own_projects_and_no_name_of_others(viewer, evicted, project):
    page = shown(viewer, "/analytics/")

    assert "guests" not in page
    assert "visitor" not in page
    assert "No job was evicted in this time." in page


def test_without_history_the_page_says_what_will_stand_there(site_admin):
    page = shown(site_admin, "/analytics/")

    assert "No history yet" in page
    assert "nearline job submit" in page


@pytest.mark.parametrize("query", ["range=3d", "range=", "pool=none", "project=none"])
def test_what_does_not_exist_is_no_fault_of_the_platform(site_admin, query):
    assert browser_of(site_admin).get(f"/analytics/?{query}").status_code in {200, 400, 404}


def test_consumption_is_a_file_for_spreadsheets(site_admin, evicted):
    answer = browser_of(site_admin).get("/analytics/consumption.csv?range=1d")

    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.content.decode().splitlines() == ["project,pool,gpu_hours,price", "guests,default,0.3333,0.0000"]


def test_a_job_asks_for_the_price_of_its_template_times_its_replicas(project, template):
    Template.objects.filter(pk=template.pk).update(price_per_hour="2.5")

    make.submit(project, Template.objects.select_related("resource").get(pk=template.pk), "priced")

    assert Workload.objects.get(name="priced").price_per_hour == 2.5


@pytest.fixture
def preempted(site_admin, project, template, move) -> Job:
    """Let a job be stopped for one that was submitted behind it, and is deleted since."""
    (job,) = make.submit(project, template, "train")
    (claimant,) = make.submit(project, template, "urgent")
    workload = Workload.objects.get(name="train")
    Job.objects.filter(pk=job.pk).update(evictions=1)
    Eviction.objects.create(
        at=NOON + timedelta(minutes=1),
        cycle="cycle_1",
        project=project,
        workload=workload,
        code="preempted",
        claim_class="priority",
        claimant=Workload.objects.get(name="urgent"),
        gpu_milli=2000,
        placed_at=NOON,
        saved_at=NOON + timedelta(seconds=30),
        lost_gpu_s=60.0,
        is_moved=False,
        victim_share={"queue_id": workload.queue_id, "quota": 2000, "fair": 2000, "before": 2000, "after": 0},
        claimant_share={"queue_id": workload.queue_id, "quota": 2000, "fair": 2000, "before": 2000, "after": 0},
    )

    submissions.delete_job(actor=site_admin, job=claimant)
    return job


def test_a_job_s_page_lists_its_evictions(site_admin, preempted):
    page = " ".join(shown(site_admin, "/jobs/train/").split())

    assert "Priority: the claimant has a higher one in the same project." in page
    assert "1 GPU-min" in page
    assert "30 s since its checkpoint" in page


def test_no_link_leads_to_a_job_that_was_deleted(site_admin, preempted):
    page = shown(site_admin, "/jobs/train/")

    assert "urgent (deleted)" in page
    assert "/jobs/urgent/" not in page


def test_jobs_that_failed_for_one_cause_are_found_over_all_projects(site_admin, viewer, project, template):
    other = projects.create_project(actor=site_admin, name="other")
    make.submit(project, template, "ours", "well")
    make.submit(other, template, "theirs")
    Job.objects.filter(name__in=("ours", "theirs")).update(state="failed", reason_code="out_of_memory")
    address = "/jobs/?state=failed&cause=out_of_memory&project="

    everything, own = shown(site_admin, address), shown(viewer, address)

    assert [f'href="/jobs/{name}/"' in everything for name in ("ours", "theirs", "well")] == [True, True, False]
    assert [f'href="/jobs/{name}/"' in own for name in ("ours", "theirs", "well")] == [True, False, False]
    assert 'href="/jobs/ours/"' not in shown(site_admin, "/jobs/?cause=timeout&project=")
    assert browser_of(site_admin).get("/jobs/?cause=none").status_code == 400
