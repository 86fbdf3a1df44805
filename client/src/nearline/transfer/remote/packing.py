"""Blobs into packs, packs into the store: in order, deterministic, and never more than a few of them in memory.

What the dataset's newest tree has need not be sent, nor what an interrupted sync has stored since.

The number of transfers at once is small and fixed: packs are large, so two or four of them fill a link, and a fixed
number bounds the memory. What the store refuses for now (503, timeouts) is repeated with a growing random wait, which
is what slows all of them down together.
"""

import threading
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Protocol, Self

from nearline.content.entries import BlobRef, Entry
from nearline.content.hashing import ID_BYTES, Buffer, md5_base64, sha256_hex
from nearline.content.packs import TARGET_PACK_BYTES, Pack, PackBuilder, PackContent
from nearline.content.retry import RetryPolicy
from nearline.errors import NearlineError
from nearline.transfer.progress import Meter
from nearline.transfer.remote.retry import Refusals, is_expired
from nearline.transfer.remote.server import MAX_OFFERS, ObjectKind, Offer, SignedRequest, Storage, UploadSession

# Packs are confirmed in such groups. What is not confirmed when the process dies is found by the next offer.
_CONFIRMED_AT_ONCE = 4
# Each takes ten milliseconds for 600,000 files, the index a hundred and twenty.
_MOST_SEARCHES = 8


class Ranges(Protocol):
    """Where the ranges of trees can be looked into and read."""

    def peek_ids(self, range_id: str) -> bytes:
        """Return the ids of all contents that a range names, unchecked."""

    def load_range(self, range_id: str) -> Sequence[Entry]:
        """Return the entries of a range."""


class KnownContent:
    """Places of blobs by their id. Safe to use from several threads.

    Of the trees only the ranges that hold something asked for are read. Which those are is told by the content ids that
    they name. These are searched for the first few questions, and then indexed by their first bytes, which takes 150
    bytes of memory for each file.
    """

    def __init__(
        self,
        ranges: Ranges | None = None,
        range_ids: Iterable[str] = (),
        *,
        missing_packs: Collection[bytes] = (),
    ) -> None:
        self._lock = threading.RLock()
        self._ranges = ranges
        self._unread = dict(enumerate(dict.fromkeys(range_ids)))
        self._ids: dict[int, bytes] | None = None
        self._index: dict[int, int] | None = None
        self._searches = 0
        # Packs that the server says it lost: what they held must be sent again.
        self._missing = set(missing_packs)
        # Packed tightly: as objects, a million of them would take twice the memory.
        self._places: dict[bytes, int] = {}
        self._chunks: dict[bytes, tuple[bytes, ...]] = {}
        self._ordinals: dict[bytes, int] = {}
        self._packs: list[bytes] = []

    def add_blob(self, blob: BlobRef) -> None:
        """Take note of one blob; the first place known is kept, so that equal trees stay equal."""
        with self._lock:
            self._read_for(blob.content_id)
            self._note(blob)

    def add_pack(self, pack: Pack) -> None:
        """Take note of a pack whose blobs were all looked for before they were sent."""
        with self._lock:
            ordinal = self._ordinal_of(pack.sha256) << 64
            for content_id, offset, size in pack.blobs:
                self._places.setdefault(content_id, ordinal | offset << 32 | size)

    def find_blob(self, blob_id: bytes) -> BlobRef | None:
        """Return where a blob lies."""
        with self._lock:
            self._read_for(blob_id)
            place = self._places.get(blob_id)
            if place is None:
                return None
            return BlobRef(blob_id, self._packs[place >> 64], place >> 32 & 0xFFFFFFFF, place & 0xFFFFFFFF)

    def find_file(self, content_id: bytes) -> tuple[BlobRef, ...] | None:
        """Return where the content of a file lies, if all of it is known."""
        with self._lock:
            self._read_for(content_id)
            blobs = [self.find_blob(blob_id) for blob_id in self._chunks.get(content_id, (content_id,))]
        return None if None in blobs else tuple(blob for blob in blobs if blob)

    def _read_for(self, content_id: bytes) -> None:
        """Take note of all in the first range that seems to hold some content, if that was not read yet."""
        if content_id in self._places or not self._unread or self._ranges is None:
            return
        if self._ids is None:
            self._ids = {number: self._ranges.peek_ids(range_id) for number, range_id in self._unread.items()}
        number = self._find_range(content_id, self._ids)
        if number in self._unread:
            for entry in self._ranges.load_range(self._unread.pop(number)):
                self._add_entry(entry)

    def _find_range(self, content_id: bytes, ids: dict[int, bytes]) -> int:
        """Return the first range that seems to name some content, -1 where none does."""
        if self._searches < _MOST_SEARCHES:
            self._searches += 1
            return next((number for number in ids if content_id in ids[number]), -1)
        if self._index is None:
            self._index = {}
            while ids:
                number, named = ids.popitem()
                self._index.update(dict.fromkeys(_beginnings(named), number))
        return self._index.get(_beginnings(content_id)[0], -1)

    def _add_entry(self, entry: Entry) -> None:
        if not self._missing.isdisjoint(blob.pack for blob in entry.blobs):
            return
        for blob in entry.blobs:
            self._note(blob)
        if len(entry.blobs) > 1:
            self._chunks[entry.content_id] = tuple(blob.content_id for blob in entry.blobs)

    def _note(self, blob: BlobRef) -> None:
        if blob.content_id not in self._places:
            self._places[blob.content_id] = self._ordinal_of(blob.pack) << 64 | blob.offset << 32 | blob.size

    def _ordinal_of(self, pack: bytes) -> int:
        ordinal = self._ordinals.setdefault(pack, len(self._packs))
        if ordinal == len(self._packs):
            self._packs.append(pack)
        return ordinal


