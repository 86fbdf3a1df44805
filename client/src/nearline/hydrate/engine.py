"""Hydration: files of a tree out of packs. Reads are few, large and parallel; every file is verified before it shows.

The one engine for clones, for cached copies and for pods. It knows neither HTTP nor commits: packs come from a source,
files go to a target.
"""

import math
import threading
import time
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from nearline.content.entries import BlobRef, Entry, EntryKind
from nearline.content.hashing import file_id
from nearline.content.packs import MAX_PACK_BYTES
from nearline.content.retry import RetryPolicy
from nearline.hydrate.ports import HydrationProgress, OnProgress, PackSource, Target, ignore_progress

DEFAULT_THREADS = 4
NextPacks = Callable[[], Sequence[str]]
# So many files are planned at a time: bounds memory, and makes few packs be read twice at the seams.
_BATCH_FILES = 50_000
# Bytes may be damaged on their way. When they come damaged for the last time, the stored copy is.
_READS = 3
_CHECK_EVERY = 64
# Where files are read meanwhile, reads begin one at a time, short, and grow with what was read: the first files are
# soon there, and what a reader fetches itself shares the link with little.
_FIRST_READ_BYTES = 1 << 20
_GROWTH = 16
_ALONE_BYTES = 32 << 20
# Up to this gap between two blobs, one read that spans both is quicker than two.
MAX_GAP_BYTES = 1 << 20
# From this share of a pack's span on, all of the span is read at once.
_DENSE_SHARE = 0.5
_POLL_S = 1.0


class Cancelled(Exception):
    """The work ended before it was complete, on request or after a failure elsewhere."""


class Cancellation:
    """Ends work that runs on several threads: on request, or because one of them failed.

    `is_requested` is asked often, by every thread.
    """

    def __init__(self, is_requested: Callable[[], bool] = lambda: False) -> None:
        self._is_requested = is_requested
        self._is_cancelled = threading.Event()

    def cancel(self) -> None:
        """End the work of all threads at their next check."""
        self._is_cancelled.set()

    def check(self) -> None:
        """Raise Cancelled if the work should end."""
        if self._is_cancelled.is_set() or self._is_requested():
            raise Cancelled

    def sleep(self, wait_s: float) -> None:
        """Wait, but no longer than the work goes on. Raises Cancelled."""
        ends_at = time.monotonic() + wait_s
        while (left_s := ends_at - time.monotonic()) > 0:
            self._is_cancelled.wait(min(left_s, _POLL_S))
            self.check()


class Piece(NamedTuple):
    """One blob: the file it belongs to, and where in the file it goes."""

    entry: Entry
    blob: BlobRef
    file_offset: int


@dataclass(frozen=True)
class PackSpan:
    """One read: `size` bytes of a pack from `offset` on, and the pieces in them, ordered by offset."""

    pack: str
    offset: int
    size: int
    pieces: Sequence[Piece]


def hydrate(
    source: PackSource,
    target: Target,
    entries: Iterable[Entry],
    *,
    policy: RetryPolicy,
    threads: int = DEFAULT_THREADS,
    on_progress: OnProgress = ignore_progress,
    cancellation: Cancellation | None = None,
    next_packs: NextPacks | None = None,
) -> HydrationProgress:
    """Write `entries` (sorted, of one tree) to the target and return what was written.

    Memory is bounded by one batch of entries, which may come from a generator, and by one pack for each thread. Links
    are made last. `on_progress` gets running totals after every read, from any thread but never from two at once. Reads
    are repeated as `policy` says; a policy that sleeps by `cancellation.sleep` ends its wait when the work ends.
    `next_packs`, asked before every read, names the packs that are read next; the others follow in their order. It is
    given where files are read meanwhile.

    Raises Cancelled, what `source` raises, and what `target` raises. Files that are visible by then are right.
    """
    work = _Hydration(source, target, policy, on_progress, cancellation or Cancellation(), next_packs=next_packs)
    try:
        with ThreadPoolExecutor(threads, thread_name_prefix="hydrate") as pool:
            work.run(entries, pool, threads)
    finally:
        work.discard_unfinished()
    work.finish()
    return work.progress


