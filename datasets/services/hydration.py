"""Fills a folder with files of a commit: packs are read in few large pieces, every file is verified before it shows.

It knows no commits, sites or rows: `checkouts` and `caches` decide what is filled where and when.
"""

import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from blake3 import blake3

from core import clock
from core.metrics import BYTES_HYDRATED
from datasets.engine.fetch_plan import PackSpan, Piece, plan_reads
from datasets.engine.layout import pack_key
from datasets.engine.ports import BlobStore
from datasets.errors import BlobMissing, ContentCorrupt, HydrationStopped, StoreUnreachable, TargetUnwritable
from nearline.content.hashing import file_id
from nearline.content.manifest import Entry, EntryKind
from nearline.content.retry import Failure, RetryPolicy, Waiting, ignore_waiting

DEFAULT_THREADS = 4
_ASKED_EVERY_S = 1.0
# So many files are planned at a time: bounds memory, and makes few packs be read twice at the seams.
_BATCH_FILES = 50_000
# No file of a dataset can lie in this folder: the name is reserved for the workspace itself.
_PARTS = Path(".nearline") / "parts"


@dataclass(frozen=True)
class HydrationProgress:
    """What is in place: files, their bytes, and the bytes that were read from the store for them."""

    files: int = 0
    size_bytes: int = 0
    bytes_moved: int = 0


OnProgress = Callable[[HydrationProgress], None]
OnWait = Callable[[Waiting], None]
ShouldStop = Callable[[], bool]


def hydrate(
    store: BlobStore,
    entries: Iterable[Entry],
    target: Path,
    *,
    threads: int = DEFAULT_THREADS,
    read_only: bool = True,
    keep_existing: bool = False,
    on_progress: OnProgress = lambda _: None,
    on_wait: OnWait = ignore_waiting,
    should_stop: ShouldStop = lambda: False,
    policy: RetryPolicy | None = None,
) -> HydrationProgress:
    """Write `entries` (sorted, of one tree) under `target` and return what was written.

    - `store` is the dataset's part of its store: `adapters.opening.open_dataset_store(dataset)`. `entries` may be a
      generator; memory is bounded by the batch and by one pack for each thread.
    - A file appears under its name only after all of its bytes were verified. It is created with O_EXCL: a file that is
      there already is an error (TargetUnwritable), or, with `keep_existing`, is kept when it has the right bytes
      and replaced when not. Folders are made first, symbolic links last, so nothing is written through a link.
    - With `read_only` files get mode 0444 or 0555 and the folders that hold them 0555; otherwise 0644, 0755 and 0755.
      Modification times are those of the entries.
    - `on_progress` gets running totals after every read, from any thread but never from two at once.
    - A store that is away is waited for as long as `policy` says; `on_wait` is told of each wait, from any thread.
    - `should_stop` is asked often; once it says yes, HydrationStopped is raised.

    Nothing is synced to disk; a caller that publishes the folder does that once, at the end. After an error the
    folder holds only whole files and perhaps `.nearline/parts`, which the next call overwrites.
    Raises ContentCorrupt, BlobMissing, StoreUnreachable, TargetUnwritable, HydrationStopped.
    """
    work = _Hydration(store, target, read_only=read_only, on_progress=on_progress, should_stop=should_stop)
    work.policy = replace(policy or work.policy, on_wait=on_wait)
    try:
        with ThreadPoolExecutor(threads, thread_name_prefix="hydrate") as pool:
            for batch in _batches(entries):
                work.fill(batch, pool, keep_existing=keep_existing)
        work.finish()
    except OSError as error:
        raise TargetUnwritable(f"{error.filename or target} cannot be written: {error.strerror}.") from error
    return work.progress


