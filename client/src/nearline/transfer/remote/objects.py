"""Reading packs, ranges and roots from the store: signed just in time, tried again, and checked before use."""

import contextlib
import mmap
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from nearline.content.errors import ContentError
from nearline.content.manifest import RangeEntries, load_range
from nearline.content.paths import show_path
from nearline.content.range_deltas import FindEntries, KeepEntries
from nearline.content.retry import RetryPolicy
from nearline.errors import Failed, NearlineError, NotFound
from nearline.transfer.remote.retry import Refusals, is_expired
from nearline.transfer.remote.server import ObjectKind, SignedRequest, Storage

T = TypeVar("T")

_SIGNED_AT_ONCE = 32
# Bytes may be damaged on their way; when they come damaged again, the store's copy is.
_READS = 3

Key = tuple[ObjectKind, str]


class ObjectReader:
    """Reads objects of one dataset. Safe to use from several threads."""

    def __init__(self, server: Storage, policy: RetryPolicy) -> None:
        self._server = server
        self._policy = policy
        self._memory = _Memory()
        self._refusals = Refusals()
        self._lock = threading.Lock()
        self._signed: dict[Key, SignedRequest] = {}
        self._expected: list[Key] = []
        self._position: dict[Key, int] = {}

    def announce(self, keys: Sequence[Key]) -> None:
        """Learn what is read next, in this order, so that one call signs the next requests too."""
        with self._lock:
            self._expected = list(dict.fromkeys(keys))
            self._position = {key: index for index, key in enumerate(self._expected)}

    def read(self, key: Key, check: Callable[[memoryview], T], byte_range: tuple[int, int] | None = None) -> T:
        """Return what `check` makes of the object, or of a part of it given by first byte and length.

        `check` raises ContentError for damaged bytes. What it is given is overwritten by the thread's next read. Raises
        Failed when the bytes stay damaged.
        """
        for attempt in range(1, _READS + 1):
            try:
                return check(self._policy.repeat(lambda: self.read_once(key, byte_range)))
            except ContentError as error:
                if attempt == _READS:
                    raise self.damage_error(key, str(error)) from error
        raise AssertionError

    def load_range(
        self,
        range_id: str,
        *,
        find: FindEntries = lambda _: None,
        keep: KeepEntries = lambda _id, _entries, _data: None,
    ) -> RangeEntries:
        """Return the entries of a range, verified, from its object and, if that is a delta, from those of its bases.

        `find` and `keep` are those of `range_deltas.load_range`. Raises Failed for damaged bytes.
        """

        def load(view: memoryview) -> RangeEntries:
            data = bytes(view)

            def get(name: str) -> bytes:
                return data if name == range_id else self.read((ObjectKind.RANGE, name), bytes)

            return load_range(range_id, get, find=find, keep=keep)

        return self.read((ObjectKind.RANGE, range_id), load)

    def read_once(self, key: Key, byte_range: tuple[int, int] | None) -> memoryview:
        """Make one attempt at reading an object, or a part of it. The bytes are not checked."""
        request = self._sign(key)
        try:
            with self._refusals.watch(key[1], request):
                return self._server.receive(request, self._memory.allocate, byte_range)
        except NearlineError as error:
            if isinstance(error, NotFound):
                self._report(key)
            if is_expired(error):
                with self._lock:
                    self._signed.pop(key, None)
            raise

    def damage_error(self, key: Key, reason: str) -> Failed:
        """Return the error for an object that stays damaged, after reporting it."""
        kind, name = key
        self._report(key)
        return Failed(
            f"The {kind} {name[:12]} is damaged in the store: {reason}",
            code="client.damaged",
            hint="Nothing damaged was written. What a dataset lost (`nearline data damage` lists it) is sent again by "
            "`nearline data sync` or `data put` with a good copy of the files. What an output lost comes from running "
            "its step again (`nearline run retry RUN --from STEP`) or its job.",
            details={"kind": str(kind), "id": name},
        )

    def _report(self, key: Key) -> None:
        """Let the server find what we found, so that good copies are asked for."""
        if key[0] is ObjectKind.PACK:
            with contextlib.suppress(NearlineError):
                self._server.report_damaged_packs([key[1]])

    def _sign(self, key: Key) -> SignedRequest:
        with self._lock:
            if key not in self._signed:
                start = self._position.get(key)
                batch = [key] if start is None else self._expected[start : start + _SIGNED_AT_ONCE]
                self._signed.update(zip(batch, self._server.sign_downloads(batch), strict=True))
            return self._signed[key]


class SignedPacks:
    """Packs of one dataset, read by signed requests. Implements `nearline.hydrate.ports.PackSource`."""

    def __init__(self, server: Storage, policy: RetryPolicy) -> None:
        self._objects = ObjectReader(server, policy)

    def announce(self, packs: Sequence[str]) -> None:
        """Learn which packs are read next."""
        self._objects.announce([(ObjectKind.PACK, pack) for pack in packs])

    def read(self, pack: str, offset: int, size: int) -> memoryview:
        """Make one attempt at reading a part of a pack."""
        return self._objects.read_once((ObjectKind.PACK, pack), (offset, size))

    def damage_error(self, path: bytes, pack: str | None) -> Failed:
        """Return the error for a file whose content stays damaged."""
        name = show_path(path)
        if pack is None:
            return Failed(
                f"'{name}' is damaged: its pieces are right, but do not make the file.", code="client.damaged"
            )
        return self._objects.damage_error((ObjectKind.PACK, pack), f"'{name}' cannot be read from it.")


class _Memory(threading.local):
    """One piece of memory for each thread, as large as its largest object so far: packs come and go in it."""

    def __init__(self) -> None:
        self._data = memoryview(bytearray())

    def allocate(self, size: int) -> memoryview:
        if len(self._data) < size:
            # A new one: what reads the old one may still look at it. Mapped, since a bytearray is filled with zeros.
            mapped = mmap.mmap(-1, size)
            if hasattr(mmap, "MADV_HUGEPAGE"):
                with contextlib.suppress(OSError):
                    mapped.madvise(mmap.MADV_HUGEPAGE)
            self._data = memoryview(mapped)
        return self._data[:size]
