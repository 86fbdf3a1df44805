"""The files of one commit, read from the store as they are asked for."""

import io
import logging
import os
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from types import TracebackType
from typing import Any, Self, TypeVar

from nearline.content.entries import Entry
from nearline.content.paths import to_bytes, to_text
from nearline.content.patterns import Patterns, parse_glob
from nearline.content.retry import Waiting
from nearline.errors import NotFound
from nearline.models import Commit, Output
from nearline.reading.blobs import BlobReader, Reader
from nearline.reading.order import Order, in_order
from nearline.reading.samples import Group, Mix, Sample, is_archive, list_groups, mixed, name_fields, read_archive
from nearline.reading.tree import Child, TreeFiles
from nearline.transfer.remote.manifests import Manifests
from nearline.transfer.remote.objects import SignedPacks
from nearline.transfer.remote.retry import LONGEST_WAIT_S, transfer_policy
from nearline.transfer.remote.server import Storage

DEFAULT_MEMORY_BYTES = 256 << 20
DEFAULT_THREADS = 8
T = TypeVar("T")
_EVERYTHING = "**"
# A stream begins with little, so that its first file comes soon.
_FIRST_PORTION_BYTES = 1 << 20
_PORTION_FILES = 4_096
log = logging.getLogger("nearline")

# What is over sooner need not be told.
_UNTOLD_S = 3.0


@dataclass(frozen=True)
class _Opened:
    """What one process has open."""

    process: int
    tree: TreeFiles
    blobs: Reader


class CommitFiles:
    """The files of one commit, or of an output. What is read is verified; nothing is written to disk.

    `connect` opens a connection to the commit's dataset. Every process that uses the object opens one for itself: it
    may be inherited by `fork`, and pickled where `connect` may be. Safe to use from several threads. `memory_bytes`
    bounds what is kept of the content, `threads` how many reads are made at once. A read waits for at most
    `max_wait_s` while the store is away, which the logger `nearline` warns of.

    Methods raise NotFound for a path that is no file of the commit, Unavailable when that wait is over, and other
    errors of the server and the store.
    """

    def __init__(
        self,
        commit: Commit | Output,
        connect: Callable[[], Storage],
        *,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        threads: int = DEFAULT_THREADS,
        max_wait_s: float = LONGEST_WAIT_S,
    ) -> None:
        self.commit = commit
        self._connect = connect
        self._memory_bytes = memory_bytes
        self._threads = threads
        self._max_wait_s = max_wait_s
        self._opened: _Opened | None = None

    def __len__(self) -> int:
        """Return how many files and links the commit has."""
        return self.commit.files

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_opened": None}

    def close(self) -> None:
        """Stop reading, and forget what was read."""
        if self._opened is not None and self._opened.process == os.getpid():
            self._opened.blobs.close()
        self._opened = None

    def paths(self, glob: str = _EVERYTHING) -> Iterator[str]:
        """Yield the paths of the files that match, in their order; links are left out."""
        return (to_text(entry.path) for entry in in_order(self._open().tree, _matcher(glob), Order()))

    def list_folder(self, path: str = "") -> Iterator[Child]:
        """Yield what lies directly in a folder."""
        return self._open().tree.list_folder(to_bytes(path.strip("/")))

    def find(self, path: str) -> Entry | None:
        """Return the file at a path, or None."""
        try:
            name = to_bytes(path.strip("/"))
        except UnicodeEncodeError:  # no file has such a name
            return None
        return self._open().tree.find(name)

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        return self._open().blobs.read_file(self._get(path))

    def read_many(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the content of each of these files. Files that follow are read at the same time, in few large reads."""
        return (content for _, content in self._read_ahead([self._get(path) for path in paths]))

    def open(self, path: str) -> io.BufferedReader:
        """Open a file for reading; it can be seeked in, and what is not read is not fetched."""
        return io.BufferedReader(CommitFile(self._get(path), self._open().blobs), 1 << 16)

    def stream(
        self, glob: str = _EVERYTHING, *, shuffle: int | None = None, shard: int = 0, shards: int = 1
    ) -> Iterator[tuple[str, bytes]]:
        """Yield path and content of every file that matches, while the next ones are read ahead.

        In the order of their paths; with `shuffle` in a random order that this number decides. Over `shards` streams
        with the same arguments every file comes once: each takes those of its `shard`, counted from 0. Raises
        InvalidRequest for a shard that there is not.
        """
        order = Order(shuffle, shard, shards, self._memory_bytes // 4)
        yield from self._read_ahead(in_order(self._open().tree, _matcher(glob), order))

    def _read_ahead(self, files: Iterable[Entry]) -> Iterator[tuple[str, bytes]]:
        blobs = self._open().blobs
        coming: deque[list[Entry]] = deque()
        for portion in _portions(files, self._memory_bytes // 4, lambda file: file.size):
            blobs.fetch_ahead(portion)
            coming.append(portion)
            if len(coming) > 1:
                yield from _read(blobs, coming.popleft())
        for portion in coming:
            yield from _read(blobs, portion)

    def _near(self, storage: Storage, blobs: BlobReader) -> Reader:  # noqa: ARG002 (for who has files nearer)
        """Return what gives the content: the store, unless there is something nearer."""
        return blobs

    def samples(
        self,
        glob: str = _EVERYTHING,
        *,
        shuffle: int | None = None,
        buffer: int = 1000,
        shard: int = 0,
        shards: int = 1,
        start: int = 0,
    ) -> Iterator[Sample]:
        """Yield samples, the next ones read ahead: files of one name up to its first dot, and members of tars.

        With `shuffle` in a random order that this number decides, mixed over so many samples (`buffer`). Over `shards`
        streams with the same arguments every sample comes once. `start` leaves out as many: what a stream had given
        before it was broken off. Raises InvalidRequest for a shard that there is not.
        """
        opened = self._open()
        mix = None if shuffle is None else Mix(shuffle, buffer)
        groups = list_groups(opened.tree, _matcher(glob), Order(shuffle, shard, shards), mix)
        while start and (group := next(groups, None)) is not None:
            if is_archive(group):
                samples = list(islice(self._samples_of(group, mix), start))
                if len(samples) == start:
                    yield from islice(self._samples_of(group, mix), start, None)
                start -= len(samples)
            else:
                start -= 1
        coming: deque[list[Group]] = deque()
        for portion in _portions(groups, self._memory_bytes // 4, _size_of):
            opened.blobs.fetch_ahead(entry for group in portion if not is_archive(group) for entry in group)
            coming.append(portion)
            if len(coming) > 1:
                yield from self._read_samples(coming.popleft(), mix)
        for portion in coming:
            yield from self._read_samples(portion, mix)

    def _read_samples(self, portion: Iterable[Group], mix: Mix | None) -> Iterator[Sample]:
        for group in portion:
            yield from self._samples_of(group, mix)

    def _samples_of(self, group: Group, mix: Mix | None) -> Iterator[Sample]:
        blobs = self._open().blobs
        if not is_archive(group):
            yield name_fields(group, [blobs.read_file(entry) for entry in group])
            return
        path = to_text(group[0].path)
        with io.BufferedReader(CommitFile(group[0], blobs), 1 << 16) as file:
            samples = read_archive(path, file)
            yield from samples if mix is None else mixed(samples, mix.buffer, mix.mixer_of(path))

    def _get(self, path: str) -> Entry:
        entry = self.find(path)
        if entry is None:
            raise NotFound(
                f"There is no file '{path}' in {self.commit.label}.", hint="Paths are relative to the dataset."
            )
        return entry

    def _open(self) -> _Opened:
        if self._opened is None or self._opened.process != os.getpid():
            storage, policy = self._connect(), transfer_policy(OutageWarning(), self._max_wait_s)
            manifests = Manifests(storage, policy=policy)
            blobs = BlobReader(
                SignedPacks(storage, policy), policy, memory_bytes=self._memory_bytes, threads=self._threads
            )
            tree = TreeFiles(manifests.load_root(self.commit.root), manifests.load_range)
            self._opened = _Opened(os.getpid(), tree, self._near(storage, blobs))
        return self._opened


class CommitFile(io.RawIOBase):
    """One file of a commit, read blob by blob."""

    def __init__(self, entry: Entry, blobs: Reader) -> None:
        self._entry = entry
        self._blobs = blobs
        self._starts = [0, *accumulate(blob.size for blob in entry.blobs)]
        self._position = 0
        self._read_to = -1

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def seekable(self) -> bool:
        """Return that every place of it can be read."""
        return True

    def tell(self) -> int:
        """Return the place of the next read, in bytes from the start."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to another place."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._entry.size}[whence]
        if base + offset < 0:
            raise OSError(22, "There is nothing before the start of a file.")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any, /) -> int:  # its type has a name from Python 3.12 on
        """Fill a buffer from this place on, at most to the end of a blob; return how many bytes there were."""
        if self._position >= self._entry.size:
            return 0
        number = bisect_right(self._starts, self._position) - 1
        if number == self._read_to + 1:  # it is read on from where it was: what follows will be wanted
            self._blobs.fetch_ahead([self._entry._replace(blobs=self._entry.blobs[number:])])
        self._read_to = number
        content = self._blobs.read_blob(self._entry, self._entry.blobs[number])
        start = self._position - self._starts[number]
        view = memoryview(buffer).cast("B")
        part = content[start : start + len(view)]
        view[: len(part)] = part
        self._position += len(part)
        return len(part)