class _Hydration:
    """The state of one call: totals, links to be made, and large files under way."""

    def __init__(
        self,
        source: PackSource,
        target: Target,
        policy: RetryPolicy,
        on_progress: OnProgress,
        cancellation: Cancellation,
        *,
        next_packs: NextPacks | None,
    ) -> None:
        self.progress = HydrationProgress()
        self._source = source
        self._target = target
        self._policy = policy
        self._on_progress = on_progress
        self._cancellation = cancellation
        self._next_packs = next_packs
        self._lock = threading.Lock()
        self._links: list[Entry] = []
        self._unfinished: dict[bytes, Entry] = {}
        self._missing_pieces: dict[bytes, int] = {}

    def run(self, entries: Iterable[Entry], pool: ThreadPoolExecutor, threads: int) -> None:
        """Write everything but links."""
        source = iter(entries)
        try:
            while batch := list(islice(source, _BATCH_FILES)):
                reads = _Reads(self._plan(batch), self._next_packs, bytes_read=self.progress.bytes_moved)
                if self._next_packs is not None:
                    self._fetch(reads, most_bytes=_ALONE_BYTES)
                _wait_for_all([pool.submit(self._fetch, reads) for _ in range(threads)])
        except BaseException:
            self._cancellation.cancel()
            raise

    def finish(self) -> None:
        """Make the links."""
        for entry in self._links:
            if not self._target.is_in_place(entry):
                self._target.write_link(entry)
            self._count(files=1, size_bytes=entry.size)
        self._target.finish()

    def discard_unfinished(self) -> None:
        """Remove the pieces of large files that did not become whole."""
        for entry in self._unfinished.values():
            self._target.discard(entry)

    def _plan(self, batch: Sequence[Entry]) -> list[PackSpan]:
        """Write what needs no reading; return the reads for the rest."""
        self._target.prepare(batch)
        missing = []
        for entry in batch:
            self._cancellation.check()
            if entry.kind is EntryKind.SYMLINK:
                self._links.append(entry)
            elif self._target.is_in_place(entry):
                self._count(files=1, size_bytes=entry.size)
            elif entry.blobs:
                missing.append(entry)
            else:
                self._target.write_file(entry, b"")
                self._count(files=1)
        self._unfinished = {entry.path: entry for entry in missing if len(entry.blobs) > 1}
        self._missing_pieces = {path: len(entry.blobs) for path, entry in self._unfinished.items()}
        spans = plan_reads(missing)
        self._source.announce(list(dict.fromkeys(span.pack for span in spans)))
        return spans

    def _fetch(self, reads: "_Reads", *, most_bytes: float = math.inf) -> None:
        try:
            while reads.taken_bytes < most_bytes and (span := reads.take()) is not None:
                self._write_pieces_of(span)
        except BaseException:
            self._cancellation.cancel()
            raise

    def _write_pieces_of(self, span: PackSpan) -> None:
        for _ in range(_READS):
            damaged = self._write_intact_pieces_of(span)
            if not damaged:
                return
            span = span_of(span.pack, damaged)
        raise self._source.damage_error(span.pieces[0].entry.path, span.pack)

    def _write_intact_pieces_of(self, span: PackSpan) -> list[Piece]:
        """Read a part of a pack and write what is in it; return the pieces that came damaged."""
        self._cancellation.check()
        view = memoryview(self._policy.repeat(lambda: self._source.read(span.pack, span.offset, span.size)))
        damaged = []
        files = size_bytes = 0
        for number, piece in enumerate(span.pieces):
            if number % _CHECK_EVERY == 0:
                self._cancellation.check()
            start = piece.blob.offset - span.offset
            content = view[start : start + piece.blob.size]
            if file_id(content) != piece.blob.content_id:
                damaged.append(piece)
                continue
            if len(piece.entry.blobs) == 1:
                self._target.write_file(piece.entry, content)
                files += 1
            else:
                files += self._write_piece(piece, content)
            size_bytes += piece.blob.size
        self._count(files=files, size_bytes=size_bytes, bytes_moved=span.size)
        return damaged

    def _write_piece(self, piece: Piece, content: memoryview) -> int:
        """Write a piece of a large file; return 1 when it was the last and the file is visible."""
        entry = piece.entry
        self._target.write_piece(entry, piece.file_offset, content)
        with self._lock:
            self._missing_pieces[entry.path] -= 1
            if self._missing_pieces[entry.path]:
                return 0
        # Each piece was right; that they are the right pieces in the right order only the whole can say.
        if not self._target.publish(entry):
            raise self._source.damage_error(entry.path, None)
        with self._lock:
            del self._unfinished[entry.path]
        return 1

    def _count(self, *, files: int = 0, size_bytes: int = 0, bytes_moved: int = 0) -> None:
        with self._lock:
            done = self.progress
            self.progress = HydrationProgress(
                done.files + files, done.size_bytes + size_bytes, done.bytes_moved + bytes_moved
            )
            if bytes_moved:
                self._on_progress(self.progress)


