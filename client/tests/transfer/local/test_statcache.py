"""The cache answers only what it has verified."""

import contextlib
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.tests.fake_server import FakeServer
from client.tests.transfer.folders import Folder
from nearline.content.entries import BlobRef, EntryKind
from nearline.content.packs import BlobInPack, Pack
from nearline.errors import FULL_DISK_HINT, SHORTER_PATH_HINT, Failed
from nearline.transfer.local.statcache import StatCache, opened
from nearline.transfer.local.walk import LocalFile

NOW_NS = 1_000_000_000_000_000_000
OLD = LocalFile(b"a", EntryKind.FILE, 0o644, 5, NOW_NS - 10**10, NOW_NS - 10**10, 7)


@pytest.fixture
def cache(tmp_path):
    cache = StatCache(tmp_path / "cache.db")
    yield cache
    cache.close()


def test_what_was_hashed_is_known_until_the_file_changes(cache):
    cache.remember([(OLD, b"id")], at_ns=NOW_NS)

    known = cache.find(b"a")

    assert known.content_id == b"id"
    assert known.is_still(OLD)
    for change in ({"size": 6}, {"mtime_ns": 1}, {"ctime_ns": 1}, {"inode": 8}):
        assert not known.is_still(OLD._replace(**change))


@pytest.mark.parametrize("age_ns", [0, 1_999_999_999, -(10**12)])
def test_a_file_changed_within_two_seconds_of_hashing_is_not_trusted(cache, age_ns):
    cache.remember([(OLD, b"old id")], at_ns=NOW_NS)

    cache.remember([(OLD._replace(mtime_ns=NOW_NS - age_ns), b"id")], at_ns=NOW_NS)

    assert cache.find(b"a") is None


def test_files_are_listed_in_the_order_of_their_bytes(cache):
    names = [b"b", b"a/b", b"a-b", b"\xff", b"a"]
    cache.remember([(OLD._replace(path=name), b"id") for name in names], at_ns=NOW_NS)

    assert [known.path for known in cache.list_files()] == sorted(names)


def test_a_damaged_database_is_replaced(tmp_path):
    path = tmp_path / "cache.db"
    path.write_bytes(b"not a database at all" * 100)

    cache = StatCache(path)

    assert list(cache.list_files()) == []
    cache.close()


def test_stored_packs_are_kept_until_they_are_forgotten(tmp_path):
    one, two, three = bytes(32), b"1" * 32, b"2" * 32
    q, p = b"q" * 32, b"p" * 32
    cache = StatCache(tmp_path / "cache.db")
    cache.note_stored([Pack(q, (), (BlobInPack(one, 0, 5), BlobInPack(two, 5, 6)))])
    cache.note_stored([Pack(p, (), (BlobInPack(three, 0, 7),))])
    cache.close()
    cache = StatCache(tmp_path / "cache.db")

    assert list(cache.list_stored()) == [BlobRef(one, q, 0, 5), BlobRef(two, q, 5, 6), BlobRef(three, p, 0, 7)]
    cache.forget_stored([q])
    assert list(cache.list_stored()) == [BlobRef(three, p, 0, 7)]
    cache.forget_stored()
    assert list(cache.list_stored()) == []
    cache.close()


def test_a_full_disk_is_told_and_what_is_known_is_kept(tmp_path):
    path = tmp_path / "cache.db"
    with opened(path) as cache:
        cache.remember([(OLD, b"id")], at_ns=NOW_NS)

    with pytest.raises(Failed, match="database or disk is full") as refused, opened(path):
        _fill_a_database()

    assert refused.value.hint == FULL_DISK_HINT
    with opened(path) as cache:
        assert cache.find(b"a").content_id == b"id"


