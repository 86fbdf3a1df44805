"""A part of a store seen as a store: what one dataset may touch."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType

from datasets.adapters.mapped_packs import MappedPacks
from datasets.engine.ports import Announcement, BlobStat, BlobStore, PutProof, SignedRequest

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