def _wait_for_all(futures: Sequence[Future[None]]) -> None:
    """Return when all have ended. Raises the error of the one that failed first, not Cancelled of the others."""
    wait(futures)
    errors = [error for future in futures if (error := future.exception())]
    for error in sorted(errors, key=lambda error: isinstance(error, Cancelled)):
        raise error


class _Reads:
    """The reads that are left, which threads take one by one: those of wanted packs first, and short ones first."""

    def __init__(self, spans: Iterable[PackSpan], next_packs: NextPacks | None, *, bytes_read: int) -> None:
        self._next_packs = next_packs
        self.taken_bytes = bytes_read
        self._lock = threading.Lock()
        self._by_pack: defaultdict[str, deque[PackSpan]] = defaultdict(deque)
        for span in spans:
            self._by_pack[span.pack].append(span)

    def take(self) -> PackSpan | None:
        """Return what to read now; None when nothing is left."""
        with self._lock:
            if not self._by_pack:
                return None
            urgent = [pack for pack in self._next_packs() if pack in self._by_pack] if self._next_packs else ()
            pack = urgent[0] if urgent else next(iter(self._by_pack))
            span = self._by_pack[pack].popleft()
            if self._next_packs is not None:
                span, *rest = _cut(span, max(_FIRST_READ_BYTES, self.taken_bytes // _GROWTH))
                self._by_pack[pack].extendleft(rest)
            self.taken_bytes += span.size
            if not self._by_pack[pack]:
                del self._by_pack[pack]
            return span


def _cut(span: PackSpan, most_bytes: int) -> list[PackSpan]:
    """Return a read of at most so many bytes, or of one piece, and the rest of the span, if there is any."""
    end = span.offset + most_bytes
    count = max(1, bisect_right(span.pieces, end, key=lambda piece: piece.blob.offset + piece.blob.size))
    return [span_of(span.pack, pieces) for pieces in (span.pieces[:count], span.pieces[count:]) if pieces]


def plan_reads(entries: Iterable[Entry]) -> list[PackSpan]:
    """Return the reads that bring every blob of these files, pack by pack in the order of first use.

    They are few and large, since a request costs more than a gap. No read is longer than the largest pack.
    """
    by_pack: defaultdict[bytes, list[Piece]] = defaultdict(list)
    for entry in entries:
        file_offset = 0
        for blob in entry.blobs:
            by_pack[blob.pack].append(Piece(entry, blob, file_offset))
            file_offset += blob.size
    return [span for pack, pieces in by_pack.items() for span in _plan_pack(pack.hex(), pieces)]


def span_of(pack: str, pieces: Sequence[Piece]) -> PackSpan:
    """Return the read that brings these pieces of one pack."""
    start = pieces[0].blob.offset
    end = max(piece.blob.offset + piece.blob.size for piece in pieces)
    return PackSpan(pack, start, end - start, pieces)


def _plan_pack(pack: str, pieces: list[Piece]) -> list[PackSpan]:
    pieces.sort(key=lambda piece: (piece.blob.offset, piece.blob.size))
    start = end = pieces[0].blob.offset
    needed_bytes = 0
    for _, blob, _ in pieces:
        needed_bytes += max(0, blob.offset + blob.size - max(end, blob.offset))
        end = max(end, blob.offset + blob.size)
    is_dense = needed_bytes >= _DENSE_SHARE * (end - start)
    return [span_of(pack, group) for group in _group(pieces, MAX_PACK_BYTES if is_dense else MAX_GAP_BYTES)]


def _group(pieces: Iterable[Piece], max_gap_bytes: int) -> list[list[Piece]]:
    groups: list[list[Piece]] = []
    start = end = 0
    for piece in pieces:
        blob = piece.blob
        blob_end = blob.offset + blob.size
        if groups and blob.offset <= end + max_gap_bytes and blob_end - start <= MAX_PACK_BYTES:
            groups[-1].append(piece)
            end = max(end, blob_end)
        else:
            groups.append([piece])
            start, end = blob.offset, blob_end
    return groups
