"""Files that come through the web process, part by part: the server packs them as a client would.

A browser cannot speak the store's protocol (it has no BLAKE3 and no right to other origins), so it sends bytes and
this module makes packs of them with the same content engine. Nothing waits on a disk of ours: each part becomes a pack
in the store and a row here, so parts may come to any web process, in any order, and again after a broken connection.
"""

import io
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db.models import Sum

from accounts.permissions import Actor, require
from datasets import permissions
from datasets.adapters.opening import open_dataset_store
from datasets.adapters.scoped import ScopedStore
from datasets.engine.browse import TreeView
from datasets.engine.layout import pack_key
from datasets.engine.part_frames import PART_BYTES, IncomingFile, PartHeader, Read, read_exactly, read_header
from datasets.errors import BodyRefused, ManifestRejected, UploadClosed, UploadTooLarge
from datasets.models import Dataset, UploadPart, UploadSession
from datasets.selectors.commits import head_of
from datasets.selectors.trees import TreeReader
from datasets.services import packs, uploads
from nearline.content.errors import ContentError
from nearline.content.hashing import EMPTY_ID, Hasher, file_id, new_hasher
from nearline.content.manifest import BlobRef, Entry, EntryKind, build_range, read_range
from nearline.content.packs import MAX_PACK_BYTES, PackBuilder, cut_chunks

NEW_MODE: Final = 0o644
# A part and its pack are in memory while it is worked on: so many at once bound what a web process takes.
_AT_ONCE = threading.BoundedSemaphore(2)
_KEPT_HASHERS: Final = 32
_NO_ID_YET: Final = bytes(32)


@dataclass(frozen=True)
class ReceivedPart:
    """What the server has of a part. `next_offset`: where its large file goes on; None when the part is complete."""

    files: int
    size_bytes: int
    next_offset: int | None


def receive_part(*, actor: Actor, upload: UploadSession, number: int, read: Read) -> ReceivedPart:
    """Take a part of an upload (`engine.part_frames`) and keep it; a part that is there already is left as it is.

    Of a piece of a large file only whole chunks are kept: the answer says from where on it must be sent (again).
    Raises BodyRefused, InvalidInput for a name that cannot be carried, UploadTooLarge and UploadClosed.
    """
    uploads.prolong(actor=actor, upload=upload)
    header = read_header(read)
    known = UploadPart.objects.filter(upload=upload, number=number).first()
    if known is not None and (known.is_complete or known.size_bytes != header.offset):
        return _tell(known)
    _check_limits(upload, header)
    with _AT_ONCE:
        if header.is_piece:
            return _receive_piece(upload, number, header, known, read)
        entries = _receive_files(upload.dataset, _base_of(actor, upload), header.files, read)
        return _tell(_keep(upload, number, entries, known=None, is_complete=True))


@dataclass(frozen=True)
class ArrivedPart:
    """What came in a part. The one entry of an incomplete part says how much of its file came so far."""

    number: int
    is_complete: bool
    entries: Sequence[Entry]


def list_arrived(
    *, actor: Actor, upload: UploadSession, after: int = -1, limit: int | None = None
) -> Iterator[ArrivedPart]:
    """Yield what came in the parts after a number, in their order; all of them without a limit."""
    require(actor, permissions.COMMIT, upload.dataset.project_id)
    for part in upload.parts.filter(number__gt=after).order_by("number")[:limit].iterator(chunk_size=16):
        yield ArrivedPart(part.number, part.is_complete, read_range(bytes(part.entries)).entries)


def keep_entries(*, actor: Actor, upload: UploadSession, number: int, entries: Sequence[Entry]) -> None:
    """Keep entries, sorted, whose packs are at hand as a part of an upload. Raises ManifestRejected, UploadClosed."""
    uploads.prolong(actor=actor, upload=upload)
    _keep(upload, number, entries, known=None, is_complete=True)


def _receive_files(dataset: Dataset, base: TreeView, files: Sequence[IncomingFile], read: Read) -> list[Entry]:
    builder = PackBuilder(MAX_PACK_BYTES)
    entries: dict[bytes, Entry] = {}
    fresh: dict[bytes, int] = {}
    for file in files:
        data = read_exactly(read, file.size_bytes)
        content_id = file_id(data) if data else EMPTY_ID
        entry = Entry(file.path, NEW_MODE, len(data), file.mtime_ns, content_id)
        before = base.find(file.path)
        if before is not None and before.content_id == content_id and before.kind is EntryKind.FILE:
            entry = entry._replace(blobs=before.blobs)
        elif data and content_id not in fresh:
            fresh[content_id] = builder.add(data, content_id).offset
        entries[file.path] = entry
    if not builder.is_empty:
        pack = _store_pack(dataset, builder)
        for path, entry in entries.items():
            if entry.size and not entry.blobs:
                blob = BlobRef(entry.content_id, pack, fresh[entry.content_id], entry.size)
                entries[path] = entry._replace(blobs=(blob,))
    return [entries[path] for path in sorted(entries)]


