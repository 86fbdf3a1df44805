"""A cached commit leaves a cluster although jobs that have ended read it: what they keep there goes before its time."""

from dataclasses import replace

import pytest
from django.db import connection

from accounts.permissions import Actor
from compute.adapters import drivers
from compute.adapters.scripted import ScriptedDriver
from compute.engine.job_spec import Mount, Volume
from compute.engine.states import Gate
from compute.models import Job, JobVolume, Resource, Template
from compute.services import jobs
from compute.workers import cleaning, observe, probes
from core import clock
from datasets.engine.cache_states import CacheState
from datasets.engine.volumes import claim_name
from datasets.models import CachedCommit, CacheSite
from tests.apps.config.test_flat_work import steps_of
from tests.factories import compute as make
from tests.factories.datasets import commit_files, make_dataset, make_store

SYSTEM = Actor.system("tests")


@pytest.fixture
def copy(home, member, project):
    """A commit on a volume of a cluster."""
    make_store(home / "store")
    commit = commit_files(member, make_dataset(member, project, "xrays"), {"a": b"one"})
    site = CacheSite.objects.create(name="volumes", kind="volume", root="volume://volumes", capacity_bytes=10**9)
    sizes = {"files_total": 1, "bytes_total": 3, "reserved_bytes": 3}
    return CachedCommit.objects.create(
        site=site, dataset=commit.dataset, commit=commit, state=CacheState.EVICTING, **sizes
    )


@pytest.fixture
def cluster(home, project, copy):
    """A cluster on which five jobs have been, by the script; with the claims whose shares it was told to delete."""
    resource = Resource.objects.create(name="k8s", kind="kubernetes")
    driver = ScriptedDriver(home / "k8s", make.NODES)
    driver.shares_told = []
    driver.delete_idle_shares = driver.shares_told.append
    drivers.install(resource, driver)
    probes.probe_resource(resource=resource)
    template = make.make_template(resource)
    reads = {"data": (Mount("xrays", Volume(claim_name(copy.pk), "files")),)}
    elsewhere = {"data": (Mount("xrays", Volume("nl-cc-other", "files")),)}
    specs = {"other": {}, "elsewhere": elsewhere, "reader": reads, "unread": reads, "running": reads}
    for name, spec in specs.items():
        make.start(make.submit(project, template, name, **spec))
        if name != "running":
            driver.finish(name)
    observe.observe_resource(resource_id=resource.pk)
    Job.objects.exclude(name="unread").update(log_stored_at=clock.now())
    return driver


def kept() -> set[str]:
    return set(Job.objects.filter(files_deleted_at=None).values_list("name", flat=True))


def test_of_ended_jobs_with_a_stored_log_what_names_a_leaving_claim_is_deleted_at_once(cluster, copy):
    assert cleaning.release_volumes() == 1

    assert kept() == {"other", "elsewhere", "unread", "running"}
    assert set(cluster.jobs.logs) == kept()
    assert cluster.shares_told == [{claim_name(copy.pk)}]


@pytest.mark.parametrize(
    ("state", "config"), [(CacheState.READY, {}), (CacheState.GONE, {}), (CacheState.EVICTING, {"sharing": "pool"})]
)
def test_while_no_claim_leaves_all_of_it_stays(cluster, state, config):
    CachedCommit.objects.update(state=state)
    CacheSite.objects.update(config=config)

    assert cleaning.release_volumes() == 0

    assert kept() == {"other", "elsewhere", "reader", "unread", "running"}
    assert cluster.shares_told == []


def test_a_job_whose_files_are_deleted_is_no_reader_any_more(cluster, copy):
    claims = JobVolume.objects.filter(claim=claim_name(copy.pk))
    assert set(claims.values_list("job__name", flat=True)) == {"reader", "unread", "running"}

    cleaning.release_volumes()

    assert set(claims.values_list("job__name", flat=True)) == {"unread", "running"}


def test_a_job_that_has_waited_for_its_data_is_a_reader_too(cluster, project):
    request = make.make_request(project, Template.objects.get(), "waited")
    jobs.submit_many(actor=SYSTEM, requests=[replace(request, gate=Gate.DATA)])
    waited = Job.objects.get(name="waited")

    data = (Mount("xrays", Volume("nl-cc-late", "files")),)
    jobs.open_gates(actor=SYSTEM, specs={waited.pk: replace(request.spec, data=data)})

    assert list(JobVolume.objects.filter(job=waited).values_list("claim", flat=True)) == ["nl-cc-late"]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite counts the steps of its statements")
def test_readers_are_found_without_a_look_at_the_other_jobs_that_have_ended(cluster):
    def add_ended(count: int) -> None:
        job = Job.objects.get(name="elsewhere")
        for number in range(Job.objects.count(), Job.objects.count() + count):
            job.pk, job.name, job.workload = f"job_{number}", f"job-{number}", None
            job.save(force_insert=True)
            JobVolume.objects.create(job=job, claim="nl-cc-other")

    cleaning.release_volumes()
    add_ended(10)

    few = steps_of(cleaning.release_volumes)
    add_ended(100)
    many = steps_of(cleaning.release_volumes)

    assert many == few


def test_what_a_cluster_that_is_away_has_is_deleted_once_it_answers(cluster):
    cluster.is_away = True
    assert cleaning.release_volumes() == 0
    assert "reader" in kept()

    cluster.is_away = False
    assert cleaning.release_volumes() == 1
