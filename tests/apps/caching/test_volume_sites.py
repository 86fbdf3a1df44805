"""Sites on volumes whose cluster cannot be reached, or is slow to let go, stop no other site."""

import json
from dataclasses import replace

import pytest
from django.utils import timezone

from compute.adapters import drivers
from compute.models import Resource
from datasets.engine.cache_states import CacheState
from datasets.models import CachedCommit, CacheSite
from datasets.services import caches
from datasets.workers import cache_hydration, evictions, scrubs
from tests.factories.datasets import commit_files
from tests.ports import reserve_port

pytestmark = pytest.mark.django_db(transaction=True)
CONFIG = {"agent_image": "registry.test/nearline:1", "platform_url": "https://nearline.test/"}


def kubeconfig() -> dict[str, str]:
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{reserve_port()}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    return {"kubeconfig": json.dumps(document)}


def break_credentials(resource):
    Resource.objects.filter(pk=resource.pk).update(credentials=b"of another key")


def break_kubeconfig(resource):
    Resource.objects.filter(pk=resource.pk).update(credentials=drivers.encrypt({"kubeconfig": "nothing"}))


def detach(resource):
    Resource.objects.filter(pk=resource.pk).update(detached_at=timezone.now())


def forget(resource):
    resource.delete()


def leave(resource):
    """Change nothing: nobody listens at the address of the cluster."""


@pytest.fixture(params=[break_credentials, break_kubeconfig, detach, forget, leave])
def broken_site(request, site, settings, tmp_path):
    """A site on volumes of a cluster that cannot be used any more."""
    settings.NEARLINE = replace(settings.NEARLINE, home=tmp_path)
    credentials = drivers.encrypt(kubeconfig())
    resource = Resource.objects.create(name="dgx", kind="kubernetes", config=CONFIG, credentials=credentials)
    request.param(resource)
    config = {"resource": resource.pk, "storage_class": "fast", "size_bytes": 10**9, "clones": True}
    return CacheSite.objects.create(
        name="volumes", kind="volume", root="volume://volumes", config=config, capacity_bytes=10**9
    )


def put(site, commit, state) -> CachedCommit:
    return CachedCommit.objects.create(
        site=site,
        dataset=commit.dataset,
        commit=commit,
        state=state,
        location=f"x/{commit.short}",
        files_total=commit.files,
        bytes_total=commit.size_bytes,
        reserved_bytes=commit.size_bytes,
        requested_by="member",
    )


def test_a_commit_of_a_broken_site_is_cached_on_another_one(member, commit, site, broken_site, worker):
    put(broken_site, commit, CacheState.READY)

    row = caches.request_cache(actor=member, commit=commit, site=site)
    worker.work()

    row.refresh_from_db()
    assert (row.state, row.error, row.donor_id) == (CacheState.READY, "", None)


def test_evictions_and_scrubs_of_a_broken_site_hold_up_none_of_another_one(member, dataset, site, broken_site, worker):
    commit = commit_files(member, dataset, {"some": b"some"})
    other = commit_files(member, dataset, {"more": b"more"})
    stuck, unscrubbed = put(broken_site, commit, CacheState.EVICTING), put(broken_site, other, CacheState.READY)
    going, staying = (
        caches.request_cache(actor=member, commit=commit, site=site),
        caches.request_cache(actor=member, commit=other, site=site),
    )
    worker.work()
    caches.uncache(actor=member, cached_commit_id=going.pk)

    evictions.remove_each([stuck.pk, going.pk])
    scrubs.scrub_each([unscrubbed.pk, staying.pk])

    assert CachedCommit.objects.get(pk=going.pk).state == CacheState.GONE
    assert CachedCommit.objects.get(pk=staying.pk).error == ""
    assert CachedCommit.objects.get(pk=stuck.pk).state == CacheState.EVICTING


def test_removals_that_others_hold_up_are_looked_at_a_few_at_a_time(member, dataset, site, worker):
    commits = [commit_files(member, dataset, {"a": b"0"})]
    for number in range(1, 21):
        commits.append(commit_files(member, dataset, {"a": b"%d" % number}))
    held_up = [put(site, commit, CacheState.EVICTING) for commit in commits[:20]]
    CachedCommit.objects.update(waits_for="the end of the pod of somebody")
    free = put(site, commits[20], CacheState.EVICTING)

    cache_hydration.reap()

    enqueued = {ids["cached_commit_id"] for name, ids in worker.messages if name == "datasets.evict"}
    assert free.pk in enqueued
    assert len(enqueued & {row.pk for row in held_up}) == 10
