"""Copies for what may be read next, in clusters: their pods stop for what is needed now, and others go on then."""

import pytest

from core.kubernetes.errors import ClusterUnreachable
from datasets.engine.volumes import claim_name, pool_claim_name
from datasets.models import CachedCommit, CacheSite
from datasets.services import cache_sites, caches
from datasets.workers import cache_hydration, evictions
from tests.factories.clusters import STORAGE_CLASS, lab
from tests.factories.datasets import commit_files, make_dataset

pytestmark = pytest.mark.django_db(transaction=True)
CONFIG = {"resource": "lab", "storage_class": STORAGE_CLASS, "size_bytes": 10**12}
MADE = {"root": "r", "files_done": 1, "bytes_done": 1, "bytes_shared": 0, "bytes_copied": 0, "bytes_moved": 1}


@pytest.fixture(autouse=True)
def cluster():
    with lab() as cluster:
        yield cluster


@pytest.fixture(params=["volume", "pool"])
def site(request, db, site_admin) -> CacheSite:
    return cache_sites.create_site(
        actor=site_admin, name="near", kind="volume", config=CONFIG | {"sharing": request.param}
    )


@pytest.fixture
def ahead(member, commit, site, worker, cluster) -> CachedCommit:
    """One whose Job runs in the cluster."""
    row = caches.request_cache(actor=member, commit=commit, site=site, holder="next", why="a step", is_ahead=True)
    hydrate(row)
    is_pool = site.config["sharing"] == "pool"
    cluster.bind(pool_claim_name(site.pk) if is_pool else claim_name(row.pk))
    assert hydrate(row) == ("hydrating", "")
    assert cluster.job(claim_name(row.pk)) is not None
    return row


@pytest.fixture
def needed(member, project, ahead, site) -> CachedCommit:
    """Asked for after the other one, by a person."""
    commit = commit_files(member, make_dataset(member, project, "urgent"), {"a": b"1" * 1000})
    return caches.request_cache(actor=member, commit=commit, site=site)


def hydrate(row: CachedCommit) -> tuple[str, str]:
    cache_hydration.hydrate_cached_commit(cached_commit_id=row.pk)
    row.refresh_from_db()
    return row.state, row.waits_for


def test_its_job_is_deleted_for_what_is_needed_now_and_another_one_goes_on_then(cluster, ahead, needed, worker):
    name = claim_name(ahead.pk)
    places = {path for path in cluster.objects if "/jobs/jobs/" not in path and not path.endswith(f"/secrets/{name}")}
    worker.messages = []

    hydrate(needed)
    assert ("datasets.hydrate", {"cached_commit_id": ahead.pk}) in worker.messages
    assert hydrate(ahead) == ("queued", "the copies that are needed on near now")
    assert ahead.paused_at is not None
    assert ahead.events.last().message == f"Makes way for team-a/urgent@{needed.commit.short}, which is needed now."
    assert cluster.job(name) is None
    assert places <= set(cluster.objects)
    assert hydrate(ahead) == ("queued", "the copies that are needed on near now")
    assert cluster.job(name) is None

    CachedCommit.objects.filter(pk=needed.pk).update(state="ready")
    assert hydrate(ahead) == ("hydrating", "")
    assert cluster.job(name) is not None
    assert ahead.paused_at is None


def test_another_one_begins_once_the_pods_of_the_first_have_ended(cluster, ahead, needed):
    name = claim_name(ahead.pk)
    pod = f"/api/v1/namespaces/jobs/pods/{name}-0"
    labels = {"batch.kubernetes.io/job-name": name}
    cluster.objects[pod] = {"metadata": {"name": f"{name}-0", "labels": labels}, "status": {"phase": "Running"}}
    hydrate(ahead)
    CachedCommit.objects.filter(pk=needed.pk).update(state="ready")

    assert hydrate(ahead) == ("hydrating", f"the end of the pod {name}-0, which filled it before")
    assert cluster.job(name) is None
    del cluster.objects[pod]
    assert hydrate(ahead) == ("hydrating", "")
    assert cluster.job(name) is not None


def test_what_is_filled_is_let_get_ready(cluster, ahead, needed):
    cluster.end(claim_name(ahead.pk), messages=[MADE])

    assert hydrate(ahead) == ("ready", "")


def test_while_the_cluster_does_not_answer_it_is_tried_again(cluster, ahead, needed, monkeypatch):
    with monkeypatch.context() as patch:

        def fail(*_arguments, **_query):
            raise ClusterUnreachable("No route to host.")

        patch.setattr(cluster, "get", fail)
        patch.setattr(cluster, "list", fail)
        assert hydrate(ahead) == ("hydrating", "the cluster: No route to host.")
    assert cluster.job(claim_name(ahead.pk)) is not None

    assert hydrate(ahead)[0] == "queued"
    assert cluster.job(claim_name(ahead.pk)) is None


@pytest.mark.usefixtures("needed")
def test_once_somebody_needs_it_now_it_does_not_stop(member, commit, site, cluster, ahead):
    caches.request_cache(actor=member, commit=commit, site=site, holder="attempt", why="a step")

    assert hydrate(ahead) == ("hydrating", "")
    assert cluster.job(claim_name(ahead.pk)) is not None


def test_nothing_is_left_of_one_that_stopped_and_is_not_wanted_any_more(member, cluster, ahead, needed):
    hydrate(ahead)

    caches.release_holds(actor=member, holder="next")
    for _ in range(3):
        evictions.remove_copy(cached_commit_id=ahead.pk)
        if cluster.job(f"{claim_name(ahead.pk)}-remove") is not None:
            cluster.end(f"{claim_name(ahead.pk)}-remove", messages=[{"removed": ahead.pk}])

    ahead.refresh_from_db()
    assert ahead.state == "gone"
    mine = claim_name(ahead.pk)
    assert [path for path in cluster.objects if mine in path and "/pods/" not in path] == []
