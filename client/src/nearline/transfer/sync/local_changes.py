"""What a folder changed since a tree, with ids: reads what the scan could not tell, and sends it where asked."""

from collections import deque
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from nearline.content.diff import Change
from nearline.content.entries import Entry, EntryKind, new_symlink
from nearline.content.hashing import EMPTY_ID
from nearline.transfer.local import reading
from nearline.transfer.local.packed_rows import PackedRows
from nearline.transfer.local.scan import Scan, Suspect, is_same
from nearline.transfer.local.statcache import StatCache
from nearline.transfer.local.walk import LocalFile
from nearline.transfer.progress import Meter
from nearline.transfer.remote.packing import KnownContent, PackSender, blobs_of

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


class Changes:
    """The changes of a folder in the order of its paths. Each is made when it is asked for.

    Its entry says where content lies that is known then, if `known` is given.
    """

    def __init__(self, drafts: PackedRows[_Draft], removed: list[Entry], known: KnownContent | None) -> None:
        self._drafts = drafts
        self._removed = sorted(removed, key=attrgetter("path"))
        self._known = known

    def __len__(self) -> int:
        return len(self._drafts) + len(self._removed)

    def __iter__(self) -> Iterator[Change]:
        known, removed = self._known, deque(self._removed)
        for entry, before, blob_ids in self._drafts:
            while removed and removed[0].path < entry.path:
                yield _removal(removed.popleft())
            if known is not None and entry.kind is EntryKind.FILE and entry.size > 0:
                entry = entry._replace(blobs=blobs_of(known, blob_ids or (entry.content_id,)))  # noqa: PLW2901
            yield Change(entry.path, before, entry)
        yield from map(_removal, removed)


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
) -> Changes:
    """Return the changes that a scan suspects and that are real.

    With `sending`, the content of every changed file is stored afterwards and the entries say where; without it they
    do not. The scan's suspects are dropped as they are read. Raises Failed for files that cannot be read.
    """
    drafts = PackedRows[_Draft]()
    removed = list(scan.removed)
    reader = _Reader(root, cache, threads, meter, sending=sending, unsettled=scan.unsettled)
    for suspect, file, content_id, blob_ids in reader.read(scan.suspects):
        if file is None:
            # It left after it was seen.
            if suspect.before is not None:
                removed.append(suspect.before)
        elif suspect.before is None or not is_same(file, content_id, suspect.before):
            drafts.append(_Draft(_entry(file, content_id), suspect.before, blob_ids))
    if sending is not None:
        sending.sender.finish()
    return Changes(drafts, removed, sending.known if sending else None)


def _removal(entry: Entry) -> Change:
    return Change(entry.path, entry, None)


def _entry(file: LocalFile, content_id: bytes) -> Entry:
    if file.kind is EntryKind.SYMLINK:
        return new_symlink(file.path, file.target, file.mtime_ns)
    return Entry(file.path, file.mode, file.size, file.mtime_ns, content_id)


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

    def read(self, suspects: PackedRows[Suspect]) -> Iterator[tuple[Suspect, LocalFile | None, bytes, Sequence[bytes]]]:
        """Yield each suspect with what it is now (None when it left), its content id and the ids of its blobs."""
        rows = ((suspect, suspect.file if self._must_read(suspect) else None) for suspect in suspects.take_all())
        try:
            for suspect, file, content in reading.read_ahead(self._root, rows, self._threads):
                if file is not None:
                    yield self._take(suspect, content)
                    continue
                content_id = suspect.content_id or EMPTY_ID
                self._meter.add(files=1, size_bytes=suspect.file.size)
                yield suspect, suspect.file, content_id, self._blob_ids(content_id)
        finally:
            self._remember(at_least=1)

    def _must_read(self, suspect: Suspect) -> bool:
        """Return whether a file cannot be committed unread: its content id is not known, or its place is not."""
        if not needs_reading(suspect) or suspect.content_id is None:
            return needs_reading(suspect)
        return self._sending is not None and self._sending.known.find_file(suspect.content_id) is None

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
