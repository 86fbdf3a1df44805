"""A commit becomes a cached commit: complete, verified, read-only, once."""

import stat
from pathlib import Path

import pytest

from datasets.services import caches
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