def _beginnings(ids: bytes) -> "array[int]":
    """Return the first eight bytes of every id as a number."""
    words = array("Q", ids)
    return words[:: ID_BYTES // words.itemsize]


class Upload:
    """An upload session that starts when it is first needed, so that a sync without news leaves no trace."""

    def __init__(self, start: Callable[[], UploadSession]) -> None:
        self._start_session = start
        self._lock = threading.Lock()
        self._session: UploadSession | None = None

    @property
    def id(self) -> str:
        """Return the session's id."""
        return self._start().id

    @property
    def takes_deltas(self) -> bool:
        """Return whether the server takes ranges that are stored as deltas."""
        return self._start().takes_deltas

    def offer(self, kind: ObjectKind, name: str, *parts: Buffer) -> Offer:
        """Return the offer of an object, given in parts, with the proofs that the store of this session asks for."""
        md5 = md5_base64(*parts) if self._start().needs_md5 else None
        sha256 = name if kind is ObjectKind.PACK else sha256_hex(*parts)
        return Offer(kind, name, sum(map(len, parts)), sha256, md5)

    def _start(self) -> UploadSession:
        with self._lock:
            if self._session is None:
                self._session = self._start_session()
            return self._session


class Journal(Protocol):
    """Remembers between two programs the packs that are stored but not yet part of a commit."""

    def list_stored(self) -> Iterable[BlobRef]:
        """Yield the blobs of the packs that were stored since the last commit."""

    def note_stored(self, packs: Iterable[Pack]) -> None:
        """Note what packs hold."""


class PackSender:
    """Takes blobs in a fixed order, sends the new ones in packs, and knows afterwards where each lies.

    Used as a context manager; `finish` must be called for the last packs to be sent and confirmed.
    """

    def __init__(
        self,
        server: Storage,
        upload: Upload,
        known: KnownContent,
        *,
        threads: int,
        policy: RetryPolicy,
        journal: Journal | None = None,
        meter: Meter | None = None,
        target_bytes: int = TARGET_PACK_BYTES,
    ) -> None:
        self.bytes_sent = 0
        self._server = server
        self._upload = upload
        self._known = known
        self._policy = policy
        self._journal = journal
        self._meter = meter
        self._builder = PackBuilder(target_bytes)
        self._pending: set[bytes] = set()
        self._journaled: set[bytes] = set()
        for blob in journal.list_stored() if journal else ():
            self._journaled.add(blob.content_id)
            known.add_blob(blob)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="send")
        # A pack is only begun when a slot to send it is free.
        self._slots = threading.BoundedSemaphore(threads)
        self._lock = threading.Lock()
        self._refusals = Refusals()
        self._sign_lock = threading.Lock()
        self._unsigned: dict[str, Offer] = {}
        self._signed: dict[str, SignedRequest | None] = {}
        self._arrived: list[Pack] = []
        self._futures: list[Future[None]] = []
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._failure = self._failure or error
        self._pool.shutdown(wait=error is None, cancel_futures=True)

    def add(self, blob_id: bytes, blob: bytes) -> None:
        """Take the next blob; what is stored or on its way already is not sent again."""
        if blob_id in self._pending or self._known.find_blob(blob_id) is not None:
            if blob_id in self._journaled:
                # An interrupted sync ended a pack here. Ending one here too makes the packs that follow the same.
                self._journaled.remove(blob_id)
                self._flush()
            if self._meter:
                self._meter.add(size_bytes=len(blob))
            return
        if not self._builder.fits(len(blob)):
            self._flush()
        if self._builder.is_empty:
            self._slots.acquire()
            self._raise_failure()
        self._builder.add(blob, blob_id)
        self._pending.add(blob_id)

    def finish(self) -> None:
        """Send what is left, wait for all packs, and have them confirmed."""
        self._flush()
        for future in self._futures:
            future.result()
        self._confirm(at_least=1)

    def _flush(self) -> None:
        if self._builder.is_empty:
            return
        content = self._builder.take()
        self._futures = [future for future in self._futures if not future.done() or future.exception()]
        self._futures.append(self._pool.submit(self._send, content))

    def _raise_failure(self) -> None:
        if self._failure is not None:
            self._slots.release()
            raise self._failure

    def _send(self, content: PackContent) -> None:
        try:
            if self._failure is None:
                # Hashed here: while one pack is hashed, others are on their way, and the next is read.
                pack = content.named()
                offer = self._policy.repeat(partial(self._upload.offer, ObjectKind.PACK, pack.name, *pack.parts))
                with self._lock:
                    self._unsigned[pack.name] = offer
                is_new = self._policy.repeat(lambda: self._put(pack))
                self._count(pack, is_new=is_new)
                self._confirm(at_least=_CONFIRMED_AT_ONCE)
        except BaseException as error:
            self._failure = self._failure or error
            raise
        finally:
            self._slots.release()

    def _put(self, pack: Pack) -> bool:
        """Bring a pack to the store; return False when it is there already."""
        request = self._sign(pack)
        if request is None:
            return False
        try:
            # `Expect: 100-continue` would save sending the body of a request that is refused by its headers. The HTTP
            # library behind `send` sends head and body without waiting for an interim answer, so it is left out:
            # announcing it without waiting only costs the server an answer that nobody reads.
            with self._refusals.watch(pack.name, request):
                self._server.send(request, *pack.parts)
        except NearlineError as error:
            if is_expired(error):
                self._ask_again(pack)
            raise
        return True

    def _sign(self, pack: Pack) -> SignedRequest | None:
        """Return the request for a pack, asking for all packs that wait for one at the same time."""
        with self._sign_lock:
            if pack.name not in self._signed:
                with self._lock:
                    others = [offer for name, offer in self._unsigned.items() if name != pack.name]
                    batch = [self._unsigned[pack.name], *others][:MAX_OFFERS]
                answers = self._server.offer_packs(self._upload.id, batch)
                for answer in answers:
                    self._signed[answer.id] = answer.request
                with self._lock:
                    for offer in batch:
                        self._unsigned.pop(offer.id, None)
            return self._signed[pack.name]

    def _ask_again(self, pack: Pack) -> None:
        offer = self._upload.offer(ObjectKind.PACK, pack.name, *pack.parts)
        with self._sign_lock, self._lock:
            self._signed.pop(pack.name, None)
            self._unsigned[pack.name] = offer

    def _count(self, pack: Pack, *, is_new: bool) -> None:
        size = sum(blob.size for blob in pack.blobs)
        with self._lock:
            self.bytes_sent += size if is_new else 0
            # Its bytes are in the store, so only the list of what it holds is kept.
            self._arrived.append(pack._replace(parts=()))
        if self._meter:
            self._meter.add(size_bytes=size)

    def _confirm(self, *, at_least: int) -> None:
        with self._lock:
            if len(self._arrived) < at_least:
                return
            arrived, self._arrived = self._arrived, []
        for start in range(0, len(arrived), MAX_OFFERS):
            names = [pack.name for pack in arrived[start : start + MAX_OFFERS]]
            self._policy.repeat(partial(self._server.complete_packs, self._upload.id, names))
        with self._lock:
            for pack in arrived:
                self._known.add_pack(pack)
                self._pending.difference_update(blob.content_id for blob in pack.blobs)
        if self._journal:
            self._journal.note_stored(arrived)


