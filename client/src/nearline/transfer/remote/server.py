"""What a transfer asks of the server: one method per route of the sync protocol.

`Storage` takes and gives the content of one dataset, or of a project's code; `Server` has a dataset's history too.

Anything can implement it; transfers never see HTTP. Failures are `nearline.errors`: `Conflict` with the codes
`datasets.stale_parent` and `datasets.pack_missing`, `Denied` with `datasets.signature_expired`, `Unavailable` and
`ServerFailure` for what trying again may cure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from nearline.content.hashing import Buffer
from nearline.models import Commit

# Gives memory for so many bytes to be written to; what it gave before may be overwritten then.
Allocate = Callable[[int], memoryview]

MAX_OFFERS = 32


class ObjectKind(StrEnum):
    """What lies in a store."""

    PACK = "pack"
    RANGE = "range"
    ROOT = "root"


@dataclass(frozen=True)
class SignedRequest:
    """A request to the store that carries its own right: sent with exactly these headers and no token.

    `expires_at` is in seconds of the server's clock since 1970; None where the server does not say it.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    expires_at: float | None = None


@dataclass(frozen=True)
class UploadSession:
    """The server's memory of an upload; it expires a day after it was last used.

    With `needs_md5` the store takes no better proof of what is sent, so offers say it. With `takes_deltas` a range
    may be sent as what it changes of one that the dataset has.
    """

    id: str
    branch: str
    head: str | None
    root: str | None
    needs_md5: bool = False
    takes_deltas: bool = False


@dataclass(frozen=True)
class Offer:
    """An object that could be stored. `id` is the name of a pack or the id of a range or root, in hexadecimal.

    `md5` (base64) is None where the session does not need it.
    """

    kind: ObjectKind
    id: str
    size_bytes: int
    sha256: str
    md5: str | None = None


@dataclass(frozen=True)
class OfferAnswer:
    """What the server says to an offer: `request` is None when the object is there already."""

    id: str
    request: SignedRequest | None


@dataclass(frozen=True)
class DamagedPack:
    """A pack that the store does not hold as its name (hexadecimal) says."""

    name: str
    size_bytes: int


@dataclass(frozen=True)
class BranchHead:
    """A branch and its newest commit; None while the branch has none."""

    name: str
    head: str | None


class Storage(Protocol):
    """What holds packs and manifests, as one caller. Every method is safe to call from several threads.

    All but `send` and `receive` may be repeated by the implementation when the network fails.
    """

    def offer_packs(self, upload_id: str, packs: Sequence[Offer]) -> Sequence[OfferAnswer]:
        """POST /uploads/{id}/packs, at most MAX_OFFERS at once: answers in the order of the offers."""

    def complete_packs(self, upload_id: str, packs: Sequence[str]) -> None:
        """POST /uploads/{id}/packs/complete. Raises Conflict (`datasets.pack_missing`, `details.packs`)."""

    def offer_manifests(self, upload_id: str, objects: Sequence[Offer]) -> Sequence[OfferAnswer]:
        """POST /uploads/{id}/manifests, at most MAX_OFFERS at once: answers in the order of the offers."""

    def sign_downloads(self, objects: Sequence[tuple[ObjectKind, str]]) -> Sequence[SignedRequest]:
        """Ask for reads, at most 64 at once: requests in the order of the objects."""

    def report_damaged_packs(self, packs: Sequence[str]) -> None:
        """Say which packs were found damaged; the server reads them and decides."""

    def send(self, request: SignedRequest, *parts: Buffer) -> None:
        """Make one attempt at storing a body, given in parts; the transfer decides about others.

        Raises Denied with `datasets.signature_expired`, Unavailable for timeouts, broken connections, 429 and 5xx, and
        another NearlineError for what will not pass.
        """

    def receive(
        self, request: SignedRequest, allocate: Allocate, byte_range: tuple[int, int] | None = None
    ) -> memoryview:
        """Make one attempt at reading an object into what `allocate` gives for its size, and return the filled part.

        `byte_range` is the first byte and the number of bytes. Raises like `send`.
        """


class Server(Storage, Protocol):
    """One dataset on one server. `commit` too may be repeated, because its key makes repeating harmless."""

    def list_branches(self) -> Sequence[BranchHead]:
        """GET {d}/branches."""

    def create_branch(self, name: str, at: str) -> BranchHead:
        """POST {d}/branches."""

    def get_commit(self, ref: str) -> Commit:
        """GET {d}/commits/{ref}: by branch, tag, id or `latest`. Raises NotFound, also for a branch without commits."""

    def start_upload(self, branch: str, client_id: str) -> UploadSession:
        """POST {d}/uploads."""

    def commit(
        self,
        upload_id: str,
        *,
        root: str,
        expected_head: str | None,
        message: str,
        source: str,
        idempotency_key: str,
        allow_collisions: bool = False,
    ) -> Commit:
        """POST /uploads/{id}/commit. The same key gives the same commit.

        Raises Conflict: `datasets.stale_parent` (`details.head`) or `datasets.pack_missing` (`details.packs`).
        """

    def list_damaged_packs(self) -> Sequence[DamagedPack]:
        """GET {d}/damage."""