def test_a_disk_that_takes_nothing_is_told_with_what_to_do(tmp_path):
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE

    with pytest.raises(Failed, match="disk I/O error") as refused, opened(tmp_path / "cache.db"):
        raise error

    assert refused.value.hint == FULL_DISK_HINT


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE files DROP COLUMN inode",
        "CREATE VIEW more AS SELECT path FROM files",
        "DROP TABLE ranges; CREATE TABLE ranges (a)",
        "CREATE TRIGGER stop AFTER INSERT ON files BEGIN SELECT raise(ABORT, 'no'); END",
    ],
)
def test_a_cache_of_another_shape_is_made_anew(tmp_path, statement):
    path = tmp_path / "cache.db"
    with opened(path) as cache:
        cache.remember([(OLD, b"id")], at_ns=NOW_NS)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript(statement)

    with opened(path) as cache:
        cache.remember([(OLD, b"new")], at_ns=NOW_NS)

        assert cache.find(b"a").content_id == b"new"


def test_a_cache_whose_pages_are_damaged_is_told_with_what_to_do(tmp_path):
    path = tmp_path / "cache.db"
    with opened(path) as cache:
        cache.remember([(OLD._replace(path=b"%06d" % number), b"id") for number in range(1000)], at_ns=NOW_NS)
    data = path.read_bytes()
    path.write_bytes(data[:32768] + b"x" * (len(data) - 32768))

    with pytest.raises(Failed, match=r"Cannot use '.*cache.db': database disk image is malformed.") as refused:
        list_all(path)

    assert refused.value.hint == "Remove it: it only saves reading, and is made anew."


def list_all(path):
    with opened(path) as cache:
        return list(cache.list_files())


VALUES = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()
CELLS = st.sampled_from([b"a", b"b", "a", 1, 1.0, b"i" * 32]) | VALUES


@settings(max_examples=20, deadline=None)
@given(
    files=st.lists(st.tuples(*[CELLS] * 6), max_size=4),
    others=st.lists(st.tuples(st.sampled_from(["packs", "ranges"]), CELLS, CELLS), max_size=4),
    conflicts=st.lists(CELLS, max_size=2),
    is_cast=st.booleans(),
)
def test_whatever_the_rows_hold_a_sync_commits_what_is_there(tmp_path_factory, *, files, others, conflicts, is_cast):
    place = tmp_path_factory.mktemp("rows")
    server = FakeServer(place / "server")
    folder = Folder(place / "folder", server)
    folder.write({"a": b"1", "b": b"2", "c": b"3"}).sync()
    cell = "CAST(? AS TEXT)" if is_cast else "?"  # a text need not be UTF-8
    with contextlib.closing(sqlite3.connect(folder.workspace.cache_path)) as database, database:
        database.executescript("DELETE FROM files; DELETE FROM ranges")
        for row in files:
            database.execute(f"INSERT OR IGNORE INTO files VALUES ({', '.join([cell] * 6)})", row)
        for table, *row in others:
            database.execute(f"INSERT OR IGNORE INTO {table} VALUES ({cell}, {cell})", row)
        for path in conflicts:
            database.execute(f"INSERT OR IGNORE INTO conflicts VALUES ({cell})", (path,))
    folder.write({"c": b"new"})

    changed = folder.status().changed
    folder.sync()

    assert changed == ("c",)
    assert server.tree() == {b"a": b"1", b"b": b"2", b"c": b"new"}


def test_a_cache_that_cannot_be_opened_is_told_and_kept(tmp_path):
    path = tmp_path / "cache.db"
    with opened(path) as cache:
        cache.remember([(OLD, b"id")], at_ns=NOW_NS)
    (tmp_path / "cache.db-wal").mkdir()  # stands for any file that cannot be made

    with pytest.raises(Failed, match="Cannot use") as refused, opened(path):
        pass

    assert refused.value.hint == "Remove it: it only saves reading, and is made anew."

    (tmp_path / "cache.db-wal").rmdir()
    with opened(path) as cache:
        assert cache.find(b"a").content_id == b"id"


def _fill_a_database():
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("PRAGMA max_page_count = 2")
        database.execute("CREATE TABLE rows (content BLOB)")
        database.execute("INSERT INTO rows VALUES (zeroblob(1000000))")


def test_a_folder_whose_path_is_too_long_for_sqlite_is_told_to_be_too_long(tmp_path):
    path = tmp_path.joinpath(*["n" * 200] * 3, "cache.db")
    path.parent.mkdir(parents=True)

    with pytest.raises(Failed, match="unable to open database file") as refused, opened(path):
        pass

    assert refused.value.hint == SHORTER_PATH_HINT
