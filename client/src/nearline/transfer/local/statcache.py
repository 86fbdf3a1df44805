"""Notes in SQLite: content ids of local files by stat, digests of ranges, packs that were sent, files of conflicts.

Losing it costs reading and telling again, never correctness: a database that is damaged, or of another shape, is
thrown away, and so are rows whose values have another type.
"""

import contextlib
import os
import sqlite3
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from nearline.content.entries import BlobRef
from nearline.content.errors import BadPack
from nearline.content.packs import Pack, read_index, write_index
from nearline.errors import FULL_DISK_HINT, SHORTER_PATH_HINT, Failed
from nearline.transfer.local.walk import LocalFile

# A file changed so shortly before it was hashed may change again without a difference that stat would show.
RACY_NS = 2_000_000_000

# SQLite opens no file whose path, with what it adds to the name, has more bytes.
_MOST_PATH_BYTES = 512 - len("-journal")
_REMOVE_HINT = "Remove it: it only saves reading, and is made anew."

_TABLES = (
    """files (
    path BLOB PRIMARY KEY, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER, inode INTEGER, content_id BLOB
) WITHOUT ROWID""",
    """packs (
    pack BLOB PRIMARY KEY, content BLOB
)""",
    """ranges (
    range_id TEXT PRIMARY KEY, digest BLOB
) WITHOUT ROWID""",
    """conflicts (
    path BLOB PRIMARY KEY
) WITHOUT ROWID""",
)


# Rows of another type are not listed. Paths need no check: no text or number is behind one that is a BLOB.
_IS_FILE = "typeof(content_id) = 'blob'"
_IS_PACK = "typeof(pack) = 'blob' AND length(pack) = 32 AND typeof(content) = 'blob'"
_IS_RANGE = "typeof(range_id) = 'text' AND typeof(digest) = 'blob'"


class CachedFile(NamedTuple):
    """A file as it was when its content was last known."""

    path: bytes
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    content_id: bytes

    def is_still(self, file: LocalFile) -> bool:
        """Return whether the file on disk is the one that was hashed."""
        # The same four numbers in both; asked for every file of a folder.
        return self[1:5] == file[3:7]


# A file of these, without a Python call for each of a million.
CachedRow: TypeAlias = tuple[bytes, int, int, int, int, bytes]


