"""The part of a store that one dataset may touch, seen as a store.

That is its own objects, packs that it borrows, and packs of which it has maps in place of the bytes: these are read
from the files of a source, as if they were there.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from types import MappingProxyType

from datasets.adapters.folder import StoreGrant
from datasets.engine.layout import map_key
from datasets.engine.ports import Announcement, BlobStat, BlobStore, PutProof, SignedRequest, SourceFiles
from datasets.errors import BlobMissing, ContentCorrupt, SourceFileChanged
from nearline.content.hashing import file_id
from nearline.content.pack_maps import MappedFile, PackMap

_MAPS_KEPT = 32


@dataclass(frozen=True)
class ChangedPiece:
    """A part of a pack that its source does not hold any more, and the file that it came from."""

    offset: int
    size: int
    file: MappedFile


class MappedPacks:
    """Reads those packs of one dataset that `origins` names by their keys, with the id of the source of each.

    Each blob is read whole and compared with its hash before any of it is passed on. So a file that was changed at its
    source is found and named, and never served in place of what was imported. A pack without a map, because it was
    promoted just now, is read where packs lie.
    """

    def __init__(
        self,
        dataset_id: str,
        store: BlobStore,
        origins: Mapping[str, str],
        open_source: Callable[[str], SourceFiles],
        base_url: str,
    ) -> None:
        self._dataset_id = dataset_id
        self._store = store
        self._origins = origins
        self._open_source = lru_cache(open_source)
        self._base_url = base_url
        self._load = lru_cache(_MAPS_KEPT)(self._load_map)

    def __contains__(self, key: str) -> bool:
        return key in self._origins

    def get(self, key: str) -> bytes:
        """Return a whole pack. Raises SourceFileChanged, SourceFileMissing, SourceUnreachable."""
        pack_map = self.find_map(key)
        return self._store.get(key) if pack_map is None else self._read(key, pack_map, 0, pack_map.size_bytes)

    def get_range(self, key: str, offset: int, size: int) -> bytes:
        """Return a part of a pack. Raises what `get` raises."""
        pack_map = self.find_map(key)
        if pack_map is None:
            return self._store.get_range(key, offset, size)
        if offset + size > pack_map.size_bytes:
            raise ContentCorrupt(f"The object {key} is shorter than it should be.", key=key)
        return self._read(key, pack_map, offset, size)

    def stat(self, key: str) -> BlobStat | None:
        """Return the size of a pack; its files are not looked at."""
        pack_map = self.find_map(key)
        return self._store.stat(key) if pack_map is None else BlobStat(key, pack_map.size_bytes)

    def sign_get(self, key: str, *, now: datetime, lifetime_s: int) -> SignedRequest:
        """Return a request to the web process, which alone may read the source."""
        grant = StoreGrant("GET", self._dataset_id, key, 0, "", now + timedelta(seconds=lifetime_s))
        return grant.request(self._base_url)

    def find_map(self, key: str) -> PackMap | None:
        """Return the map of a pack; None when it has none any more. Raises ContentCorrupt."""
        try:
            return self._load(key)
        except BlobMissing:
            return None

    def find_changes(self, key: str) -> list[ChangedPiece] | None:
        """Read a whole pack and return what of it is not as it was; None when it has no map any more."""
        pack_map = self.find_map(key)
        if pack_map is None:
            return None
        changes = []
        for index, blob in enumerate(pack_map.blobs):
            try:
                self._read_blob(key, pack_map, index)
            except SourceFileChanged:
                changes.append(ChangedPiece(blob.offset, blob.size, pack_map.file_of(index)))
        return changes

    def _load_map(self, key: str) -> PackMap:
        where = map_key(key.rpartition("/")[2])
        try:
            return PackMap.decode(self._store.get(where))
        except ValueError as error:
            raise ContentCorrupt(f"The object {where} is damaged: {error}.", key=where) from error

    def _read(self, key: str, pack_map: PackMap, offset: int, size: int) -> bytes:
        first = bisect_right(pack_map.blobs, offset, key=lambda blob: blob.offset) - 1
        start = pack_map.blobs[first].offset
        last = first
        while last < len(pack_map.blobs) and pack_map.blobs[last].offset < offset + size:
            last += 1
        pieces = list(self._read_blobs(key, pack_map, range(first, last)))
        if offset + size > pack_map.blob_bytes:
            pieces.append(pack_map.footer)
        return b"".join(pieces)[offset - start : offset - start + size]

    def _read_blobs(self, key: str, pack_map: PackMap, indexes: Sequence[int]) -> Iterator[bytes]:
        parallel = self._open_source(self._origins[key]).parallel_reads
        with ThreadPoolExecutor(max(1, min(parallel, len(indexes))), thread_name_prefix="source") as pool:
            yield from pool.map(lambda index: self._read_blob(key, pack_map, index), indexes)

    def _read_blob(self, key: str, pack_map: PackMap, index: int) -> bytes:
        blob, piece, file = pack_map.blobs[index], pack_map.pieces[index], pack_map.file_of(index)
        data = self._open_source(self._origins[key]).read(file.path, piece.offset, blob.size)
        if file_id(data) != blob.content_id:
            what = "is shorter than" if len(data) < blob.size else "is not what"
            raise SourceFileChanged(
                f"'{file.name}' in the source '{pack_map.source['name']}' {what} it was when it was imported.",
                path=file.name,
                source=pack_map.source["name"],
            )
        return data


_NONE: "Mapping[str, ScopedStore]" = MappingProxyType({})


class ScopedStore:
    """Puts a prefix before every key, so that whoever holds it cannot name anything outside.

    `borrowed` says of some keys in which other part they lie: there they are read, and put right. They are neither
    listed nor deleted here. `mapped` are packs whose content lies elsewhere: they are read there, and put here.
    """

    def __init__(
        self,
        store: BlobStore,
        prefix: str,
        borrowed: "Mapping[str, ScopedStore]" = _NONE,
        mapped: MappedPacks | None = None,
    ) -> None:
        self._store = store
        self._prefix = f"{prefix}/"
        self._borrowed = borrowed
        self._mapped = mapped

    @property
    def put_proof(self) -> PutProof:
        """The proof of the store behind."""
        return self._store.put_proof

    def put(self, key: str, data: bytes) -> None:
        """Store `data`."""
        store, whole_key = self.locate(key)
        store.put(whole_key, data)

    def get(self, key: str) -> bytes:
        """Return the whole object."""
        if (mapped := self.find_mapped(key)) is not None:
            return mapped.get(key)
        store, whole_key = self.locate(key)
        return store.get(whole_key)

    def get_range(self, key: str, offset: int, size: int) -> bytes:
        """Return a part of an object."""
        if (mapped := self.find_mapped(key)) is not None:
            return mapped.get_range(key, offset, size)
        store, whole_key = self.locate(key)
        return store.get_range(whole_key, offset, size)

    def stat(self, key: str) -> BlobStat | None:
        """Return the size of an object."""
        if (mapped := self.find_mapped(key)) is not None:
            return mapped.stat(key)
        store, whole_key = self.locate(key)
        status = store.stat(whole_key)
        return None if status is None else BlobStat(key, status.size_bytes)

    def list_blobs(self, prefix: str) -> Iterator[BlobStat]:
        """Yield what lies under a prefix."""
        for blob in self._store.list_blobs(self._prefix + prefix):
            yield BlobStat(blob.key.removeprefix(self._prefix), blob.size_bytes)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects."""
        self._store.delete(self._prefix + key for key in keys)

    def sign_put(self, key: str, body: Announcement, *, now: datetime, lifetime_s: int) -> SignedRequest:
        """Return a request that stores the announced body."""
        store, whole_key = self.locate(key)
        return store.sign_put(whole_key, body, now=now, lifetime_s=lifetime_s)

    def sign_get(self, key: str, *, now: datetime, lifetime_s: int) -> SignedRequest:
        """Return a request that reads `key`."""
        if (mapped := self.find_mapped(key)) is not None:
            return mapped.sign_get(key, now=now, lifetime_s=lifetime_s)
        store, whole_key = self.locate(key)
        return store.sign_get(whole_key, now=now, lifetime_s=lifetime_s)

    def find_mapped(self, key: str) -> MappedPacks | None:
        """Return what reads a pack whose content lies in files of a source; None for every other object."""
        return self._mapped if self._mapped is not None and key in self._mapped else None

    def locate(self, key: str) -> tuple[BlobStore, str]:
        """Return the store that holds an object, and its key there."""
        lender = self._borrowed.get(key)
        return (self._store, self._prefix + key) if lender is None else lender.locate(key)
