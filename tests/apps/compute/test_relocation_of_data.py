"""Jobs that read datasets are placed where these are, and move to where they start much earlier with their data."""

from datetime import UTC, datetime, timedelta

import pytest

from compute.adapters import drivers
from compute.adapters.scripted import ScriptedDriver
from compute.engine.ports import GpuFacts, NodeFacts
from compute.models import Job, JobEvent, Resource, ResourceSite
from compute.selectors import outlooks, pool_places
from compute.services import changes, submissions
from compute.services.submissions import Submission
from compute.workers import forecasts, launches, observe, probes
from core import clock, tasks
from datasets.models import CachedCommit, CacheHold, CacheSite
from datasets.selectors import caches as cache_selectors
from datasets.services import cache_sites, caches
from scheduler.models import Node, Workload
from scheduler.services import pool_members
from scheduler.workers import cycle
from tests.factories.datasets import commit_files, make_dataset, make_store

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
GIB = 2**30
SIZE = 10_000


@pytest.fixture
def at(null_queue):
    """Move the clock to so many seconds after noon, and let everything that ticks tick, twice."""
    with clock.frozen_at(NOON) as move:

        def at(seconds: float) -> None:
            move(NOON + timedelta(seconds=seconds))
            for _ in range(2):
                for row in CachedCommit.objects.filter(state__in=("queued", "hydrating")).order_by("pk"):
                    tasks.run("datasets.hydrate", {"cached_commit_id": row.pk})
                tasks.run("compute.queue_ready_jobs", {})
                cycle.run_once()
                launches.start_placed_jobs()
                observe.observe_all()
                forecasts.forecast_all()

        yield at


@pytest.fixture
def commit(member, project, site_admin, home, at):
    """A commit of 10,000 bytes, and two resources of one GPU with a cache site each that gets 100 bytes a second."""
    make_store(home / "store")
    for name in ("lab", "spare"):
        resource = Resource.objects.create(name=name, kind="simulated", is_simulated=True)
        node = NodeFacts(f"{name}-1", 8000, 64 * GIB, (GpuFacts(0, f"{name}-0", "V100", 32 * GIB),))
        drivers.install(resource, ScriptedDriver(home / name, (node,)))
        probes.probe_resource(resource=resource)
        config = {"size_bytes": 10**6, "rate_bytes_s": 100}
        cache_sites.create_site(actor=site_admin, name=f"{name}-cache", kind="simulated", config=config)
        ResourceSite.objects.create(resource=resource, site=f"{name}-cache", position=0)
    pool_members.ensure_queue(project_id=project.pk)
    return commit_files(member, make_dataset(member, project, "digits"), {"a.txt": b"x" * SIZE})


def put(site_admin, commit, name: str, *, is_ready: bool = True) -> None:
    site = CacheSite.objects.get(name=f"{name}-cache")
    copy = caches.request_cache(actor=site_admin, commit=commit, site=site)
    if is_ready:
        CachedCommit.objects.filter(pk=copy.pk).update(state="ready", bytes_done=SIZE, ready_at=clock.now())


def submit(member, project, name: str, *, seconds: float = 60.0, **changes) -> Job:
    wanted = {"command": "true", "gpu_milli": 1000, "pools": ["default", "spare"], "data": ["team-a/digits"]}
    submission = Submission(name=name, simulated_duration_s=seconds, **{**wanted, **changes})
    return submissions.submit_job(actor=member, project=project, submission=submission)


def occupy(member, project, resource: str, seconds: float) -> None:
    """Take the GPU of a resource for so long."""
    submit(member, project, f"on-{resource}", seconds=seconds, pools=[], resource=resource, data=[])


def place_of(name: str) -> tuple[str, str, str]:
    return Job.objects.values_list("resource__name", "state", "gate").get(name=name)


def held_for(name: str) -> list[str]:
    holds = CacheHold.objects.filter(holder=f"job:{Job.objects.get(name=name).pk}")
    return sorted(holds.values_list("cached_commit__site__name", flat=True))


def test_it_is_submitted_to_where_its_data_is(member, project, site_admin, commit):
    put(site_admin, commit, "spare")

    assert submit(member, project, "reads").resource.name == "spare"
    assert submit(member, project, "other", data=[]).resource.name == "lab"


def test_also_where_that_is_full(at, member, project, site_admin, commit):
    put(site_admin, commit, "spare")
    occupy(member, project, "spare", 60)
    at(0)

    assert submit(member, project, "reads").resource.name == "spare"


def test_of_places_that_lack_it_that_which_has_it_sooner(member, project, site_admin, commit):
    CacheSite.objects.filter(name="spare-cache").update(config={"size_bytes": 10**6, "rate_bytes_s": 200})

    assert submit(member, project, "reads").resource.name == "spare"


def test_who_would_wait_long_where_the_data_is_moves_and_the_data_is_brought(at, member, project, site_admin, commit):
    put(site_admin, commit, "spare")
    occupy(member, project, "spare", 3600)
    at(0)
    submit(member, project, "reads")

    at(1)

    assert (place_of("reads"), held_for("reads")) == (("lab", "pending", "data"), ["lab-cache"])
    messages = list(JobEvent.objects.filter(job__name="reads").order_by("seq").values_list("message", flat=True))
    assert messages[-1] == (
        "Moved from spare to lab, where it would start in about 1 min 40 s, with the time to bring its data."
    )
    at(102)
    assert (place_of("reads")[:2], held_for("reads")) == (("lab", "running"), ["lab-cache"])
    job = Job.objects.get(name="reads")
    assert job.workload.enqueued_at == job.created_at
    assert job.spec["data"][0]["source"] == CachedCommit.objects.get(site__name="lab-cache").source