class StatCache:
    """The cache of one folder. Safe to use from several threads; reading streams in the order of paths."""

    def __init__(self, path: Path, *, is_read_only: bool = False) -> None:
        self.path = path
        self._lock = threading.Lock()
        if is_read_only:
            self._database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)
            return
        try:
            self._database = _open(path)
        except sqlite3.OperationalError:
            raise  # a full disk, say: what is known of a million files is good still
        except sqlite3.DatabaseError:
            for leftover in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
                leftover.unlink(missing_ok=True)
            self._database = _open(path)

    def close(self) -> None:
        """Keep what was noted."""
        with self._lock:
            self._database.close()

    def list_files(self, after: bytes = b"") -> Iterator[CachedFile]:
        """Yield what is known of the files behind `after`, sorted by path."""
        behind = f"SELECT * FROM files WHERE path > ? AND {_IS_FILE} ORDER BY path"  # noqa: S608 (it is a constant)
        cursor = self._database.execute(behind, (after,))
        while rows := cursor.fetchmany(1000):
            yield from map(CachedFile._make, rows)

    def list_rows(self, after: bytes, last: bytes) -> list[CachedRow]:
        """Return what is known of the files behind `after`, up to `last`, sorted by path."""
        between = f"SELECT * FROM files WHERE path > ? AND path <= ? AND {_IS_FILE} ORDER BY path"  # noqa: S608
        return self._database.execute(between, (after, last)).fetchall()

    def find(self, path: bytes) -> CachedFile | None:
        """Return what is known about one path."""
        with self._lock:
            row = self._database.execute(f"SELECT * FROM files WHERE path = ? AND {_IS_FILE}", (path,)).fetchone()  # noqa: S608
        return CachedFile._make(row) if row else None

    def remember(self, hashed: Iterable[tuple[LocalFile, bytes]], *, at_ns: int | None = None) -> list[bytes]:
        """Note content ids that were just computed.

        Files that are too fresh to be trusted are forgotten instead; their paths are returned.
        """
        safe_before = (time.time_ns() if at_ns is None else at_ns) - RACY_NS
        hashed = list(hashed)
        fresh = [file.path for file, _ in hashed if file.mtime_ns >= safe_before]
        with self._lock, self._database:
            self._database.executemany(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (file.path, *file.signature, content_id)
                    for file, content_id in hashed
                    if file.mtime_ns < safe_before
                ],
            )
            self._database.executemany("DELETE FROM files WHERE path = ?", [(path,) for path in fresh])
        return fresh

    def forget(self, paths: Iterable[bytes]) -> None:
        """Drop what is known about files that are gone."""
        with self._lock, self._database:
            self._database.executemany("DELETE FROM files WHERE path = ?", [(path,) for path in paths])

    def list_digests(self) -> dict[str, bytes]:
        """Return what is known of ranges: by id, the digest of the local files that are what the range lists."""
        with self._lock:
            return dict(self._database.execute(f"SELECT range_id, digest FROM ranges WHERE {_IS_RANGE}"))  # noqa: S608

    def keep_digests(self, digests: Mapping[str, bytes]) -> None:
        """Know of these ranges and of no others."""
        with self._lock, self._database:
            self._database.execute("DELETE FROM ranges")
            self._database.executemany("INSERT INTO ranges VALUES (?, ?)", digests.items())

    def list_conflicts(self) -> set[bytes]:
        """Return the paths at which others' versions were written beside files of this folder."""
        with self._lock:
            rows = self._database.execute("SELECT path FROM conflicts WHERE typeof(path) = 'blob'")
            return {path for (path,) in rows}

    def note_conflicts(self, paths: Iterable[bytes]) -> None:
        """Note where others' versions were written."""
        with self._lock, self._database:
            self._database.executemany("INSERT OR IGNORE INTO conflicts VALUES (?)", ((path,) for path in paths))

    def forget_conflicts(self, paths: Iterable[bytes]) -> None:
        """Drop the notes about others' versions that are gone."""
        with self._lock, self._database:
            self._database.executemany("DELETE FROM conflicts WHERE path = ?", ((path,) for path in paths))

    def note_stored(self, packs: Iterable[Pack]) -> None:
        """Note what packs hold that are stored but not yet part of a commit."""
        with self._lock, self._database:
            self._database.executemany(
                "INSERT OR REPLACE INTO packs VALUES (?, ?)", ((pack.sha256, write_index(pack.blobs)) for pack in packs)
            )

    def list_stored(self) -> Iterator[BlobRef]:
        """Yield the blobs of the packs that were stored since the last commit, in order."""
        with self._lock:
            query = f"SELECT pack, content FROM packs WHERE {_IS_PACK} ORDER BY rowid"  # noqa: S608
            rows = self._database.execute(query).fetchall()
        for pack, content in rows:
            with contextlib.suppress(BadPack, struct.error):  # what is no index
                for blob in read_index(content):
                    yield BlobRef(blob.content_id, pack, blob.offset, blob.size)

    def forget_stored(self, packs: Iterable[bytes] | None = None) -> None:
        """Drop the notes about these packs; about all, once they are part of a commit."""
        with self._lock, self._database:
            if packs is None:
                self._database.execute("DELETE FROM packs")
            else:
                self._database.executemany("DELETE FROM packs WHERE pack = ?", [(pack,) for pack in packs])


@contextlib.contextmanager
def opened(path: Path) -> Iterator[StatCache]:
    """Open the cache of a folder for one transfer. Raises Failed when it cannot be used, as on a full disk."""
    try:
        with contextlib.closing(StatCache(path)) as cache:
            yield cache
    except sqlite3.DatabaseError as error:
        raise Failed(f"Cannot use '{path}': {error}.", code="client.local_file", hint=_hint_for(error, path)) from error


def _hint_for(error: sqlite3.DatabaseError, path: Path) -> str:
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:  # the rest is detail
        case (
            sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR
        ):  # the second also where there is no space for its shared memory
            return FULL_DISK_HINT
        case sqlite3.SQLITE_CANTOPEN if len(os.fsencode(path.absolute())) > _MOST_PATH_BYTES:
            return SHORTER_PATH_HINT
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return _REMOVE_HINT
    return ""


def _open(path: Path) -> sqlite3.Connection:
    # Created here, so that the file never exists with other rights than the folder's owner's.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    database = sqlite3.connect(path, check_same_thread=False, timeout=30)
    database.text_factory = partial(str, encoding="utf-8", errors="replace")
    try:
        database.execute("PRAGMA journal_mode = WAL")
        # A lost write costs hashing again; waiting for the disk after every batch would cost more.
        database.execute("PRAGMA synchronous = OFF")
        database.execute("DROP TABLE IF EXISTS stored")
        for table in _TABLES:
            database.execute(f"CREATE TABLE IF NOT EXISTS {table}")
        _require_tables(database)
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database


def _require_tables(database: sqlite3.Connection) -> None:
    statements = {sql for (sql,) in database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if statements != {f"CREATE TABLE {table}" for table in _TABLES}:
        raise sqlite3.DatabaseError("It has other tables.")
