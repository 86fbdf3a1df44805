"""A part of a store seen as a store: what one dataset may touch."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from datasets.engine.ports import Announcement, BlobStat, BlobStore, PutProof, SignedRequest


class ScopedStore:
    """Puts a prefix before every key, so that whoever holds it cannot name anything outside."""

    def __init__(self, store: BlobStore, prefix: str) -> None:
        self._store = store
        self._prefix = f"{prefix}/"

    @property
    def put_proof(self) -> PutProof:
        """The proof of the store behind."""
        return self._store.put_proof

    def put(self, key: str, data: bytes) -> None:
        """Store `data`."""
        self._store.put(self._prefix + key, data)

    def get(self, key: str) -> bytes:
        """Return the whole object."""
        return self._store.get(self._prefix + key)

    def get_range(self, key: str, offset: int, size: int) -> bytes:
        """Return a part of an object."""
        return self._store.get_range(self._prefix + key, offset, size)

    def stat(self, key: str) -> BlobStat | None:
        """Return the size of an object."""
        found = self._store.stat(self._prefix + key)
        return None if found is None else BlobStat(key, found.size_bytes)

    def list_blobs(self, prefix: str) -> Iterator[BlobStat]:
        """Yield what lies under a prefix."""
        for blob in self._store.list_blobs(self._prefix + prefix):
            yield BlobStat(blob.key.removeprefix(self._prefix), blob.size_bytes)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects."""
        self._store.delete(self._prefix + key for key in keys)

    def sign_put(self, key: str, body: Announcement, *, now: datetime, lifetime_s: int) -> SignedRequest:
        """Return a request that stores the announced body."""
        return self._store.sign_put(self._prefix + key, body, now=now, lifetime_s=lifetime_s)

    def sign_get(self, key: str, *, now: datetime, lifetime_s: int) -> SignedRequest:
        """Return a request that reads `key`."""
        return self._store.sign_get(self._prefix + key, now=now, lifetime_s=lifetime_s)