def test_who_has_moved_is_not_told_of_the_place_that_it_left(at, member, project, site_admin, commit):
    put(site_admin, commit, "spare")
    occupy(member, project, "spare", 3600)
    at(0)
    job = submit(member, project, "reads")
    cycle.run_once()

    forecasts.forecast_all()

    job.refresh_from_db()
    assert (job.resource.name, job.reason) == ("lab", "Its data is being brought to lab.")
    assert outlooks.find_outlook(actor=member, job=job) is None
    forecasts.forecast_all()
    assert outlooks.find_outlook(actor=member, job=job).places[0].template == "lab.1-gpu"


def test_data_is_not_brought_for_who_starts_soon_where_it_is(at, member, project, site_admin, commit):
    put(site_admin, commit, "spare")
    occupy(member, project, "spare", 150)
    at(0)
    submit(member, project, "reads")

    at(1)

    assert (place_of("reads"), held_for("reads")) == (("spare", "pending", ""), ["spare-cache"])
    assert not CachedCommit.objects.filter(site__name="lab-cache").exists()


def test_who_waits_for_data_moves_to_where_it_is_once_it_can_start_there(at, member, project, site_admin, commit):
    submit(member, project, "reads", data=["team-a/digits"])
    put(site_admin, commit, "spare")

    at(1)

    assert (place_of("reads")[:2], held_for("reads")) == (("spare", "running"), ["spare-cache"])
    # Nobody needs what was on its way to the other place.
    assert not CachedCommit.objects.filter(site__name="lab-cache", state__in=("queued", "hydrating", "ready")).exists()


def test_who_goes_to_where_its_data_is_is_told_no_time_to_bring_it(at, member, project, site_admin, commit):
    occupy(member, project, "spare", 30)
    at(0)
    submit(member, project, "reads")
    put(site_admin, commit, "spare")

    at(1)

    message = JobEvent.objects.filter(job__name="reads").order_by("seq").last().message
    assert message == "Moved from lab to spare, where it would start in about 29 s."


@pytest.mark.parametrize("state", ["failed", "ready"])
def test_who_moves_while_its_data_is_looked_at_is_left_alone(member, project, commit, monkeypatch, state):
    job = submit(member, project, "reads")
    CachedCommit.objects.update(state=state)
    list_held, spare = cache_selectors.list_held, Resource.objects.get(name="spare")

    def list_and_move(holders):
        held = list_held(holders)
        Job.objects.filter(pk=job.pk).update(resource=spare)
        return held

    monkeypatch.setattr(cache_selectors, "list_held", list_and_move)
    tasks.run("compute.queue_ready_jobs", {})

    assert place_of("reads") == ("spare", "pending", "data")


def test_a_closed_place_is_told_to_who_reads_data_too(at, member, project, site_admin, commit):
    put(site_admin, commit, "spare")
    occupy(member, project, "spare", 60)
    at(0)
    job = submit(member, project, "reads")
    Node.objects.filter(resource_name="lab").update(is_drained=True)

    told = pool_places.explain_closed(actor=member, job=job)

    assert told == "lab (pool default) does not count now: all of its nodes are drained or do not answer."


def test_it_does_not_go_where_no_space_is_for_its_data(at, member, project, site_admin, commit):
    put(site_admin, commit, "spare")
    CacheSite.objects.filter(name="lab-cache").update(capacity_bytes=100, config={"size_bytes": 100, "rate_bytes_s": 1})
    occupy(member, project, "spare", 36_000)
    at(0)
    submit(member, project, "reads")

    at(1)

    assert (place_of("reads"), held_for("reads")) == (("spare", "pending", ""), ["spare-cache"])
    assert Workload.objects.get(name="reads").state == "pending"


def test_several_share_the_places_as_they_would_be_done_first(at, member, project, site_admin, commit):
    put(site_admin, commit, "spare")
    at(0)
    for number in range(4):
        submit(member, project, f"reads-{number}", seconds=600)

    at(1)
    at(2)

    places = [place_of(f"reads-{number}")[:2] for number in range(4)]
    assert places == [("spare", "running"), ("lab", "pending"), ("spare", "pending"), ("lab", "pending")]


def test_a_place_of_another_pool_is_told_as_what_would_help_also_without_a_template(
    at, member, project, site_admin, commit
):
    put(site_admin, commit, "lab")
    occupy(member, project, "lab", 3600)
    at(0)
    job = submit(member, project, "reads", pools=["default"])

    at(1)

    told = outlooks.find_outlooks(actor=member, jobs=[job])[job.pk]
    assert [(place.template, place.starts_at) for place in told.places] == [
        ("lab.1-gpu", NOON + timedelta(seconds=3600)),
    ]
    assert told.text.endswith("it starts about 13:00 UTC; its 10.0 kB are already on lab-cache.")
    tried = {each.text: each for each in changes.try_changes(actor=member, job=job).changes}
    assert tried["Run it on spare"].starts_at == NOON + timedelta(seconds=101)
