"""Files out of packs: planned by pack, fetched in parallel, every file checked by its hash before it is visible."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

from nearline.content.entries import BlobRef, Entry, EntryKind
from nearline.content.errors import BadPack
from nearline.content.hashing import check_id, new_hasher
from nearline.content.retry import RetryPolicy
from nearline.errors import Failed
from nearline.transfer.local.target import TargetFolder
from nearline.transfer.local.walk import Found, cannot
from nearline.transfer.progress import Meter
from nearline.transfer.remote.objects import ObjectReader
from nearline.transfer.remote.server import ObjectKind, Server

# Reading over a gap is cheaper than another request, up to here.
_GAP_BYTES = 1 << 20
_LARGEST_READ = 64 << 20


class Wanted(NamedTuple):
    """An entry to bring here. `choose_path` is asked just before the file becomes visible; None leaves it out."""

    entry: Entry
    choose_path: Callable[[], bytes | None]


class Fetched(NamedTuple):
    """A file that is here now."""

    entry: Entry
    found: Found


class Piece(NamedTuple):
    """A part of a pack to read at once, and the files in it."""

    pack: bytes
    offset: int
    size: int
    files: list[Wanted]


def plan_pieces(wanted: Iterable[Wanted]) -> list[Piece]:
    """Return what to read of which pack for files of one blob.

    Where at least half of what lies between the first and the last wanted byte of a pack is wanted, that is one read;
    elsewhere wanted bytes are joined over gaps of at most a mebibyte.
    """
    by_pack: dict[bytes, list[Wanted]] = {}
    for item in wanted:
        by_pack.setdefault(item.entry.blobs[0].pack, []).append(item)
    pieces: list[Piece] = []
    for pack, files in by_pack.items():
        files.sort(key=lambda item: item.entry.blobs[0].offset)
        extents = {(item.entry.blobs[0].offset, item.entry.size) for item in files}
        first = min(offset for offset, _ in extents)
        last = max(offset + size for offset, size in extents)
        is_dense = 2 * sum(size for _, size in extents) >= last - first
        pieces += _join(pack, files, _LARGEST_READ if is_dense else _GAP_BYTES)
    return pieces


def fetch_files(
    server: Server,
    target: TargetFolder,
    wanted: Sequence[Wanted],
    *,
    threads: int,
    policy: RetryPolicy,
    meter: Meter,
    on_fetched: Callable[[list[Fetched]], None],
) -> None:
    """Bring all wanted files here; `on_fetched` is told group by group, from the threads that fetched them.

    Raises Failed when content is damaged in the store: what is here by then is right, and asking again goes on.
    """
    simple = [item for item in wanted if not item.entry.blobs]
    single = [item for item in wanted if len(item.entry.blobs) == 1]
    large = [item for item in wanted if len(item.entry.blobs) > 1]
    pieces = plan_pieces(single)
    expected = [(ObjectKind.PACK, piece.pack.hex()) for piece in pieces]
    expected += [(ObjectKind.PACK, blob.pack.hex()) for item in large for blob in item.entry.blobs]
    fetcher = _Fetcher(ObjectReader(server, policy, expected), target, meter, on_fetched)
    fetcher.write_simple(simple)
    with ThreadPoolExecutor(threads, thread_name_prefix="fetch") as pool:
        futures = [pool.submit(fetcher.fetch_piece, piece) for piece in pieces]
        futures += [pool.submit(fetcher.fetch_large, item) for item in large]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _join(pack: bytes, files: list[Wanted], gap: int) -> Iterator[Piece]:
    piece: Piece | None = None
    for item in files:
        blob = item.entry.blobs[0]
        end = blob.offset + blob.size
        if piece is not None and blob.offset <= piece.offset + piece.size + gap and end - piece.offset <= _LARGEST_READ:
            piece.files.append(item)
            piece = piece._replace(size=max(piece.size, end - piece.offset))
        else:
            if piece is not None:
                yield piece
            piece = Piece(pack, blob.offset, blob.size, [item])
    if piece is not None:
        yield piece


class _Fetcher:
    def __init__(
        self,
        reader: ObjectReader,
        target: TargetFolder,
        meter: Meter,
        on_fetched: Callable[[list[Fetched]], None],
    ) -> None:
        self._reader = reader
        self._target = target
        self._meter = meter
        self._on_fetched = on_fetched

    def write_simple(self, items: Iterable[Wanted]) -> None:
        """Write links and empty files, which need no reading."""
        fetched = []
        for item in items:
            path = item.choose_path()
            if path is not None:
                is_link = item.entry.kind is EntryKind.SYMLINK
                found = (
                    self._target.write_link(path, item.entry)
                    if is_link
                    else self._target.write_file(path, item.entry, b"")
                )
                fetched.append(Fetched(item.entry, found))
            self._meter.add(files=1)
        self._on_fetched(fetched)

    def fetch_piece(self, piece: Piece) -> None:
        """Read a part of a pack and write the files in it."""

        def check(view: memoryview) -> memoryview:
            _check_length(view, piece.size)
            for item in piece.files:
                start = item.entry.blobs[0].offset - piece.offset
                check_id(view[start : start + item.entry.size], item.entry.content_id, _name(item.entry))
            return view

        view = self._reader.read((ObjectKind.PACK, piece.pack.hex()), check, (piece.offset, piece.size))
        fetched = []
        for item in piece.files:
            start = item.entry.blobs[0].offset - piece.offset
            path = item.choose_path()
            if path is not None:
                found = self._target.write_file(path, item.entry, view[start : start + item.entry.size])
                fetched.append(Fetched(item.entry, found))
            self._meter.add(files=1, size_bytes=item.entry.size)
        self._on_fetched(fetched)

    def fetch_large(self, item: Wanted) -> None:
        """Write a file of several blobs piece by piece, and make it visible once the whole has the right hash."""
        entry = item.entry
        descriptor, place = self._target.open_new(entry)
        is_published = False
        try:
            hasher = new_hasher()
            for blobs in _runs(entry.blobs):
                data = self._read_run(entry, blobs)
                hasher.update(data)
                _write(descriptor, data, entry)
                self._meter.add(size_bytes=len(data))
            if hasher.digest() != entry.content_id:
                raise Failed(
                    f"{_name(entry)} is damaged: its pieces are right, but do not make the file.", code="client.damaged"
                )
            path = item.choose_path()
            if path is not None:
                is_published = True
                self._on_fetched([Fetched(entry, self._target.publish(descriptor, place, path, entry))])
        finally:
            if not is_published:
                os.close(descriptor)
                self._target.discard(place)
        self._meter.add(files=1)

    def _read_run(self, entry: Entry, blobs: list[BlobRef]) -> memoryview:
        size = sum(blob.size for blob in blobs)

        def check(view: memoryview) -> memoryview:
            _check_length(view, size)
            start = 0
            for blob in blobs:
                check_id(view[start : start + blob.size], blob.content_id, f"A piece of {_name(entry)}")
                start += blob.size
            return view

        return self._reader.read((ObjectKind.PACK, blobs[0].pack.hex()), check, (blobs[0].offset, size))


def _runs(blobs: Sequence[BlobRef]) -> Iterator[list[BlobRef]]:
    """Yield the blobs in order, those together that follow one another in one pack."""
    run: list[BlobRef] = []
    for blob in blobs:
        if run and (blob.pack != run[-1].pack or blob.offset != run[-1].offset + run[-1].size):
            yield run
            run = []
        run.append(blob)
    if run:
        yield run


def _write(descriptor: int, view: memoryview, entry: Entry) -> None:
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError as error:
        raise cannot("write", entry.path, error) from error


def _check_length(data: memoryview, size: int) -> None:
    if len(data) != size:
        raise BadPack(f"{size} bytes were asked for and {len(data)} came.")


def _name(entry: Entry) -> str:
    return f"'{entry.path.decode('utf-8', 'backslashreplace')}'"
