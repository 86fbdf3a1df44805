"""Filling a folder with files of a tree out of a dataset's store, by the engine that clients and pods use too."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from prometheus_client import Counter

from datasets.engine.layout import pack_key
from datasets.engine.ports import BlobStore
from datasets.errors import BlobMissing, ContentCorrupt, HydrationStopped, StoreUnreachable, TargetUnwritable
from nearline.content.manifest import Entry
from nearline.content.paths import show_path
from nearline.content.retry import Failure, RetryPolicy, Waiting, ignore_waiting
from nearline.hydrate import engine
from nearline.hydrate.engine import Cancellation, Cancelled
from nearline.hydrate.folder import Existing, FolderTarget
from nearline.hydrate.ports import HydrationProgress, OnProgress, ignore_progress

BYTES_HYDRATED = Counter("nearline_bytes_hydrated_total", "Bytes read from the store to fill cache sites")


def hydrate(
    store: BlobStore,
    entries: Iterable[Entry],
    target: Path,
    *,
    threads: int = engine.DEFAULT_THREADS,
    read_only: bool = True,
    keep_existing: bool = False,
    on_progress: OnProgress = ignore_progress,
    on_wait: Callable[[Waiting], None] = ignore_waiting,
    should_stop: Callable[[], bool] = lambda: False,
    policy: RetryPolicy | None = None,
    next_packs: engine.NextPacks | None = None,
) -> HydrationProgress:
    """Write `entries` (sorted, of one tree) under `target` and return what was written.

    - `store` is the dataset's part of its store: `adapters.opening.open_dataset_store(dataset)`. `entries` may be a
      generator; memory is bounded by the batch and by one pack for each thread.
    - `nearline.hydrate.folder.FolderTarget` says how files are written. With `keep_existing`, a file that has the right
      bytes is kept, and replaced when not; otherwise a file that is there is an error.
    - `on_progress` gets running totals after every read, from any thread but never from two at once.
    - A store that is away is waited for as long as `policy` says; `on_wait` is told of each wait, from any thread.
    - `should_stop` is asked often; once it says yes, HydrationStopped is raised.
    - `next_packs` is as in the engine: given where files are read meanwhile.

    Nothing is synced to disk; a caller that publishes the folder does that once, at the end. After an error the
    folder holds only whole files and perhaps `.nearline/parts`, which the next call overwrites.
    Raises ContentCorrupt, BlobMissing, StoreUnreachable, TargetUnwritable, HydrationStopped.
    """
    cancellation = Cancellation(should_stop)
    policy = policy or RetryPolicy(_classify, sleep=cancellation.sleep)
    existing = Existing.REPLACE if keep_existing else Existing.REFUSE
    try:
        return engine.hydrate(
            StorePacks(store),
            FolderTarget(target, read_only=read_only, existing=existing, appear_whole=next_packs is not None),
            entries,
            policy=replace(policy, on_wait=on_wait),
            threads=threads,
            on_progress=on_progress,
            cancellation=cancellation,
            next_packs=next_packs,
        )
    except Cancelled as error:
        raise HydrationStopped("Stopped on request.") from error
    except OSError as error:
        raise TargetUnwritable(f"{error.filename or target} cannot be written: {error.strerror}.") from error


def make_retry_policy(should_stop: Callable[[], bool], on_wait: Callable[[Waiting], None]) -> RetryPolicy:
    """Return how a fill waits for a store that is away also while it reads what the files are.

    Its waits raise HydrationStopped once `should_stop` says yes.
    """
    cancellation = Cancellation(should_stop)

    def sleep(wait_s: float) -> None:
        try:
            cancellation.sleep(wait_s)
        except Cancelled as error:
            raise HydrationStopped("Stopped on request.") from error

    return RetryPolicy(_classify, on_wait=on_wait, sleep=sleep)


class StorePacks:
    """The packs of one dataset in its store. Implements `nearline.hydrate.ports.PackSource`."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store

    def announce(self, packs: Sequence[str]) -> None:
        """Prepare nothing: the server needs no permission to read."""

    def read(self, pack: str, offset: int, size: int) -> bytes:
        """Read a part of a pack."""
        try:
            data = self._store.get_range(pack_key(pack), offset, size)
        except (BlobMissing, ContentCorrupt) as error:
            raise type(error)(error.message, **error.details, pack=pack) from error
        BYTES_HYDRATED.inc(size)
        return data

    def damage_error(self, path: bytes, pack: str | None) -> ContentCorrupt:
        """Return the error that names the file and, where it is damaged, the pack."""
        name = show_path(path)
        if pack is None:
            return ContentCorrupt(f"The manifest lists wrong pieces for '{name}'.", path=name)
        return ContentCorrupt(f"The store's copy of '{name}' is damaged (pack {pack[:12]}).", path=name, pack=pack)


def _classify(error: Exception) -> Failure:
    return Failure.UNAVAILABLE if isinstance(error, StoreUnreachable) else Failure.PERMANENT
