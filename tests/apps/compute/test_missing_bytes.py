"""The scheduler is told what of its data each waiting job lacks, resource by resource."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.permissions import Actor
from compute.engine.job_spec import Mount, Tree
from compute.models import Resource, ResourceSite
from compute.workers import data_waits
from core import clock
from datasets.models import CachedCommit, CacheSite, Commit, SharedContent
from datasets.selectors.locality import read_locality
from datasets.services import cache_sites, caches
from datasets.workers import site_checks
from scheduler.models import Workload
from tests.factories import compute as make
from tests.factories.datasets import commit_files, make_dataset, make_store

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("null_queue")]
NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
SITES_OF = {"here": ["near", "shared"], "there": ["far", "shared"]}


@pytest.fixture
def commits(home, member, project) -> list[Commit]:
    make_store(home / "store")
    dataset = make_dataset(member, project, "xray")
    return [commit_files(member, dataset, {"a": bytes([number]) * 100 * (number + 1)}) for number in range(3)]


@pytest.fixture
def resources(home, site_admin) -> dict[str, Resource]:
    """Two resources with a site of their own each, and one that both read."""
    found = {}
    for name, sites in SITES_OF.items():
        found[name], _ = make.make_resource(name)
        for position, site in enumerate(sites):
            if not CacheSite.objects.filter(name=site).exists():
                config = {"size_bytes": 10**6, "rate_bytes_s": 100}
                cache_sites.create_site(actor=site_admin, name=site, kind="simulated", config=config)
            ResourceSite.objects.create(resource=found[name], site=site, position=position)
    return found


def submit(project, resource: Resource, *commits: Commit, name: str = "train") -> Workload:
    template = resource.templates.first() or make.make_template(resource)
    data = [Mount(f"d{number}", Tree(commit.dataset_id, commit.root)) for number, commit in enumerate(commits)]
    (job,) = make.submit(project, template, name, data=data, commits=[commit.pk for commit in commits])
    return Workload.objects.get(pk=job.workload_id)


def put(commit: Commit, site: str, bytes_done: int, state: str) -> CachedCommit:
    """Have a copy of a commit on a site, as far as the test says."""
    row = CachedCommit.objects.filter(commit=commit, site__name=site).exclude(state__in=("gone", "evicting")).first()
    if row is None:
        site_row = CacheSite.objects.get(name=site)
        row = caches.request_cache(actor=Actor.system("test"), commit=commit, site=site_row)
    ready_at = clock.now() if state == "ready" else None
    CachedCommit.objects.filter(pk=row.pk).update(state=state, bytes_done=bytes_done, ready_at=ready_at)
    row.refresh_from_db()
    return row


def told(workload: Workload) -> dict[str, int]:
    """Return what the scheduler knows, by the name of the resource."""
    workload.refresh_from_db()
    names = dict(Resource.objects.values_list("pk", "name"))
    return {names[pk]: size for pk, size in workload.missing_bytes.items()}


def test_a_job_is_queued_with_what_each_resource_lacks(project, commits, resources):
    first, second, _ = commits
    put(first, "near", 100, "ready")
    put(second, "far", 150, "hydrating")

    workload = submit(project, resources["here"], first, second)

    assert told(workload) == {"here": 200, "there": 150}


def test_the_figures_follow_what_is_filled_on_becomes_ready_and_is_evicted(project, commits, resources):
    first, *_ = commits
    workload = submit(project, resources["here"], first)
    assert told(workload) == {"here": 100, "there": 100}

    seen = []
    for site, done, state in [("near", 40, "hydrating"), ("near", 100, "ready"), ("far", 99, "failed")]:
        put(first, site, done, state)
        data_waits.update_missing_bytes()
        seen.append(told(workload))
    put(first, "near", 100, "evicting")
    data_waits.update_missing_bytes()

    assert seen == [{"here": 60, "there": 100}, {"here": 0, "there": 100}, {"here": 0, "there": 1}]
    assert told(workload) == {"here": 100, "there": 1}


def test_what_a_new_copy_shares_with_the_copies_on_a_site_is_not_missing_there(project, commits, resources, member):
    dataset, kept = commits[0].dataset, {"big": b"b" * 400, "small": b"s" * 50}
    old, newest = commit_files(member, dataset, {"big": kept["big"]}), commit_files(member, dataset, kept | {"c": b"c"})
    put(old, "near", 400, "ready")
    assert told(submit(project, resources["here"], newest, name="early")) == {"here": 451, "there": 451}

    site_checks.measure_shared()
    workload = submit(project, resources["here"], newest)
    seen = [told(workload)]
    put(newest, "near", 0, "queued")
    for copied, state in [(commit_files(member, dataset, kept), "ready"), (old, "evicting")]:
        put(copied, "near", copied.size_bytes, state)
        site_checks.measure_shared()
        data_waits.update_missing_bytes()
        seen.append(told(workload))

    assert seen == [{"here": 51, "there": 451}, {"here": 1, "there": 451}, {"here": 1, "there": 451}]
    arrival = read_locality([newest.pk], ["near"]).arrival([newest.pk], ["near"])
    assert (arrival.missing_bytes, arrival.ready_in_s) == (1, 0.01)


def test_what_is_shared_is_worked_out_once_and_again_when_a_copy_becomes_ready_or_leaves(commits, resources, member):
    first, *_, newest = commits
    with clock.frozen_at(NOON) as move_to:
        put(first, "near", 100, "ready")
        measured = []
        for minute, change in enumerate([None, None, (commits[1], "ready"), (first, "gone"), (newest, "hydrating")]):
            move_to(NOON + timedelta(minutes=minute))
            if change is not None:
                put(change[0], "near", 1, change[1])
            site_checks.measure_shared()
            measured.append(SharedContent.objects.get(commit=newest, site__name="near").measured_at.minute)

    assert measured == [0, 0, 2, 2, 2]


def test_a_job_without_datasets_costs_no_statement_and_one_with_them_three(project, commits, resources):
    template = make.make_template(resources["here"])

    def statements(name: str, **spec) -> int:
        with CaptureQueriesContext(connection) as queries:
            make.submit(project, template, name, **spec)
        return len(queries)

    statements("first")
    bare = statements("bare")

    assert statements("reads", commits=[commit.pk for commit in commits]) == bare + 3
    assert Workload.objects.get(name="bare").missing_bytes is None


def test_an_update_costs_as_much_for_many_jobs_as_for_one_and_one_statement_where_none_reads_data(
    project, commits, resources
):
    def statements() -> int:
        with CaptureQueriesContext(connection) as queries:
            data_waits.update_missing_bytes()
        return len(queries)

    make.submit(project, make.make_template(resources["here"]), "bare")
    assert statements() == 1
    submit(project, resources["here"], commits[0])
    one = statements()
    for number in range(20):
        submit(project, resources["here"], commits[0], name=f"more-{number}")

    assert statements() == one
    put(commits[0], "near", 40, "hydrating")
    assert statements() == one + 1


def test_after_any_fills_and_evictions_the_figures_are_those_of_a_count_by_hand(project, commits, resources):
    chance = random.Random(20261122)
    workloads = {
        (commit_set := tuple(chance.sample(range(3), count))): submit(
            project, resources["here"], *(commits[index] for index in commit_set), name=f"job-{count}"
        )
        for count in (1, 2, 3)
    }
    for _ in range(60):
        index, site = chance.randrange(3), chance.choice(["near", "far", "shared"])
        state = chance.choice(["queued", "hydrating", "ready", "failed", "evicting", "gone"])
        size_bytes = commits[index].size_bytes
        put(commits[index], site, size_bytes if state == "ready" else chance.randrange(size_bytes + 1), state)
        data_waits.update_missing_bytes()

        for indices, workload in workloads.items():
            by_hand = {
                name: sum(commits[index].size_bytes - count_bytes(commits[index], sites) for index in indices)
                for name, sites in SITES_OF.items()
            }
            assert told(workload) == by_hand
            assert min(by_hand.values()) >= 0


def count_bytes(commit: Commit, sites: list[str]) -> int:
    """Return how much of a commit its fullest copy on these sites holds."""
    held = [0]
    for row in CachedCommit.objects.filter(commit=commit, site__name__in=sites):
        if row.state in {"queued", "hydrating", "ready", "failed"}:
            held.append(row.bytes_done)
    return max(held)
