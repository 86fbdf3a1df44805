"""Writing a tree into a dataset's store from a stream of files: packs, then ranges, at last the list of ranges.

Memory is bounded whatever the tree: a batch of content, the pack that grows, two packs on their way to the store, and
the entries that wait for these. Content that the dataset's stored trees have already is not stored again.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from blake3 import blake3
from django.db.models import QuerySet

from core import clock, orm
from core.errors import InvalidInput
from datasets.adapters.opening import open_dataset_store
from datasets.engine.layout import pack_key, range_key
from datasets.engine.source_files import SourceFile
from datasets.errors import ManifestRejected, PackLeaving, SourceChanged
from datasets.models import Dataset, ManifestRange, Pack, PackState, StoredBlob, StoredTree
from datasets.services import manifests, packs
from datasets.services.manifests import ReadRange
from nearline.content.entries import carried_ns
from nearline.content.errors import ContentError
from nearline.content.hashing import EMPTY_ID, file_id, new_hasher
from nearline.content.manifest import BlobRef, Entry, RangeCutter, RootRange, build_range, describe_range, new_symlink
from nearline.content.packs import BlobInPack, PackBuilder, cut_chunks, is_chunked
from nearline.content.packs import Pack as PackBytes
from nearline.content.paths import show_path

_BATCH_BYTES: Final = 8 << 20
_BATCH_BLOBS: Final = 400
# Bounds the entries that wait for a pack of very small files.
_MOST_BLOBS_IN_PACK: Final = 32_768
_PACKS_UNDER_WAY: Final = 2
_ROWS_AT_ONCE: Final = 2_000
_KEY_BYTES: Final = 16


@dataclass
class _Draft:
    """An entry whose blobs have no place yet. A large file is not complete before its last chunk was read."""

    entry: Entry
    places: list[BlobRef | None] = field(default_factory=list)
    is_complete: bool = True

    @property
    def is_placed(self) -> bool:
        return self.is_complete and None not in self.places


@dataclass(frozen=True)
class _Blob:
    """Content that wants a place, and the draft that it belongs to."""

    draft: _Draft
    index: int
    content_id: bytes
    data: bytes


class TreeWriter:
    """Takes files in the order of their paths. Used as a context manager, so that no transfer outlives it."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._store = open_dataset_store(dataset)
        self._pool = ThreadPoolExecutor(_PACKS_UNDER_WAY, thread_name_prefix="packs")
        self._cutter = RangeCutter()
        self._ranges: list[RootRange] = []
        self._drafts: deque[_Draft] = deque()
        self._batch: list[_Blob] = []
        self._batch_bytes = 0
        self._builder = PackBuilder()
        self._growing: dict[bytes, list[tuple[_Draft, int]]] = {}
        self._sending: deque[tuple[Pack, PackBytes, Future[None] | None]] = deque()
        self._sent: dict[bytes, BlobRef] = {}
        self._settled: list[bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def write(self, files: Iterable[SourceFile]) -> Sequence[RootRange]:
        """Store all files and return the ranges of their tree.

        Raises InvalidInput unless paths ascend, ManifestRejected for what no tree can hold, SourceChanged when a file
        is not as long as it was said to be, PackLeaving, PackMissing and StoreUnreachable.
        """
        previous = b""
        try:
            for file in files:
                if file.path <= previous:
                    raise InvalidInput(f"'{show_path(file.path)}' does not follow '{show_path(previous)}'.")
                previous = file.path
                self._read(file)
            self._place_batch()
            self._flush()
            if rest := self._cutter.take():
                self._keep_range(rest)
        except ContentError as error:
            raise ManifestRejected(str(error)) from error
        self._settle(0)
        return self._ranges

    def _read(self, file: SourceFile) -> None:
        if file.target:
            self._drafts.append(_Draft(new_symlink(file.path, file.target, carried_ns(file.mtime_ns))))
            return
        entry = Entry(file.path, file.mode, file.size_bytes, carried_ns(file.mtime_ns), EMPTY_ID)
        draft = _Draft(entry, is_complete=False)
        self._drafts.append(draft)
        hasher, size = new_hasher() if is_chunked(file.size_bytes) else None, 0
        with file.open() as stream:
            for _, chunk in cut_chunks(stream, file.size_bytes):
                data = bytes(chunk)
                content_id = file_id(data)
                if hasher is not None:
                    hasher.update(data)
                else:
                    draft.entry = entry._replace(content_id=content_id)
                size += len(data)
                self._place(draft, content_id, data)
            if size != file.size_bytes or stream.read(1):
                raise SourceChanged(f"'{show_path(file.path)}' changed while it was stored.", path=show_path(file.path))
        if hasher is not None:
            draft.entry = entry._replace(content_id=hasher.digest())
        draft.is_complete = True

    def _place(self, draft: _Draft, content_id: bytes, data: bytes) -> None:
        self._batch.append(_Blob(draft, len(draft.places), content_id, data))
        draft.places.append(None)
        self._batch_bytes += len(data)
        if self._batch_bytes >= _BATCH_BYTES or len(self._batch) >= _BATCH_BLOBS:
            self._place_batch()

    def _place_batch(self) -> None:
        """Find a place for everything in the batch: where it lies already, or the pack that grows."""
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        for content_id in self._settled:
            del self._sent[content_id]
        self._settled.clear()
        stored = self._find_stored({blob.content_id for blob in batch} - self._growing.keys() - self._sent.keys())
        for blob in batch:
            if place := stored.get(blob.content_id) or self._sent.get(blob.content_id):
                blob.draft.places[blob.index] = place
            elif (waiting := self._growing.get(blob.content_id)) is not None:
                waiting.append((blob.draft, blob.index))
            else:
                if not self._builder.fits(len(blob.data)) or len(self._growing) >= _MOST_BLOBS_IN_PACK:
                    self._flush()
                self._builder.add(blob.data, blob.content_id)
                self._growing[blob.content_id] = [(blob.draft, blob.index)]
        self._emit()

    def _find_stored(self, content_ids: set[bytes]) -> dict[bytes, BlobRef]:
        """Return where contents lie already, in packs that are out of the collection's reach from now on."""
        keys = {_key(self._dataset, content_id): content_id for content_id in content_ids}
        blobs: dict[bytes, BlobRef] = {}
        for batch in orm.in_batches(keys):
            rows = list(StoredBlob.objects.filter(key__in=batch).values_list("key", "pack_id", "offset", "size"))
            if not rows:
                continue
            whole = Pack.objects.filter(pk__in={row[1] for row in rows}, state=PackState.COMPLETE)
            whole.update(touched_at=clock.now())
            names = dict(whole.values_list("pk", "sha256"))
            for key, pack_id, offset, size in rows:
                if pack_id in names:
                    content_id = keys[bytes(key)]
                    blobs[content_id] = BlobRef(content_id, bytes.fromhex(names[pack_id]), offset, size)
        return blobs

    def _flush(self) -> None:
        """Send the pack that grew, and give the entries that waited for it their places."""
        if self._builder.is_empty:
            return
        self._settle(_PACKS_UNDER_WAY - 1)
        pack = self._builder.finish()
        data = pack.data
        row = packs.claim(self._dataset, {pack.name: len(data)}).rows[pack.name]
        future = None
        if row.state != PackState.COMPLETE:
            future = self._pool.submit(self._store.put, pack_key(pack.name), data)
        self._sending.append((row, pack._replace(parts=()), future))
        growing, self._growing = self._growing, {}
        for blob in pack.blobs:
            place = BlobRef(blob.content_id, pack.sha256, blob.offset, blob.size)
            self._sent[blob.content_id] = place
            for draft, index in growing[blob.content_id]:
                draft.places[index] = place
        self._emit()

    def _settle(self, most: int) -> None:
        """Wait until at most so many packs are under way, and record the others as complete."""
        while len(self._sending) > most:
            row, pack, future = self._sending.popleft()
            if future is not None:
                future.result()
                packs.confirm_pack(self._dataset, row)
            self._index(row, pack.blobs)
            # Forgotten with the next batch, which finds them in the index.
            self._settled += (blob.content_id for blob in pack.blobs)

    def _index(self, row: Pack, blobs: Sequence[BlobInPack]) -> None:
        if StoredBlob.objects.filter(pack=row).exists():
            return
        rows = [
            StoredBlob(pack=row, key=_key(self._dataset, blob.content_id), offset=blob.offset, size=blob.size)
            for blob in blobs
        ]
        # Not in one transaction: a database that has one writer at a time would make all others wait.
        for batch in orm.in_batches(rows, _ROWS_AT_ONCE):
            StoredBlob.objects.bulk_create(batch)

    def _emit(self) -> None:
        """Hand the entries on that have all their places, in the order of paths."""
        while self._drafts and self._drafts[0].is_placed:
            draft = self._drafts.popleft()
            blobs = tuple(place for place in draft.places if place is not None)
            if entries := self._cutter.add(draft.entry._replace(blobs=blobs)):
                self._keep_range(entries)

    def _keep_range(self, entries: Sequence[Entry]) -> None:
        encoded = build_range(entries)
        described = describe_range(entries, encoded.range_id)
        self._ranges.append(described)
        # Packs that are still under way are not present yet, and a range must never be known without its packs.
        self._settle(0)
        known = ManifestRange.objects.filter(dataset=self._dataset, range_id=encoded.range_id)
        if known.exists():
            touch_manifests(known)
            return
        self._store.put(range_key(encoded.range_id), encoded.data)
        reach = manifests.reach_of_entries(entries)
        present = manifests.find_packs(self._dataset, reach)
        manifests.keep_ranges(self._dataset, [ReadRange(described, b"", reach)], present, is_committed=True)


def touch_manifests(rows: QuerySet[ManifestRange] | QuerySet[StoredTree]) -> None:
    """Put manifests out of the collection's reach for a day. Raises PackLeaving while one is being deleted."""
    if rows.filter(due_at=None).update(touched_at=clock.now()) != rows.count():
        raise PackLeaving("An equal tree is just being removed from the store.")


def _key(dataset: Dataset, content_id: bytes) -> bytes:
    digest: bytes = blake3(dataset.id.encode() + content_id).digest(_KEY_BYTES)
    return digest
