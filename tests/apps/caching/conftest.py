"""A store, a dataset with two commits, a site, and a worker that does at once what was rung for."""

import pytest

from accounts.permissions import Actor
from core import tasks
from datasets.adapters.sites.folder.copy_folder import PosixFolder
from datasets.engine.cache_ports import Sharing
from datasets.services import cache_sites, caches
from tests.factories.datasets import commit_files, make_dataset, make_store
from tests.factories.queues import RecordedQueue

FILES = {
    "a/one.png": b"1" * 1000,
    "a/two.png": b"2" * 2000,
    "b/run.sh": (b"#!/bin/sh\n", 0o755),
    "b/big.bin": bytes(range(256)) * 5000,
    "b/empty": b"",
    "link": "a/one.png",
    "name with\nnewline \udcff": b"odd",
}
SIZE = sum(len(v[0] if isinstance(v, tuple) else v) for v in FILES.values())


@pytest.fixture
def worker():
    worker = RecordedQueue()
    before = tasks.install(worker)
    yield worker
    tasks.install(before)


@pytest.fixture
def dataset(db, tmp_path, member, project):
    make_store(tmp_path / "store")
    return make_dataset(member, project, "xrays")


@pytest.fixture
def commit(dataset, member):
    return commit_files(member, dataset, FILES)


@pytest.fixture
def site(db, tmp_path):
    return cache_sites.create_site(
        actor=Actor.system("test"), name="local", root=tmp_path / "cache", capacity_bytes=10_000_000
    )


def cache(actor, commit, site, worker, **more):
    """Ask for a cached commit, let the worker do what it takes, and return how it then is."""
    row = caches.request_cache(actor=actor, commit=commit, site=site, **more)
    worker.work()
    row.refresh_from_db()
    return row


@pytest.fixture
def hard_links(monkeypatch):
    """Copies share files by hard links, also where the file system could do better."""
    monkeypatch.setattr(PosixFolder, "sharing", Sharing.HARD_LINK)


@pytest.fixture
def ready(member, commit, site, worker, django_capture_on_commit_callbacks):
    """A cached commit that is ready."""
    with django_capture_on_commit_callbacks(execute=True):
        row = caches.request_cache(actor=member, commit=commit, site=site)
    worker.work()
    row.refresh_from_db()
    return row
