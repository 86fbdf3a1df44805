"""What a waiting job is told: why, until when, by whose right, and where else it would be done; in one sentence."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import Project, User
from accounts.services import projects
from compute.models import Job, Resource, ResourceSite
from compute.selectors import outlooks
from compute.services import jobs, submissions, suspensions, trials
from compute.services.submissions import Submission
from compute.workers import forecasts, launches, observe, parts
from core import clock, tasks
from core.models import Failure
from datasets.models import CachedCommit
from datasets.services import cache_sites
from scheduler.models import DEFAULT_POOL_ID, Forecast, Node, Pool, Queue, Workload
from scheduler.selectors import forecasts as engine_forecasts
from scheduler.selectors.forecasts import Corrections, NoForecast
from scheduler.selectors.workloads import list_overdue
from scheduler.services import pool_members, queues, workloads
from scheduler.workers import cycle
from tests.factories import compute as make
from tests.factories.api import call
from tests.factories.datasets import commit_files, make_dataset, make_store
from tests.factories.scheduler import NOON

pytestmark = pytest.mark.usefixtures("null_queue")

HOUR_S = 3600


@pytest.fixture
def whole(resource):
    return make.make_template(resource, "whole", cpu_millicores=8000)


def outlook_of(actor, name: str):
    job = Job.objects.select_related("workload").get(name=name)
    return outlooks.find_outlooks(actor=actor, jobs=[job]).get(job.pk)


def run_cycle() -> None:
    """Let a cycle decide, and start what it placed."""
    cycle.run_once()
    launches.start_placed_jobs()
    for resource_id in set(Job.objects.values_list("resource_id", flat=True)):
        observe.observe_resource(resource_id=resource_id)


def hold_and_wait(project, template, *, of=None, **spec) -> None:
    """Let one job hold all of the node, and another one wait for that."""
    make.submit(of or project, template, "holder", **spec)
    run_cycle()
    make.submit(project, template, "waits", simulated_duration_s=600)
    run_cycle()
    forecasts.forecast_all()


def test_a_waiting_job_is_told_who_holds_what_it_needs_and_when_it_starts(member, project, whole, move):
    hold_and_wait(project, whole, simulated_duration_s=2 * HOUR_S)

    told = outlook_of(member, "waits")

    assert (told.likely_at, told.late_at, told.line) == (NOON + timedelta(hours=2),) * 2 + (1,)
    assert told.text == (
        "This job waits for 8 CPU that team-a (holder) holds until about 14:00 UTC; it starts about 14:00 UTC."
    )


def test_after_35_minutes_the_end_of_the_holder_is_still_what_is_told(member, project, whole, move):
    hold_and_wait(project, whole, simulated_duration_s=2 * HOUR_S)
    move(NOON + timedelta(minutes=35))
    forecasts.forecast_all()

    assert outlook_of(member, "waits").likely_at == NOON + timedelta(hours=2)
    page = Client()
    page.force_login(User.objects.get(username="member"))
    assert "it starts about 14:00 UTC" in page.get("/jobs/waits/").content.decode()
    assert "it starts about 14:00 UTC" in page.get("/").content.decode()
    assert "it starts about 14:00 UTC" in page.get("/jobs/").content.decode()
    assert "No forecast" not in page.get("/jobs/waits/").content.decode()
    assert "What would help:" not in page.get("/jobs/waits/").content.decode()  # to wait, until then
    assert "scripted.whole</span>: CPU" in page.get("/jobs/waits/").content.decode()  # a row of the axis


def test_api_and_pages_say_the_same_sentence(member, project, whole, move):
    hold_and_wait(project, whole, simulated_duration_s=2 * HOUR_S)

    answer = call(member, "GET", "/compute/jobs/waits").body["outlook"]

    assert answer["text"] == outlook_of(member, "waits").text
    assert (answer["wait_class"], answer["line"]) == ("by_right", 1)
    (place,) = answer["places"]
    assert (place["template"], place["is_chosen"], place["run_s"]) == ("scripted.whole", True, 600)
    assert place["finishes_at"] == "2026-11-01T14:10:00.000Z"


def test_who_waits_for_jobs_that_are_being_stopped_for_it_is_told_that(member, site_admin, project, whole, move):
    other = projects.create_project(actor=site_admin, name="team-z")
    for each, quota in ((other, 0), (project, 8000)):
        pool_members.ensure_queue(project_id=each.pk)
        queues.set_quota(actor=site_admin, queue=Queue.objects.get(project=each), cpu_quota_millicores=quota)
    make.submit(other, whole, "holder", simulated_duration_s=HOUR_S)
    run_cycle()
    make.submit(project, whole, "waits", simulated_duration_s=600)
    cycle.run_once()
    forecasts.forecast_all()

    assert Job.objects.get(name="waits").workload.state == "pending"
    assert outlook_of(member, "waits").text == "This job waits for 8 CPU of jobs that are being stopped; it starts now."
    Resource.objects.update(is_simulated=False)
    Job.objects.filter(name="holder").update(grace_period_s=600)
    forecasts.forecast_all()
    assert outlook_of(member, "waits").text == (
        "This job waits for 8 CPU of jobs that are being stopped; it starts now, or up to 5 min later if the stopped jobs "
        "take as long as they may to end."
    )


def test_what_strangers_hold_is_told_without_their_names(member, site_admin, project, whole, move):
    other = projects.create_project(actor=site_admin, name="team-z")
    pool_members.ensure_queue(project_id=other.pk)
    hold_and_wait(project, whole, of=other, simulated_duration_s=HOUR_S)

    told = outlook_of(member, "waits")

    assert told.text == (
        "This job waits for 8 CPU that another project holds by right until about 13:00 UTC; it starts about 13:00 UTC."
    )
    assert [(holder.job, holder.project) for holder in told.holders] == [
        ("a job of another project", "another project")
    ]
    assert "team-z (holder) holds by right" in outlook_of(site_admin, "waits").text
    assert "team-z" not in str(call(member, "GET", "/compute/jobs/waits").body)


def test_without_history_of_the_holder_it_says_so(member, project, whole, resource, move):
    resource.is_simulated = False
    resource.save()
    hold_and_wait(project, whole)

    told = outlook_of(member, "waits")

    assert (told.likely_at, told.late_at) == (None, None)
    assert "when it starts is not known, as there is no history of how long those before it run" in told.text


def test_a_job_is_predicted_by_the_runs_like_it_given_how_long_it_has_run(member, project, whole, resource, move):
    resource.is_simulated = False
    resource.save()
    for number, minutes in enumerate([10, 20, 60, 80, 100]):
        [past] = make.submit(project, whole, f"past-{number}", command="python train.py --lr 3")
        ended = {"state": "succeeded", "started_at": NOON, "finished_at": NOON + timedelta(minutes=minutes)}
        Job.objects.filter(pk=past.pk).update(**ended)
        workloads.withdraw_many([past.workload_id])
    make.submit(project, whole, "holder", command="python train.py --lr 4")
    run_cycle()
    make.submit(project, whole, "waits", command="python train.py --lr 5")
    run_cycle()
    move(NOON + timedelta(minutes=30))

    forecasts.forecast_all()

    told = outlook_of(member, "waits")
    assert (told.likely_at, told.late_at) == (NOON + timedelta(minutes=80), NOON + timedelta(minutes=100))
    assert "in nine of ten cases by 13:40 UTC" in told.text


def test_the_other_resource_where_it_would_be_done_sooner_is_told(member, project, whole, home, move):
    free, _ = make.make_resource("cloud", root=home / "cloud")
    make.make_template(free, "big", cpu_millicores=8000, price_per_hour=Decimal("3.6"))
    hold_and_wait(project, whole, simulated_duration_s=2 * HOUR_S)

    told = outlook_of(member, "waits")

    assert told.text.endswith("; on cloud.big it would start now and be done 2 h sooner.")
    assert [place.cost for place in told.places] == [None, 0.6]  # ten minutes
    assert [(place.template, place.is_chosen) for place in told.places] == [
        ("scripted.whole", True),
        ("cloud.big", False),
    ]
    assert not Workload.objects.filter(resource_id=free.pk).exists()


@pytest.mark.usefixtures("move")
def test_resources_of_other_pools_are_no_place_for_a_job_that_goes_to_its_pools(member, project, whole, home):
    other, _ = make.make_resource("cloud", root=home / "cloud")
    big = make.make_template(other, "big", cpu_millicores=8000)
    make.submit(project, big, "far")
    hold_and_wait(project, whole)
    job = Job.objects.get(name="waits")
    Job.objects.filter(pk=job.pk).update(spec={**job.spec, "pools": ["default"]})

    def places() -> list[str]:
        forecasts.forecast_all()
        return [place.template for place in outlook_of(member, "waits").places]

    assert places() == ["scripted.whole", "cloud.0-gpu"]
    pool_members.move(Pool.objects.create(name="quick"), [other.pk])
    assert places() == ["scripted.whole"]


@pytest.fixture
def far(home):
    """Return a template on a resource that has a pool of its own."""
    cloud, _ = make.make_resource("cloud", root=home / "cloud")
    pool_members.move(Pool.objects.create(name="far"), [cloud.pk])
    return make.make_template(cloud, "big", cpu_millicores=8000)


def test_a_pool_in_which_the_engine_fails_is_no_place_and_costs_no_other_its_forecasts(
    member, whole, far, move, monkeypatch
):
    project, pool = Project.objects.get(), Pool.objects.get(name="far")
    works, far_nodes = (
        engine_forecasts.Forward,
        set(Node.objects.filter(resource_id=far.resource_id).values_list("pk", flat=True)),
    )

    def fail_there(snapshot, *more, **rules):
        if any(node.id in far_nodes for node in snapshot.nodes):
            raise ZeroDivisionError
        return works(snapshot, *more, **rules)

    make.submit(project, far, "there", simulated_duration_s=HOUR_S)
    run_cycle()
    make.submit(project, far, "lost", simulated_duration_s=HOUR_S)
    with monkeypatch.context() as faulty:
        faulty.setattr(engine_forecasts, "Forward", fail_there)
        hold_and_wait(project, whole, simulated_duration_s=2 * HOUR_S)
        told = outlook_of(member, "waits")
        (failure,) = Failure.objects.all()
        with pytest.raises(NoForecast):
            trials.try_job(actor=member, project=project, submission=Submission("cloud.big", "true"))
        tried = trials.try_job(actor=member, project=project, submission=Submission("scripted.whole", "true"))

    assert (told.likely_at, [place.template for place in told.places]) == (
        NOON + timedelta(hours=2),
        ["scripted.whole"],
    )
    assert tried.outlook.likely_at == NOON + timedelta(hours=2, minutes=10)
    assert outlook_of(member, "lost") is None
    assert (failure.kind, failure.item_id) == ("compute.forecast_pool", pool.pk)
    assert failure.error == "an internal error (ZeroDivisionError)"
    move(NOON + timedelta(seconds=5))
    forecasts.forecast_all()
    assert outlook_of(member, "lost").likely_at == NOON + timedelta(hours=1)
    assert not Failure.objects.exists()


def hydrate() -> None:
    """Let the sites fill as far as the clock says."""
    for row in CachedCommit.objects.order_by("pk"):
        tasks.run("datasets.hydrate", {"cached_commit_id": row.pk})


@pytest.fixture
def far_data(member, site_admin, home, resource, move):
    """A commit of 1,000 bytes on no site, and two resources that each read a simulated site, at 1 and at 10 bytes/s."""
    make_store(home / "store")
    cloud, _ = make.make_resource("cloud", root=home / "cloud")
    make.make_template(cloud, "big", cpu_millicores=8000)
    for site, rate, place in (("lab-cache", 1, resource), ("cloud-cache", 10, cloud)):
        config = {"size_bytes": 10**6, "rate_bytes_s": rate}
        cache_sites.create_site(actor=site_admin, name=site, kind="simulated", config=config)
        ResourceSite.objects.create(resource=place, site=site, position=0)
    return commit_files(member, make_dataset(member, Project.objects.get(), "digits"), {"a.txt": b"x" * 1000})


def test_data_that_still_moves_and_the_end_of_the_holder_are_told_together(member, project, whole, far_data, move):
    make.submit(project, whole, "holder", simulated_duration_s=HOUR_S)
    run_cycle()
    wanted = Submission("scripted.whole", "true", "waits", data=["team-a/digits"], simulated_duration_s=600)
    submissions.submit_job(actor=member, project=project, submission=wanted)
    hydrate()
    move(NOON + timedelta(seconds=400))
    hydrate()
    forecasts.forecast_all()

    told = outlook_of(member, "waits")

    assert told.text == (
        "This job waits for 8 CPU that team-a (holder) holds until about 13:00 UTC; it starts about 13:00 UTC; "
        "400 B of its data are on lab-cache, 600 B still move and will be there about 12:16 UTC; "
        "on cloud.big it would start about 12:08 UTC and be done 51 min 40 s sooner."
    )
    assert told.chosen.data.ready_at == NOON + timedelta(seconds=1000)
    assert told.runner_up.starts_at == NOON + timedelta(seconds=500)


@pytest.mark.parametrize("is_simulated", [True, False])
def test_nodes_that_do_not_exist_are_no_place_for_work_on_those_that_do(member, project, whole, home, is_simulated):
    Resource.objects.filter(pk=whole.resource_id).update(is_simulated=is_simulated)
    other, _ = make.make_resource("other", root=home / "other")
    make.make_template(other, "big", cpu_millicores=8000)
    hold_and_wait(project, whole, simulated_duration_s=HOUR_S)

    places = [place.template for place in outlook_of(member, "waits").places]
    assert places == ["scripted.whole", *(["other.big"] if other.is_simulated == is_simulated else [])]


@pytest.mark.usefixtures("whole", "far_data")
def test_a_resource_without_a_site_is_no_place_for_a_job_that_reads_a_dataset(member, project, home):
    bare, _ = make.make_resource("bare", root=home / "bare")
    make.make_template(bare, "big", cpu_millicores=8000)
    wanted = Submission("scripted.whole", "true", "waits", data=["team-a/digits"], simulated_duration_s=600)
    submissions.submit_job(actor=member, project=project, submission=wanted)

    forecasts.forecast_all()

    places = [place.template for place in outlook_of(member, "waits").places]
    assert places == ["scripted.whole", "cloud.big"]


def test_a_forecast_is_scored_when_the_job_starts_and_what_was_told_first_counts(project, whole, resource, move):
    hold_and_wait(project, whole, simulated_duration_s=2 * HOUR_S)
    move(NOON + timedelta(hours=1))
    forecasts.forecast_all()
    workloads.release_many([Job.objects.get(name="holder").workload_id])
    Job.objects.filter(name="holder").update(state="succeeded", finished_at=clock.now())
    cycle.run_once()

    forecasts.forecast_all()

    row = Forecast.objects.get(name="waits")
    assert (row.made_at, row.likely_at, row.late_at) == (NOON, *(NOON + timedelta(hours=2),) * 2)
    assert row.started_at == NOON + timedelta(hours=1)


def add_past(count: int, *, said_s: float, waited_s: float | None) -> None:
    """Store forecasts of the pool that were made a day ago; None: the jobs still wait."""
    made_at = NOON - timedelta(days=1)
    Forecast.objects.bulk_create(
        Forecast(
            name=f"past-{waited_s}-{number}",
            pool_id=DEFAULT_POOL_ID,
            made_at=made_at,
            likely_at=made_at + timedelta(seconds=said_s),
            late_at=made_at + timedelta(seconds=said_s),
            raw_likely_s=said_s,
            raw_late_s=said_s,
            latest_at=made_at,
            started_at=None if waited_s is None else made_at + timedelta(seconds=waited_s),
        )
        for number in range(count)
    )


@pytest.mark.usefixtures("move")
def test_a_forecast_is_corrected_by_waits_that_go_on_too(project):
    pool_members.ensure_queue(project_id=project.pk)
    add_past(14, said_s=2 * HOUR_S, waited_s=HOUR_S)
    add_past(6, said_s=2 * HOUR_S, waited_s=3 * HOUR_S)

    ended_alone = Corrections().of(DEFAULT_POOL_ID).of(2 * HOUR_S, 2 * HOUR_S, "by_right")
    add_past(20, said_s=2 * HOUR_S, waited_s=None)
    with_waiting = Corrections().of(DEFAULT_POOL_ID).of(2 * HOUR_S, 2 * HOUR_S, "by_right")

    assert (ended_alone, with_waiting) == ((HOUR_S, 3 * HOUR_S), (3 * HOUR_S, 3 * HOUR_S))


def test_a_forecast_is_corrected_by_those_of_the_past_and_what_the_engine_said_is_kept(member, project, whole, move):
    add_past(10, said_s=2 * HOUR_S, waited_s=3 * HOUR_S)

    hold_and_wait(project, whole, simulated_duration_s=2 * HOUR_S)

    told, row = outlook_of(member, "waits"), Forecast.objects.get(name="waits")
    assert (told.likely_at, told.late_at, told.compared) == (*(NOON + timedelta(hours=3),) * 2, 10)
    assert (row.likely_at, row.raw_likely_s, row.raw_late_s) == (told.likely_at, 2 * HOUR_S, 2 * HOUR_S)
    assert (told.chosen.starts_at, told.chosen.late_at) == (told.likely_at, told.late_at)
    assert told.chosen.finishes_at == NOON + timedelta(hours=3, minutes=10)


@pytest.mark.parametrize(
    ("past", "words"),
    [
        (9, "Too few forecasts in this pool have been compared with what happened yet"),
        (10, "These times are corrected by what came of the last 10 forecasts in this pool."),
    ],
)
@pytest.mark.usefixtures("member", "move")
def test_the_page_of_a_job_says_whether_its_times_are_corrected(project, whole, past, words):
    add_past(past, said_s=2 * HOUR_S, waited_s=3 * HOUR_S)
    hold_and_wait(project, whole, simulated_duration_s=2 * HOUR_S)
    page = Client()
    page.force_login(User.objects.get(username="member"))

    assert words in " ".join(page.get("/jobs/waits/").content.decode().split())


def test_what_was_told_and_did_not_hold_raises_what_is_aimed_at(project, whole, move):
    hold_and_wait(project, whole, simulated_duration_s=2 * HOUR_S)
    move(NOON + timedelta(hours=3))
    workloads.release_many([Job.objects.get(name="holder").workload_id])
    Job.objects.filter(name="holder").update(state="succeeded", finished_at=clock.now())
    cycle.run_once()

    forecasts.score_started()
    forecasts.score_started()

    pool = Pool.objects.get(pk=DEFAULT_POOL_ID)
    assert (pool.likely_level, pool.late_level) == (0.525, pytest.approx(0.918))


def test_a_job_is_forecast_once_a_cycle_has_left_it_without_a_place(project, whole, move):
    make.submit(project, whole, "holder", simulated_duration_s=HOUR_S)
    make.submit(project, whole, "waits", simulated_duration_s=600)
    forecasts.forecast_all()
    assert not Forecast.objects.exists()

    cycle.run_once()  # the first one has its place, and has not begun
    forecasts.forecast_all()

    assert [row.name for row in Forecast.objects.all()] == ["waits"]


def test_a_time_limit_of_the_project_is_forecast_as_the_cycle_counts_it_from_the_placing(member, project, whole, move):
    pool_members.ensure_queue(project_id=project.pk)
    Queue.objects.update(training_run_at_most_s=HOUR_S)
    make.submit(project, whole, "holder", simulated_duration_s=9 * HOUR_S)
    cycle.run_once()
    move(NOON + timedelta(minutes=10))
    run_cycle()  # only now it begins
    make.submit(project, whole, "waits", simulated_duration_s=600)
    run_cycle()
    move(NOON + timedelta(minutes=20))
    forecasts.forecast_all()
    told = outlook_of(member, "waits").likely_at

    move(told - timedelta(seconds=1))
    cycle.run_once()
    before = list_overdue()
    move(told)
    cycle.run_once()

    assert (told, Job.objects.get(name="holder").started_at) == (
        NOON + timedelta(hours=1),
        NOON + timedelta(minutes=10),
    )
    assert (before, list(list_overdue().values())) == ({}, ["time_limit"])


@pytest.mark.parametrize("stop", [jobs.cancel_job, suspensions.suspend_job])
@pytest.mark.parametrize("left_s", [0, 120])
def test_who_waits_for_a_job_that_is_being_stopped_waits_for_its_grace_period(member, whole, move, stop, left_s):
    hold_and_wait(Project.objects.get(), whole, simulated_duration_s=9 * HOUR_S)
    Job.objects.filter(name="holder").update(grace_period_s=120)
    Resource.objects.update(is_simulated=not left_s)
    move(NOON + timedelta(minutes=10))
    stop(actor=member, job=Job.objects.get(name="holder"))
    forecasts.forecast_all()

    assert outlook_of(member, "waits").likely_at == NOON + timedelta(minutes=10, seconds=left_s)


def test_only_some_of_the_jobs_that_wait_can_be_forecast(project, whole, move):
    make.submit(project, whole, "holder", simulated_duration_s=HOUR_S)
    run_cycle()
    make.submit(project, whole, "first", simulated_duration_s=600)
    make.submit(project, whole, "second", simulated_duration_s=600)
    run_cycle()

    forecasts.forecast_all(only={"second"})

    row = Forecast.objects.get()
    assert (row.name, row.likely_at) == ("second", NOON + timedelta(hours=1, minutes=10))


def test_the_forecast_of_a_cancelled_job_is_dropped(project, whole, move):
    hold_and_wait(project, whole, simulated_duration_s=2 * HOUR_S)
    Job.objects.filter(name="waits").update(state="cancelled", finished_at=NOON)
    workloads.withdraw_many([Job.objects.get(name="waits").workload_id])

    forecasts.forecast_all()

    assert not Forecast.objects.exists()


def test_a_job_with_parts_is_told_the_wait_of_the_first_part_that_waits(member, project, whole, move):
    make.submit(project, whole, "holder", simulated_duration_s=2 * HOUR_S)
    run_cycle()
    wanted = Submission(template="scripted.whole", command="true", name="hpo", completions=2)
    job = submissions.submit_job(actor=member, project=project, submission=wanted)
    parts.advance_parts()
    run_cycle()
    forecasts.forecast_all()

    told = outlooks.find_outlook(actor=member, job=job)

    assert told == outlook_of(member, "hpo-0.1")
    assert told.likely_at == NOON + timedelta(hours=2)
    assert call(member, "GET", "/compute/jobs/hpo").body["outlook"]["line"] == 1
    why_of = {item["name"]: item["why"] for item in call(member, "GET", "/compute/jobs").body["items"]}
    assert why_of["hpo"] == f"0 of 2 done, 1 waiting. {told.text}"


def test_lists_say_the_sentence_of_the_page_with_as_many_queries_for_many_jobs(
    member, project, whole, move, django_assert_num_queries
):
    hold_and_wait(project, whole, simulated_duration_s=600)
    waiting = Job.objects.select_related("workload").get(name="waits")
    with CaptureQueriesContext(connection) as queries:
        one = call(member, "GET", "/compute/jobs?limit=2").body["items"]
    for name in ("more", "most"):
        make.submit(project, whole, name, simulated_duration_s=600)
    run_cycle()
    forecasts.forecast_all()

    with django_assert_num_queries(len(queries)):
        items = call(member, "GET", "/compute/jobs").body["items"]

    why_of = {item["name"]: item["why"] for item in items}
    sentence = outlooks.find_outlooks(actor=member, jobs=[waiting])[waiting.pk].text
    assert "holder" in sentence
    assert [item["why"] for item in one if item["name"] == "waits"] == [why_of["waits"]] == [sentence]
    assert "waits" in why_of["more"]
    assert "holder" not in why_of["holder"]