class OutageWarning:
    """Tells in a program's log that the store is away while its reads wait, once for as long as they are tried again.

    Takes note of every wait, from any thread.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._told_until = float("-inf")

    def __call__(self, waiting: Waiting) -> None:
        """Tell the reason, and for how long it is tried."""
        with self._lock:
            now = self._clock()
            if waiting.waited_s < _UNTOLD_S or now < self._told_until:
                return
            self._told_until = now + waiting.left_s
        log.warning("%s Reading is tried again, for at most %d s more.", waiting.reason, waiting.left_s)


def _matcher(glob: str) -> Callable[[bytes], bool]:
    if glob == _EVERYTHING:
        return lambda _: True
    patterns = Patterns([parse_glob(glob)])
    return lambda path: patterns.matches(to_text(path))


def _size_of(group: Group) -> int:
    return sum(entry.size for entry in group)


def _portions(files: Iterable[T], most_bytes: int, size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Cut files, or samples, into portions to be read together, the first ones small."""
    portion: list[T] = []
    wanted_bytes, portion_bytes = min(_FIRST_PORTION_BYTES, most_bytes), 0
    for file in files:
        portion.append(file)
        portion_bytes += size_of(file)
        if portion_bytes >= wanted_bytes or len(portion) == _PORTION_FILES:
            yield portion
            wanted_bytes, portion_bytes, portion = min(2 * wanted_bytes, most_bytes), 0, []
    if portion:
        yield portion


def _read(blobs: Reader, portion: Iterable[Entry]) -> Iterator[tuple[str, bytes]]:
    for entry in portion:
        yield to_text(entry.path), blobs.read_file(entry)
