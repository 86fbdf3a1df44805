"""What datasets ask of any object store, with the guarantees that the rest of the code relies on."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import BinaryIO, Final, Protocol

from nearline.content.mapping import FoundFile

SIGNED_LIFETIME: Final = timedelta(minutes=15)
"""For how long the addresses are good that clients are given."""


class PutProof(StrEnum):
    """How a store proves that the bytes of a signed PUT are the bytes that were announced.

    With `none` it proves their number only: a later read, which always verifies, carries the rest.
    """

    PAYLOAD_SHA256 = "payload-sha256"
    CHECKSUM_SHA256 = "checksum-sha256"
    CONTENT_MD5 = "content-md5"
    NONE = "none"


@dataclass(frozen=True)
class BlobStat:
    """What a store says about one object."""

    key: str
    size_bytes: int


@dataclass(frozen=True)
class Announcement:
    """The body that a signed PUT will carry. `md5` (base64) is None when the client did not say it."""

    size_bytes: int
    sha256: str
    md5: str | None = None


@dataclass(frozen=True)
class SignedRequest:
    """A request that someone without credentials may make once or more until `expires_at`, exactly as written."""

    method: str
    url: str
    headers: Mapping[str, str]
    expires_at: datetime


class BlobStore(Protocol):
    """Keeps immutable objects under keys such as `packs/ab/ab12…`.

    Keys are relative, `/`-separated ASCII without empty, `.` or `..` parts; anything else raises ValueError. Every
    method may raise StoreUnreachable, which trying again can cure; the adapters try again a few times by themselves.
    Safe to use from many threads at once.
    """

    @property
    def put_proof(self) -> PutProof:
        """How this store proves the body of a signed PUT."""

    def put(self, key: str, data: bytes) -> None:
        """Store `data`. Afterwards it is durable; readers see all of it or, before, none. Putting again replaces."""

    def get(self, key: str) -> bytes:
        """Return the whole object. Raises BlobMissing."""

    def get_range(self, key: str, offset: int, size: int) -> bytes:
        """Return exactly `size` (≥ 1) bytes from `offset`. Raises BlobMissing, and ContentCorrupt if it is shorter."""

    def stat(self, key: str) -> BlobStat | None:
        """Return what is under `key`; None when there is nothing."""

    def list_blobs(self, prefix: str) -> Iterator[BlobStat]:
        """Yield every object whose key starts with `prefix` (ending in `/`, or empty), ordered by key."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; those that do not exist are no error."""

    def sign_put(self, key: str, body: Announcement, *, now: datetime, lifetime_s: int) -> SignedRequest:
        """Return a request that stores exactly the announced body under `key`, and can do nothing else.

        A body of another length is refused, and one with other bytes as far as `put_proof` goes.
        """

    def sign_get(self, key: str, *, now: datetime, lifetime_s: int) -> SignedRequest:
        """Return a request that reads `key`, whole or by a Range header that the caller adds, and nothing else."""


class SourceFiles(Protocol):
    """Files that others keep: a folder or a part of a bucket. They are read and never written.

    Every method may raise SourceUnreachable, which trying again can cure. Safe to use from many threads at once.
    """

    @property
    def parallel_reads(self) -> int:
        """How many files are read at once where many are wanted."""

    def list_files(self, prefix: bytes) -> Iterator[FoundFile]:
        """Yield the files below a folder, in no order. Raises SourceFileMissing when there is no such folder."""

    def open(self, file: FoundFile) -> AbstractContextManager[BinaryIO]:
        """Return the content of a file. Raises SourceFileMissing, and SourceFileChanged unless it is still as found."""

    def read(self, path: bytes, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`, less where the file is shorter. Raises SourceFileMissing."""
