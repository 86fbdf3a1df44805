"""Files of a cached copy that is being filled: what is there is read there, the rest from the store."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from nearline.content.entries import BlobRef, Entry
from nearline.content.hashing import file_id
from nearline.errors import NearlineError
from nearline.reading.blobs import BlobReader

_MOST_WANTED = 64
_TELL_EVERY_S = 0.25
# What is read first is asked of the store as soon as it is announced: the copy will not have it by then.
_EAGER_BYTES = 8 << 20


class CopyReader:
    """Reads files of a copy that is being filled, each compared with its hash; what is not there comes from `store`.

    `want` is told which packs hold what is read next and is not there, so that they are fetched first.
    """

    def __init__(self, folder: Path, store: BlobReader, want: Callable[[Sequence[str]], None]) -> None:
        self._folder = folder
        self._store = store
        self._want = want
        self._lock = threading.Lock()
        self._coming: dict[bytes, Sequence[Entry]] = {}
        # Beside the reads, which wait neither for the platform nor for one that is away.
        self._teller = ThreadPoolExecutor(1, thread_name_prefix="tell-wanted")
        self._telling: Future[None] | None = None
        self._announced_bytes = 0
        self._reported_at = float("-inf")
        self._reported: Sequence[str] = ()

    def close(self) -> None:
        """Stop reading."""
        self._teller.shutdown(wait=False, cancel_futures=True)
        self._store.close()

    def fetch_ahead(self, entries: Iterable[Entry]) -> None:
        """Say what is read next, so that it is in the copy by then."""
        missing = [entry for entry in entries if not self._is_there(entry)]
        if self._announced_bytes < _EAGER_BYTES:
            self._store.fetch_ahead(missing)
        self._announced_bytes += sum(entry.size for entry in missing)
        with self._lock:
            self._coming.update(dict.fromkeys((entry.path for entry in missing), missing))
        self._tell(missing)

    def read_file(self, entry: Entry) -> bytes:
        """Return the content of a file: the copy's where it is right, else the store's."""
        content = self._read_here(entry)
        if content is not None:
            with self._lock:
                self._coming.pop(entry.path, None)
            return content
        self._read_ahead(entry)
        return self._store.read_file(entry)

    def read_blob(self, entry: Entry, blob: BlobRef) -> bytes:
        """Return one blob of a file: the copy's where it is right, else the store's."""
        starts_at = sum(each.size for each in entry.blobs[: entry.blobs.index(blob)])
        with contextlib.suppress(OSError), self._path_of(entry).open("rb") as file:
            content = os.pread(file.fileno(), blob.size, starts_at)
            if file_id(content) == blob.content_id:
                return content
        return self._store.read_blob(entry, blob)

    def _read_ahead(self, entry: Entry) -> None:
        """Have the store give, in few large reads, this file and those that were announced with it and are missing."""
        with self._lock:
            together = self._coming.get(entry.path, (entry,))
            for each in together:
                self._coming.pop(each.path, None)
        self._store.fetch_ahead([each for each in together if not self._is_there(each)])

    def _tell(self, missing: Sequence[Entry]) -> None:
        packs = list(dict.fromkeys(blob.pack.hex() for entry in missing for blob in entry.blobs))[:_MOST_WANTED]
        is_due = time.monotonic() > self._reported_at + _TELL_EVERY_S and (
            self._telling is None or self._telling.done()
        )
        if packs and packs != self._reported and is_due:
            self._reported, self._reported_at = packs, time.monotonic()
            self._telling = self._teller.submit(self._tell_now, packs)

    def _tell_now(self, packs: Sequence[str]) -> None:
        # It is an advice: without it the files come a little later.
        with contextlib.suppress(NearlineError):
            self._want(packs)

    def _is_there(self, entry: Entry) -> bool:
        try:
            return self._path_of(entry).lstat().st_size == entry.size
        except OSError:
            return False

    def _read_here(self, entry: Entry) -> bytes | None:
        if not self._is_there(entry):
            return None
        with contextlib.suppress(OSError), self._path_of(entry).open("rb") as file:
            content = file.read(entry.size + 1)
            if file_id(content) == entry.content_id:
                return content
        return None

    def _path_of(self, entry: Entry) -> Path:
        return self._folder / os.fsdecode(entry.path)
