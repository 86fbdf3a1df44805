"""Mapping files where they lie: the packs that a client would make of them, of which maps alone are kept.

Packs are made as for an upload, and named by all of their bytes; only what is kept of them differs.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from typing import BinaryIO, Final, Protocol

from nearline.content.hashing import EMPTY_ID, file_id, new_hasher
from nearline.content.manifest import BlobRef, Entry, new_symlink
from nearline.content.pack_maps import MappedFile, PackMap, Piece
from nearline.content.packs import PackBuilder, cut_chunks, is_chunked

# So many small files are read ahead of the one being packed.
_READ_AHEAD: Final = 64


@dataclass(frozen=True)
class FoundFile:
    """A file of a source, by its path below the source; with `target` a symbolic link.

    `version` differs once the file was written to. `why` says why a file cannot be carried; empty for all others.
    """

    path: bytes
    size_bytes: int
    version: str
    mtime_ns: int
    mode: int = 0o644
    target: bytes = b""
    why: str = ""


class Reads(Protocol):
    """Opens files of a source."""

    @property
    def parallel_reads(self) -> int:
        """How many files at once it is worth to read."""
        ...

    def open(self, file: FoundFile) -> AbstractContextManager[BinaryIO]:
        """Return the content of a file from its beginning. Raises where it is not what was found any more."""
        ...


@dataclass
class _Draft:
    """An entry whose blobs have no place yet."""

    entry: Entry
    blobs: list[bytes] = field(default_factory=list)


class MapWriter:
    """Takes files in the order of their paths in the tree, and yields their entries in that order.

    `on_pack` gets the name of each pack and its map, whose `source` is `facts`; `on_read` gets the bytes read so far,
    often. Both may raise. `find_known` returns the entry that the tree has at a path, if its content is at hand: the
    same is not mapped again. `on_changed` returns the error for a file that has not the length that it was found with.
    """

    def __init__(
        self,
        source: Reads,
        *,
        facts: Mapping[str, str],
        on_pack: Callable[[str, PackMap], None],
        on_read: Callable[[int], None],
        on_changed: Callable[[FoundFile], Exception],
        find_known: Callable[[bytes], Entry | None] = lambda _: None,
        most_blobs: int | None = None,
    ) -> None:
        self.read_bytes = 0
        self._source = source
        self._facts = facts
        self._on_pack = on_pack
        self._on_read = on_read
        self._on_changed = on_changed
        self._find_known = find_known
        self._most_blobs = most_blobs
        self._builder = PackBuilder()
        self._growing: dict[bytes, tuple[FoundFile, int]] = {}
        self._placed: dict[bytes, BlobRef] = {}

    def write(self, files: Iterable[tuple[bytes, FoundFile]]) -> Iterator[Entry]:
        """Map the content of files, each with its path in the tree, and yield their entries as soon as they are whole.

        Raises what `open` of the source raises for what changes meanwhile.
        """
        drafts: deque[_Draft] = deque()
        for path, file, data in self._read_ahead(files):
            if file.target:
                drafts.append(_Draft(new_symlink(path, file.target, file.mtime_ns)))
            elif data is None:
                drafts.append(self._take_large(path, file))
            else:
                drafts.append(self._take_small(path, file, data))
            self._on_read(self.read_bytes)
            yield from self._take_whole(drafts)
        self._flush()
        yield from self._take_whole(drafts)

    def _take_whole(self, drafts: deque[_Draft]) -> Iterator[Entry]:
        while drafts and all(blob in self._placed for blob in drafts[0].blobs):
            draft = drafts.popleft()
            blobs = tuple(self._placed[blob] for blob in draft.blobs)
            yield draft.entry._replace(blobs=blobs) if blobs else draft.entry

    def _read_ahead(self, files: Iterable[tuple[bytes, FoundFile]]) -> Iterator[tuple[bytes, FoundFile, bytes | None]]:
        """Yield files with their content; None for those that are too large to be held whole."""
        waiting = iter(files)
        with ThreadPoolExecutor(self._source.parallel_reads, thread_name_prefix="source") as pool:

            def start(item: tuple[bytes, FoundFile]) -> tuple[bytes, FoundFile, Future[bytes] | None]:
                is_whole = not item[1].target and not is_chunked(item[1].size_bytes)
                return *item, pool.submit(self._read, item[1]) if is_whole else None

            ahead = deque(map(start, islice(waiting, _READ_AHEAD)))
            try:
                while ahead:
                    path, file, reading = ahead.popleft()
                    yield path, file, None if reading is None else reading.result()
                    ahead.extend(map(start, islice(waiting, 1)))
            finally:
                pool.shutdown(cancel_futures=True)

    def _read(self, file: FoundFile) -> bytes:
        with self._source.open(file) as stream:
            data = stream.read(file.size_bytes + 1) if file.size_bytes else b""
            while len(data) < file.size_bytes and (more := stream.read(file.size_bytes - len(data))):
                data += more
        self._check_length(file, len(data))
        return data

    def _take_small(self, path: bytes, file: FoundFile, data: bytes) -> _Draft:
        self.read_bytes += len(data)
        entry = Entry(path, file.mode, len(data), file.mtime_ns, file_id(data) if data else EMPTY_ID)
        if (draft := self._keep_known(path, entry)) is not None:
            return draft
        draft = _Draft(entry)
        if data:
            self._place(draft, entry.content_id, data, file, 0)
        return draft

    def _take_large(self, path: bytes, file: FoundFile) -> _Draft:
        draft = _Draft(Entry(path, file.mode, file.size_bytes, file.mtime_ns, EMPTY_ID))
        hasher, size = new_hasher(), 0
        with self._source.open(file) as stream:
            for offset, chunk in cut_chunks(stream, file.size_bytes):
                data = bytes(chunk)
                hasher.update(data)
                size += len(data)
                self.read_bytes += len(data)
                self._place(draft, file_id(data), data, file, offset)
                self._on_read(self.read_bytes)
        self._check_length(file, size)
        draft.entry = draft.entry._replace(content_id=hasher.digest())
        return self._keep_known(path, draft.entry) or draft

    def _keep_known(self, path: bytes, entry: Entry) -> _Draft | None:
        known = self._find_known(path)
        if known is None or (known.content_id, known.kind) != (entry.content_id, entry.kind):
            return None
        return _Draft(entry._replace(blobs=known.blobs))

    def _place(self, draft: _Draft, content_id: bytes, data: bytes, file: FoundFile, offset: int) -> None:
        draft.blobs.append(content_id)
        if content_id in self._placed or content_id in self._growing:
            return
        if not self._builder.fits(len(data)) or len(self._growing) == self._most_blobs:
            self._flush()
        self._builder.add(data, content_id)
        self._growing[content_id] = (file, offset)

    def _flush(self) -> None:
        """Name the pack that grew, and hand over its map."""
        if self._builder.is_empty:
            return
        pack = self._builder.finish()
        origins, self._growing = self._growing, {}
        files = {file.path: file for file, _ in origins.values()}
        numbers = {path: number for number, path in enumerate(files)}
        places = [origins[blob.content_id] for blob in pack.blobs]
        pack_map = PackMap(
            self._facts,
            [MappedFile(file.path, file.size_bytes, file.version) for file in files.values()],
            pack.blobs,
            [Piece(numbers[file.path], offset) for file, offset in places],
        )
        self._on_pack(pack.name, pack_map)
        for blob in pack.blobs:
            self._placed[blob.content_id] = BlobRef(blob.content_id, pack.sha256, blob.offset, blob.size)

    def _check_length(self, file: FoundFile, size: int) -> None:
        if size != file.size_bytes:
            raise self._on_changed(file)