class _Hydration:
    """The state of one call: totals, the folders seen, the links to be made and the large files under way."""

    def __init__(
        self, store: BlobStore, target: Path, *, read_only: bool, on_progress: OnProgress, should_stop: ShouldStop
    ) -> None:
        self.progress = HydrationProgress()
        self._store = store
        self._target = os.fsencode(target)
        self._parts = target / _PARTS
        self._read_only = read_only
        self._on_progress = on_progress
        self._should_stop = should_stop
        self._lock = threading.Lock()
        self._folders: set[bytes] = set()
        self._links: list[Entry] = []
        self._missing_pieces: dict[bytes, int] = {}
        self._has_failed = threading.Event()
        self.policy = RetryPolicy(_classify, sleep=self.sleep)

    def fill(self, entries: Sequence[Entry], pool: ThreadPoolExecutor, *, keep_existing: bool) -> None:
        """Write one batch: everything but links, which are kept for the end."""
        self._make_folders(entries)
        wanted = []
        for entry in entries:
            if entry.kind is EntryKind.SYMLINK:
                self._links.append(entry)
            elif keep_existing and self._is_in_place(entry):
                self._count(files=1, size_bytes=entry.size)
            elif entry.blobs:
                wanted.append(entry)
            else:
                self._write_file(entry, b"")
                self._count(files=1)
        self._missing_pieces = {entry.path: len(entry.blobs) for entry in wanted if len(entry.blobs) > 1}
        if self._missing_pieces:
            self._parts.mkdir(parents=True, exist_ok=True)
        _run_all([pool.submit(self.bring, span) for span in plan_reads(wanted)])

    def finish(self) -> None:
        """Make the links, drop the folder of parts, and close the folders."""
        for entry in self._links:
            path = self._path(entry)
            if os.path.lexists(path):
                os.unlink(path)  # noqa: PTH108 (paths are bytes here)
            os.symlink(entry.target, path)  # noqa: PTH211
            self._count(files=1, size_bytes=entry.size)
        for folder in (self._parts, self._parts.parent):
            try:
                folder.rmdir()
            except OSError:
                break  # it was never made, or a caller keeps something of its own beside it
        if self._read_only:
            for path in sorted(self._folders, reverse=True):
                os.chmod(path, 0o555)  # noqa: PTH101, S103 (paths are bytes here; a cache is there to be read)

    def sleep(self, wait_s: float) -> None:
        """Wait, but not longer than the work goes on."""
        ends_at = clock.monotonic() + wait_s
        while (left_s := ends_at - clock.monotonic()) > 0:
            self._has_failed.wait(min(left_s, _ASKED_EVERY_S))
            self._stop_if_asked()

    def bring(self, span: PackSpan) -> None:
        """Read a part of a pack and write what is in it."""
        try:
            self._bring(span)
        except BaseException:
            self._has_failed.set()
            raise

    def _read(self, pack: str, offset: int, size: int) -> bytes:
        try:
            return self.policy.repeat(lambda: self._store.get_range(pack_key(pack), offset, size))
        except (BlobMissing, ContentCorrupt) as error:
            raise type(error)(error.message, **error.details, pack=pack) from error

    def _bring(self, span: PackSpan) -> None:
        self._stop_if_asked()
        data = memoryview(self._read(span.pack, span.offset, span.size))
        BYTES_HYDRATED.inc(span.size)
        files = size_bytes = 0
        for number, piece in enumerate(span.pieces):
            if number % 64 == 0:
                self._stop_if_asked()
            start = piece.blob.offset - span.offset
            content = self._verified(piece, data[start : start + piece.blob.size])
            if len(piece.entry.blobs) == 1:
                self._write_file(piece.entry, content)
                files += 1
            else:
                files += self._write_part(piece, content)
            size_bytes += piece.blob.size
        self._count(files=files, size_bytes=size_bytes, bytes_moved=span.size)

    def _verified(self, piece: Piece, content: memoryview) -> bytes | memoryview:
        if file_id(content) == piece.blob.content_id:
            return content
        # Damaged on its way, perhaps: one more try, for this blob alone.
        pack = piece.blob.pack.hex()
        again = self._read(pack, piece.blob.offset, piece.blob.size)
        if file_id(again) == piece.blob.content_id:
            return again
        name = _show(piece.entry)
        raise ContentCorrupt(f"The store's copy of '{name}' is damaged (pack {pack[:12]}).", path=name, pack=pack)

    def _write_file(self, entry: Entry, content: bytes | memoryview) -> None:
        descriptor = os.open(self._path(entry), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            _write_at(descriptor, content, 0)
            self._dress(descriptor, entry)
        except BaseException:
            os.unlink(self._path(entry))  # noqa: PTH108 (no file is seen half written)
            raise
        finally:
            os.close(descriptor)

    def _write_part(self, piece: Piece, content: bytes | memoryview) -> int:
        """Write a piece of a large file; return 1 when it was the last and the file stands under its name."""
        part = self._parts / blake3(piece.entry.path).hexdigest()
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            _write_at(descriptor, content, piece.file_offset)
            with self._lock:
                self._missing_pieces[piece.entry.path] -= 1
                is_whole = self._missing_pieces[piece.entry.path] == 0
            if not is_whole:
                return 0
            os.ftruncate(descriptor, piece.entry.size)
            self._dress(descriptor, piece.entry)
        finally:
            os.close(descriptor)
        # Each piece was right; that they are the right pieces in the right order only the whole can say.
        if blake3().update_mmap(part).digest() != piece.entry.content_id:
            name = _show(piece.entry)
            raise ContentCorrupt(f"The manifest lists wrong pieces for '{name}'.", path=name)
        os.link(part, self._path(piece.entry))
        part.unlink()
        return 1

    def _dress(self, descriptor: int, entry: Entry) -> None:
        is_executable = bool(entry.mode & 0o111)
        mode = 0o444 if self._read_only else 0o644
        os.fchmod(descriptor, mode | (0o111 if is_executable else 0))
        os.utime(descriptor, ns=(entry.mtime_ns, entry.mtime_ns))

    def _is_in_place(self, entry: Entry) -> bool:
        path = self._path(entry)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return False
        is_right = (
            stat.S_ISREG(found.st_mode)
            and found.st_size == entry.size
            and blake3().update_mmap(os.fsdecode(path)).digest() == entry.content_id
        )
        if not is_right:
            os.unlink(path)  # noqa: PTH108 (paths are bytes here)
        return is_right

    def _make_folders(self, entries: Iterable[Entry]) -> None:
        os.makedirs(self._target, exist_ok=True)  # noqa: PTH103 (paths are bytes here)
        self._folders.add(self._target)
        for entry in entries:
            folder = self._path(entry).rpartition(b"/")[0]
            missing = []
            while folder not in self._folders:
                missing.append(folder)
                folder = folder.rpartition(b"/")[0]
            for path in reversed(missing):
                self._make_folder(path)
                self._folders.add(path)

    def _make_folder(self, path: bytes) -> None:
        try:
            os.mkdir(path, 0o755)  # noqa: PTH102 (paths are bytes here)
        except FileExistsError:
            if not os.path.isdir(path) or os.path.islink(path):  # noqa: PTH112, PTH114
                raise
        # Whatever the umask is, and though an earlier call closed it.
        os.chmod(path, 0o755)  # noqa: PTH101, S103 (paths are bytes here; a copy is there to be read)

    def _count(self, *, files: int = 0, size_bytes: int = 0, bytes_moved: int = 0) -> None:
        with self._lock:
            done = self.progress
            self.progress = HydrationProgress(
                done.files + files, done.size_bytes + size_bytes, done.bytes_moved + bytes_moved
            )
            if bytes_moved:
                self._on_progress(self.progress)

    def _stop_if_asked(self) -> None:
        if self._should_stop() or self._has_failed.is_set():
            raise HydrationStopped("Stopped on request.")

    def _path(self, entry: Entry) -> bytes:
        return self._target + b"/" + entry.path


def _batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    source = iter(entries)
    while batch := list(islice(source, _BATCH_FILES)):
        yield batch


def _run_all(futures: Sequence[Future[None]]) -> None:
    done, waiting = wait(futures, return_when=FIRST_EXCEPTION)
    for future in waiting:
        future.cancel()
    wait(waiting)
    errors = [error for future in (*done, *waiting) if not future.cancelled() and (error := future.exception())]
    # Those that stopped because another failed have nothing to tell.
    for error in sorted(errors, key=lambda error: isinstance(error, HydrationStopped)):
        raise error


def _classify(error: Exception) -> Failure:
    return Failure.UNAVAILABLE if isinstance(error, StoreUnreachable) else Failure.PERMANENT


def _write_at(descriptor: int, content: bytes | memoryview, offset: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def _show(entry: Entry) -> str:
    return entry.path.decode("utf-8", "backslashreplace")
