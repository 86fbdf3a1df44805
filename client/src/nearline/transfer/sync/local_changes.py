"""What a folder changed since a tree, with ids: reads what the scan could not tell, and sends it where asked."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import tee
from operator import attrgetter
from typing import NamedTuple

from nearline.content.diff import Change
from nearline.content.entries import Entry, EntryKind, new_symlink
from nearline.content.hashing import EMPTY_ID
from nearline.transfer.local import reading
from nearline.transfer.local.scan import Scan, Suspect, is_same
from nearline.transfer.local.statcache import StatCache
from nearline.transfer.local.walk import LocalFile
from nearline.transfer.progress import Meter
from nearline.transfer.remote.known import KnownContent
from nearline.transfer.remote.packing import PackSender, blobs_of

_REMEMBERED_AT_ONCE = 512


class Sending(NamedTuple):
    """Where new content goes, and what need not go there."""

    sender: PackSender
    known: KnownContent


class _Draft(NamedTuple):
    """A file whose content lies in blobs with these ids; in one of its own content id where there are none.

    `entry` does not say yet where they are.
    """

    entry: Entry
    before: Entry | None
    blob_ids: Sequence[bytes]


def needs_reading(suspect: Suspect) -> bool:
    """Return whether a file has content that may have to be read."""
    return suspect.file.kind is EntryKind.FILE and suspect.file.size > 0


def find_changes(
    root: bytes,
    scan: Scan,
    cache: StatCache | None,
    *,
    threads: int,
    meter: Meter,
    sending: Sending | None = None,
) -> list[Change]:
    """Return the changes that a scan suspects and that are real, sorted by path.

    With `sending`, the content of every changed file is stored afterwards and the entries say where; without it they
    do not. The scan's suspects are dropped as they are read. Raises Failed for files that cannot be read.
    """
    drafts: deque[_Draft] = deque()
    removed = [Change(entry.path, entry, None) for entry in scan.removed]
    reader = _Reader(root, cache, threads, meter, sending=sending, unsettled=scan.unsettled)
    for suspect, file, content_id, blob_ids in reader.read(scan.suspects):
        if file is None:
            # It left after it was seen.
            if suspect.before is not None:
                removed.append(Change(suspect.before.path, suspect.before, None))
        elif suspect.before is None or not is_same(file, content_id, suspect.before):
            drafts.append(_Draft(_entry(file, content_id), suspect.before, blob_ids))
    if sending is not None:
        sending.sender.finish()
    known = sending.known if sending else None
    changes = removed
    while drafts:
        # One leaves as the other comes: of a million files, each takes some 300 MB.
        entry, before, blob_ids = drafts.popleft()
        if known is not None and entry.kind is EntryKind.FILE and entry.size > 0:
            entry = entry._replace(blobs=blobs_of(known, blob_ids or (entry.content_id,)))
        changes.append(Change(entry.path, before, entry))
    changes.sort(key=attrgetter("path"))
    return changes


def _entry(file: LocalFile, content_id: bytes) -> Entry:
    if file.kind is EntryKind.SYMLINK:
        return new_symlink(file.path, file.target, file.mtime_ns)
    return Entry(file.path, file.mode, file.size, file.mtime_ns, content_id)


def _take_all(suspects: list[Suspect]) -> Iterator[Suspect]:
    """Yield all in order, and leave none of them behind."""
    suspects.reverse()
    while suspects:
        yield suspects.pop()


class _Reader:
    def __init__(
        self,
        root: bytes,
        cache: StatCache | None,
        threads: int,
        meter: Meter,
        *,
        sending: Sending | None,
        unsettled: set[bytes],
    ) -> None:
        self._root = root
        self._cache = cache
        self._threads = threads
        self._meter = meter
        self._sending = sending
        self._unsettled = unsettled
        self._hashed: list[tuple[LocalFile, bytes]] = []

    def read(self, suspects: list[Suspect]) -> Iterator[tuple[Suspect, LocalFile | None, bytes, Sequence[bytes]]]:
        """Yield each suspect with what it is now (None when it left), its content id and the ids of its blobs."""
        to_read = [needs_reading(suspect) and not self._is_known(suspect) for suspect in suspects]
        ahead, rows = tee(zip(_take_all(suspects), to_read, strict=True))
        files = (suspect.file for suspect, must in ahead if must)
        contents = reading.read_ahead(self._root, files, self._threads)
        try:
            for suspect, must in rows:
                if must:
                    yield self._take(suspect, next(contents))
                    continue
                content_id = suspect.content_id or EMPTY_ID
                self._meter.add(files=1, size_bytes=suspect.file.size)
                yield suspect, suspect.file, content_id, self._blob_ids(content_id)
        finally:
            self._remember(at_least=1)

    def _is_known(self, suspect: Suspect) -> bool:
        """Return whether a file can be committed without reading it: its content id is known, and so is its place."""
        if suspect.content_id is None:
            return False
        return self._sending is None or self._sending.known.find_file(suspect.content_id) is not None

    def _blob_ids(self, content_id: bytes) -> Sequence[bytes]:
        blobs = self._sending.known.find_file(content_id) if self._sending else None
        return [blob.content_id for blob in blobs] if blobs and len(blobs) > 1 else ()

    def _take(
        self, suspect: Suspect, content: reading.Content | None
    ) -> tuple[Suspect, LocalFile | None, bytes, Sequence[bytes]]:
        blob_ids: Sequence[bytes] = ()
        if content is not None and content.data is None:
            large = reading.read_large(self._root, content.file, self._take_blob)
            content, blob_ids = large or (None, ())
        elif content is not None and content.data:
            self._take_blob(content.content_id, content.data)
        if content is None:
            self._unsettled.add(suspect.file.path)
            return suspect, None, b"", ()
        self._meter.add(files=1)
        # The one that was seen, where it is still the same: a second one would stay in memory for each file.
        file = suspect.file if content.file == suspect.file else content.file
        if file is not suspect.file:
            self._unsettled.add(file.path)
        self._hashed.append((file, content.content_id))
        self._remember(at_least=_REMEMBERED_AT_ONCE)
        return suspect, file, content.content_id, blob_ids

    def _take_blob(self, blob_id: bytes, data: bytes) -> None:
        if self._sending is not None:
            self._sending.sender.add(blob_id, data)
        else:
            self._meter.add(size_bytes=len(data))

    def _remember(self, *, at_least: int) -> None:
        if self._cache is not None and len(self._hashed) >= at_least:
            self._unsettled.update(self._cache.remember(self._hashed))
            self._hashed = []
