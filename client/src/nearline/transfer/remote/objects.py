"""Reading packs, ranges and roots from the store: signed just in time, tried again, and checked before use."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from nearline.content.errors import ContentError
from nearline.content.retry import RetryPolicy
from nearline.errors import Failed, NearlineError, NotFound
from nearline.transfer.remote.retry import Refusals, is_expired
from nearline.transfer.remote.server import ObjectKind, Server, SignedRequest

T = TypeVar("T")

_SIGNED_AT_ONCE = 32
# Bytes may be damaged on their way; when they come damaged again, the store's copy is.
_READS = 3

Key = tuple[ObjectKind, str]


class ObjectReader:
    """Reads objects of one dataset. Safe to use from several threads."""

    def __init__(self, server: Server, policy: RetryPolicy, expected: Sequence[Key] = ()) -> None:
        self._server = server
        self._policy = policy
        self._memory = _Memory()
        self._refusals = Refusals()
        self._lock = threading.Lock()
        self._signed: dict[Key, SignedRequest] = {}
        # In the order in which they will be read, so that one call signs the next ones too.
        self._expected = list(dict.fromkeys(expected))
        self._position = {key: index for index, key in enumerate(self._expected)}

    def read(self, key: Key, check: Callable[[memoryview], T], byte_range: tuple[int, int] | None = None) -> T:
        """Return what `check` makes of the object, or of a part of it given by first byte and length.

        `check` raises ContentError for damaged bytes. What it is given is overwritten by the thread's next read. Raises
        Failed when the bytes stay damaged.
        """
        for attempt in range(1, _READS + 1):
            try:
                return check(self._read(key, byte_range))
            except NotFound:
                self._report(key)
                raise
            except ContentError as error:
                if attempt == _READS:
                    kind, name = key
                    self._report(key)
                    raise Failed(
                        f"The {kind} {name[:12]} is damaged in the store: {error}",
                        code="client.damaged",
                        hint="Nothing damaged was written. `nearline data sync` or `data put` with a good copy of the "
                        "files sends again what is damaged; `nearline data damage` lists it.",
                        details={"kind": str(kind), "id": name},
                    ) from error
        raise AssertionError

    def _report(self, key: Key) -> None:
        """Let the server find what we found, so that good copies are asked for."""
        if key[0] is ObjectKind.PACK:
            with contextlib.suppress(NearlineError):
                self._server.report_damaged_packs([key[1]])

    def _read(self, key: Key, byte_range: tuple[int, int] | None) -> memoryview:
        def attempt() -> memoryview:
            request = self._sign(key)
            try:
                with self._refusals.watch(key[1], request):
                    return self._server.receive(request, self._memory.allocate, byte_range)
            except NearlineError as error:
                if is_expired(error):
                    with self._lock:
                        self._signed.pop(key, None)
                raise

        return self._policy.repeat(attempt)

    def _sign(self, key: Key) -> SignedRequest:
        with self._lock:
            if key not in self._signed:
                start = self._position.get(key)
                batch = [key] if start is None else self._expected[start : start + _SIGNED_AT_ONCE]
                self._signed.update(zip(batch, self._server.sign_downloads(batch), strict=True))
            return self._signed[key]


class _Memory(threading.local):
    """One piece of memory for each thread, as large as its largest object so far: packs come and go in it."""

    def __init__(self) -> None:
        self._data = bytearray()

    def allocate(self, size: int) -> memoryview:
        if len(self._data) < size:
            # A new one: what reads the old one may still look at it.
            self._data = bytearray(size)
        return memoryview(self._data)[:size]
