"""A store in this process's memory: the fake that tests use and that passes the same contract as the real ones."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from urllib.parse import quote, unquote

from core import clock
from datasets.engine.layout import check_key, check_prefix
from datasets.engine.ports import Announcement, BlobStat, PutProof, SignedRequest
from datasets.errors import BlobMissing, ContentCorrupt, SignatureInvalid

_SCHEME = "memory:"


class MemoryStore:
    """Objects in a dictionary. `perform` plays the server that honours its signed requests.

    `reads` notes the key and the bytes of every read, and `blobs` may be damaged by a test on purpose.
    """

    put_proof = PutProof.PAYLOAD_SHA256

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.reads: list[tuple[str, int]] = []
        self._grants: set[str] = set()

    def put(self, key: str, data: bytes) -> None:
        """Store `data`."""
        check_key(key)
        self.blobs[key] = bytes(data)

    def get(self, key: str) -> bytes:
        """Return the whole object."""
        data = self._find(key)
        self.reads.append((key, len(data)))
        return data

    def get_range(self, key: str, offset: int, size: int) -> bytes:
        """Return a part of an object."""
        data = self._find(key)[offset : offset + size]
        if len(data) != size:
            raise ContentCorrupt(f"The object {key} is shorter than it should be.", key=key)
        self.reads.append((key, size))
        return data

    def stat(self, key: str) -> BlobStat | None:
        """Return the size of an object."""
        check_key(key)
        data = self.blobs.get(key)
        return None if data is None else BlobStat(key, len(data))

    def list_blobs(self, prefix: str) -> Iterator[BlobStat]:
        """Yield what lies under a prefix."""
        check_prefix(prefix)
        for key in sorted(self.blobs):
            if key.startswith(prefix):
                yield BlobStat(key, len(self.blobs[key]))

    def delete(self, keys: Iterable[str]) -> None:
        """Forget objects."""
        for key in keys:
            check_key(key)
            self.blobs.pop(key, None)

    def sign_put(self, key: str, body: Announcement, *, now: datetime, lifetime_s: int) -> SignedRequest:
        """Return a request that `perform` honours."""
        check_key(key)
        headers = {"Content-Length": str(body.size_bytes)}
        return self._sign("PUT", key, headers, body.sha256, now + timedelta(seconds=lifetime_s))

    def sign_get(self, key: str, *, now: datetime, lifetime_s: int) -> SignedRequest:
        """Return a request that `perform` honours."""
        check_key(key)
        return self._sign("GET", key, {}, "", now + timedelta(seconds=lifetime_s))

    def perform(self, method: str, url: str, body: bytes = b"") -> bytes:
        """Carry out a signed request. Raises SignatureInvalid when it is not exactly what was signed."""
        text = unquote(url.removeprefix(_SCHEME))
        if text not in self._grants:
            raise SignatureInvalid("This address was not signed here.")
        signed_method, key, size, sha256, expires_at = json.loads(text)
        if method != signed_method or clock.now() >= datetime.fromisoformat(expires_at):
            raise SignatureInvalid("This address was signed for something else, or is too old.")
        if method == "GET":
            return self.get(key)
        if (str(len(body)), hashlib.sha256(body).hexdigest()) != (size, sha256):
            raise SignatureInvalid("These are not the bytes that were announced.")
        self.put(key, body)
        return b""

    def _find(self, key: str) -> bytes:
        check_key(key)
        if key not in self.blobs:
            raise BlobMissing(f"The store has no object {key}.", key=key)
        return self.blobs[key]

    def _sign(self, method: str, key: str, headers: dict[str, str], sha256: str, expires_at: datetime) -> SignedRequest:
        text = json.dumps([method, key, headers.get("Content-Length", ""), sha256, expires_at.isoformat()])
        self._grants.add(text)
        return SignedRequest(method, _SCHEME + quote(text, safe=""), headers, expires_at)