def send_pack(server: Storage, upload: Upload, name: str, data: bytes | bytearray, policy: RetryPolicy) -> None:
    """Bring one pack that is made already to the store, and have it confirmed."""
    offer = policy.repeat(partial(upload.offer, ObjectKind.PACK, name, data))
    refusals = Refusals()

    def attempt() -> None:
        request = server.offer_packs(upload.id, [offer])[0].request
        if request is not None:
            with refusals.watch(name, request):
                server.send(request, data)

    policy.repeat(attempt)
    policy.repeat(partial(server.complete_packs, upload.id, [name]))


def blobs_of(known: KnownContent, blob_ids: Sequence[bytes]) -> tuple[BlobRef, ...]:
    """Return where blobs lie that were all sent or known."""
    return tuple(_found(known, blob_id) for blob_id in blob_ids)


def _found(known: KnownContent, blob_id: bytes) -> BlobRef:
    blob = known.find_blob(blob_id)
    assert blob is not None  # noqa: S101 (every blob was added, and `finish` stored them all)
    return blob


def put_objects(
    server: Storage, upload_id: str, objects: Iterable[tuple[Offer, bytes]], policy: RetryPolicy, *, threads: int
) -> list[str]:
    """Bring ranges or roots to the store, those that it does not have; return the ids of these."""
    objects, refusals = list(objects), Refusals()
    sent: list[str] = []
    with ThreadPoolExecutor(threads, thread_name_prefix="manifests") as pool:
        for start in range(0, len(objects), MAX_OFFERS):
            batch = objects[start : start + MAX_OFFERS]
            offers = [offer for offer, _ in batch]
            answers = policy.repeat(partial(server.offer_manifests, upload_id, offers))
            requests = [answer.request for answer in answers]
            sent += [answer.id for answer in answers if answer.request is not None]

            def put(item: tuple[Offer, bytes], request: SignedRequest | None) -> None:
                offer, data = item
                signed = [request]

                def attempt() -> None:
                    if signed[0] is None:
                        return
                    try:
                        with refusals.watch(offer.id, signed[0]):
                            server.send(signed[0], data)
                    except NearlineError as error:
                        if is_expired(error):
                            signed[0] = server.offer_manifests(upload_id, [offer])[0].request
                        raise

                policy.repeat(attempt)

            list(pool.map(put, batch, requests))
    return sent
