"""A commit becomes a cached commit: complete, verified, read-only, once."""

import stat
from pathlib import Path

import pytest

from datasets.adapters.folder import FolderStore
from datasets.errors import StoreUnreachable
from datasets.selectors import trees
from datasets.services import caches
from datasets.workers.cache_leases import Heartbeat
from tests.apps.caching.conftest import FILES
from tests.factories.datasets import read_tree

pytestmark = pytest.mark.django_db(transaction=True)


def content_of(files):
    return {name: value[0] if isinstance(value, tuple) else value for name, value in files.items()}


def test_a_commit_that_was_asked_for_is_ready_and_holds_exactly_its_files(member, commit, site, worker):
    row = caches.request_cache(actor=member, commit=commit, site=site)
    assert row.state == "queued"

    worker.work()

    row.refresh_from_db()
    assert row.state == "ready"
    assert read_tree(Path(row.path)) == content_of(FILES)
    assert (row.files_done, row.files_total) == (len(FILES), len(FILES))
    assert (row.bytes_done, row.bytes_total, row.reserved_bytes) == (commit.size_bytes,) * 3
    assert row.path == f"{site.root}/team-a/xrays/{commit.id}"
    assert [(e.kind, e.state) for e in row.events.order_by("pk")] == [
        ("state", "queued"), ("state", "provisioning"), ("state", "hydrating"), ("state", "ready")
    ]  # fmt: skip


def test_files_are_0444_or_0555_and_folders_0555(member, commit, site, worker):
    row = caches.request_cache(actor=member, commit=commit, site=site)
    worker.work()

    row.refresh_from_db()
    top = Path(row.path)
    modes = {
        p.relative_to(top).as_posix(): stat.S_IMODE(p.lstat().st_mode)
        for p in [top, *top.rglob("*")]
        if not p.is_symlink()
    }
    assert {modes[name] for name in (".", "a", "b")} == {0o555}
    assert modes["b/run.sh"] == 0o555
    assert {modes[name] for name in ("a/one.png", "a/two.png", "b/big.bin", "b/empty")} == {0o444}
    assert sorted(p.name for p in top.iterdir()) == sorted({name.split("/")[0] for name in FILES})


def test_a_store_that_is_away_when_a_copy_is_planned_or_listed_is_waited_for(member, commit, site, worker, monkeypatch):
    asked, told = [], []
    get, report = FolderStore.get, Heartbeat.report

    def be_away_at_first(store, key):
        asked.append(key)
        if asked.count(key) == 1:
            raise StoreUnreachable("The store does not answer.")
        return get(store, key)

    def note(heartbeat, **progress):
        told.append(progress["waits_for"])
        report(heartbeat, **progress)

    row = caches.request_cache(actor=member, commit=commit, site=site)
    for kept in (trees._roots, trees._ranges):
        monkeypatch.setattr(kept, "get", lambda key: None)
    monkeypatch.setattr(FolderStore, "get", be_away_at_first)
    monkeypatch.setattr(Heartbeat, "report", note)

    worker.work()

    row.refresh_from_db()
    assert (row.state, row.waits_for) == ("ready", "")
    assert len(set(asked)) >= 2  # the root, which the plan reads, and a range
    assert told.count("the store, for 10 min more at most: The store does not answer.") == len(set(asked))
