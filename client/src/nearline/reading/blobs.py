"""Blobs out of packs: verified before they are given, kept in bounded memory, and read ahead where that pays."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import accumulate, takewhile
from typing import Protocol

from nearline.content.entries import BlobRef, Entry
from nearline.content.hashing import file_id
from nearline.content.retry import RetryPolicy
from nearline.hydrate.engine import PackSpan, plan_reads, span_of
from nearline.hydrate.ports import PackSource

# Bytes may be damaged on their way; when they come damaged for the last time, the stored copy is.
_READS = 3

Blobs = Mapping[bytes, bytes]


class Reader(Protocol):
    """Gives the content of files, verified. Safe to use from several threads."""

    def close(self) -> None:
        """Stop reading."""

    def fetch_ahead(self, entries: Iterable[Entry]) -> None:
        """Learn what is read next."""

    def read_file(self, entry: Entry) -> bytes:
        """Return the content of a file."""

    def read_blob(self, entry: Entry, blob: BlobRef) -> bytes:
        """Return one blob of a file."""


class BlobReader:
    """Reads the content of files. Safe to use from several threads; `threads` of its own read the store.

    `memory_bytes` bounds what is kept of blobs that were read. What is being read comes on top: a pack for each thread.
    """

    def __init__(self, source: PackSource, policy: RetryPolicy, *, memory_bytes: int, threads: int) -> None:
        self._source = source
        self._policy = policy
        self._memory_bytes = memory_bytes
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="read-commit")
        self._lock = threading.Lock()
        self._contents: OrderedDict[bytes, bytes] = OrderedDict()
        self._contents_bytes = 0
        self._coming: dict[bytes, Future[Blobs]] = {}

    def close(self) -> None:
        """Stop reading; what is being read is waited for."""
        self._pool.shutdown(cancel_futures=True)

    def fetch_ahead(self, entries: Iterable[Entry]) -> None:
        """Begin to read what is not here of these files, in few large reads; of a large file only its first blobs."""
        with self._lock:
            self._begin(entry._replace(blobs=self._first_blobs(entry.blobs)) for entry in entries)

    def read_file(self, entry: Entry) -> bytes:
        """Return the content of a file. Raises what the source raises for content that stays damaged."""
        pieces, rest = [], entry.blobs
        while rest:
            first = self._first_blobs(rest)
            self.fetch_ahead([entry._replace(blobs=first)])
            pieces += [self.read_blob(entry, blob) for blob in first]
            rest = rest[len(first) :]
        content = b"".join(pieces)
        # Each piece was right; that they are the right pieces in the right order only the whole can say.
        if len(entry.blobs) > 1 and file_id(content) != entry.content_id:
            raise self._source.damage_error(entry.path, None)
        return content

    def read_blob(self, entry: Entry, blob: BlobRef) -> bytes:
        """Return one blob of a file. Raises like `read_file`."""
        with self._lock:
            if blob.content_id in self._contents:
                self._contents.move_to_end(blob.content_id)
                return self._contents[blob.content_id]
            self._begin([entry._replace(blobs=(blob,))])
            coming = self._coming[blob.content_id]
        return coming.result()[blob.content_id]

    def _first_blobs(self, blobs: tuple[BlobRef, ...]) -> tuple[BlobRef, ...]:
        """Return as many blobs, at least one, as can be kept while they and others wait to be taken."""
        if len(blobs) == 1:
            return blobs
        ends = accumulate(blob.size for blob in blobs)
        return blobs[: max(1, sum(1 for _ in takewhile(lambda end: end <= self._memory_bytes // 4, ends)))]

    def _begin(self, entries: Iterable[Entry]) -> None:
        missing, asked = [], set[bytes]()
        for entry in entries:
            blobs = {blob.content_id: blob for blob in entry.blobs if blob.content_id not in self._contents}
            unasked = {name: blob for name, blob in blobs.items() if name not in self._coming and name not in asked}
            asked.update(unasked)
            if unasked:
                missing.append(entry._replace(blobs=tuple(unasked.values())))
        spans = plan_reads(missing)
        if spans:
            self._source.announce(list(dict.fromkeys(span.pack for span in spans)))
        for span in spans:
            future = self._pool.submit(self._read, span)
            self._coming.update(dict.fromkeys((piece.blob.content_id for piece in span.pieces), future))

    def _read(self, span: PackSpan) -> Blobs:
        contents: Blobs = {}
        try:
            contents = self._read_verified(span)
            return contents
        finally:
            with self._lock:
                for piece in span.pieces:
                    self._coming.pop(piece.blob.content_id, None)
                self._keep(contents)

    def _read_verified(self, span: PackSpan) -> dict[bytes, bytes]:
        verified: dict[bytes, bytes] = {}
        for _ in range(_READS):
            view = memoryview(self._policy.repeat(partial(self._source.read, span.pack, span.offset, span.size)))
            damaged = []
            for piece in span.pieces:
                start = piece.blob.offset - span.offset
                content = bytes(view[start : start + piece.blob.size])
                if file_id(content) == piece.blob.content_id:
                    verified[piece.blob.content_id] = content
                else:
                    damaged.append(piece)
            if not damaged:
                return verified
            span = span_of(span.pack, damaged)
        raise self._source.damage_error(span.pieces[0].entry.path, span.pack)

    def _keep(self, contents: Blobs) -> None:
        for content_id, content in contents.items():
            if content_id not in self._contents:
                self._contents[content_id] = content
                self._contents_bytes += len(content)
        while self._contents_bytes > self._memory_bytes:
            self._contents_bytes -= len(self._contents.popitem(last=False)[1])