def _receive_piece(
    upload: UploadSession, number: int, header: PartHeader, known: UploadPart | None, read: Read
) -> ReceivedPart:
    file, store = header.files[0], open_dataset_store(upload.dataset)
    before = _entry_of(known) if known is not None else Entry(file.path, NEW_MODE, 0, file.mtime_ns, EMPTY_ID)
    if (before.path, before.mtime_ns) != (file.path, file.mtime_ns) or before.size != header.offset:
        raise BodyRefused("This piece does not go on where its file stopped.")
    rest = file.size_bytes - header.offset
    data = io.BytesIO(read_exactly(read, min(rest, PART_BYTES)))
    builder, ids = PackBuilder(MAX_PACK_BYTES), []
    hasher = _hashers.take((upload.id, number, header.offset)) or _hash_again(store, before)
    size = header.offset
    # Whether a chunk ends where the piece ends is not known before the next piece: such a chunk is sent again.
    for offset, chunk in cut_chunks(data, file.size_bytes):
        is_open = offset + len(chunk) == PART_BYTES and rest > PART_BYTES
        if is_open:
            break
        blob = bytes(chunk)
        ids.append(builder.add(blob))
        hasher.update(blob)
        size += len(blob)
    pack = _store_pack(upload.dataset, builder)
    blobs = (*before.blobs, *(BlobRef(blob.content_id, pack, blob.offset, blob.size) for blob in ids))
    is_complete = size == file.size_bytes
    content_id = hasher.digest() if is_complete else blobs[0].content_id if len(blobs) == 1 else _NO_ID_YET
    entry = before._replace(size=size, blobs=blobs, content_id=content_id)
    part = _keep(upload, number, [entry], known=known, is_complete=is_complete)
    if not is_complete:
        _hashers.keep((upload.id, number, size), hasher)
    return _tell(part)


def _store_pack(dataset: Dataset, builder: PackBuilder) -> bytes:
    """Bring what was collected into the store and return the pack's name."""
    pack = builder.finish()
    packs.store_pack(dataset, pack)
    return pack.sha256


def _keep(
    upload: UploadSession, number: int, entries: Sequence[Entry], *, known: UploadPart | None, is_complete: bool
) -> UploadPart:
    """Write a part down where it is still as it was `known` (None: not there), and return it as it is then.

    A request that hung and was repeated may end after the one that took its place: it changes nothing.
    """
    try:
        data = build_range(entries).data
    except ContentError as error:
        raise ManifestRejected(f"{error} Nothing of this part was kept.") from error
    size = sum(entry.size for entry in entries)
    if known is not None:
        same = UploadPart.objects.filter(pk=known.pk, size_bytes=known.size_bytes, is_complete=False)
        same.update(size_bytes=size, is_complete=is_complete, entries=data)
        part = UploadPart.objects.filter(pk=known.pk).first()
        if part is None:
            raise UploadClosed("This upload has ended meanwhile.")
        return part
    values = {"files": len(entries), "size_bytes": size, "is_complete": is_complete, "entries": data}
    part, _ = UploadPart.objects.get_or_create(upload=upload, number=number, defaults=values)
    return part


def _check_limits(upload: UploadSession, header: PartHeader) -> None:
    sums = UploadPart.objects.filter(upload=upload).aggregate(files=Sum("files"), size=Sum("size_bytes"))
    files = (sums["files"] or 0) + len(header.files)
    size = (sums["size"] or 0) + sum(file.size_bytes for file in header.files) - header.offset
    limits = settings.NEARLINE
    if files > limits.browser_upload_files or size > limits.browser_upload_bytes:
        raise UploadTooLarge(
            f"One commit through the browser brings at most {limits.browser_upload_files:,} files "
            f"and {limits.browser_upload_bytes:,} bytes.",
            most_files=limits.browser_upload_files,
            most_bytes=limits.browser_upload_bytes,
        )


def _base_of(actor: Actor, upload: UploadSession) -> TreeView:
    """Return the tree that the branch holds now: what it has at a path is not stored once more."""
    head = head_of(actor=actor, upload=upload)
    reader = TreeReader(upload.dataset)
    return TreeView(reader.read_root(head.root) if head is not None else (), reader.load_range, reader.load_names)


def _entry_of(part: UploadPart) -> Entry:
    return read_range(bytes(part.entries)).entries[0]


def _tell(part: UploadPart) -> ReceivedPart:
    return ReceivedPart(part.files, part.size_bytes, None if part.is_complete else part.size_bytes)


def _hash_again(store: ScopedStore, entry: Entry) -> Hasher:
    """Return the hash of what has come of a file by reading it back: another process had it, or this one forgot."""
    hasher = new_hasher()
    for blob in entry.blobs:
        hasher.update(store.get_range(pack_key(blob.pack.hex()), blob.offset, blob.size))
    return hasher


class _Hashers:
    """The unfinished hashes of large files under way, by upload, part and offset; the oldest is forgotten first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_part: OrderedDict[tuple[str, int, int], Hasher] = OrderedDict()

    def take(self, key: tuple[str, int, int]) -> Hasher | None:
        with self._lock:
            return self._by_part.pop(key, None)

    def keep(self, key: tuple[str, int, int], hasher: Hasher) -> None:
        with self._lock:
            self._by_part[key] = hasher
            while len(self._by_part) > _KEPT_HASHERS:
                self._by_part.popitem(last=False)


_hashers = _Hashers()
