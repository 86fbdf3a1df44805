"""What the failures of a transfer mean for another attempt."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nearline.content.retry import Failure, RetryPolicy, Waiting, ignore_waiting
from nearline.errors import Denied, ServerFailure, Unavailable
from nearline.transfer.remote.server import SignedRequest

_EXPIRED = "datasets.signature_expired"
_REFUSED = frozenset({"client.store_refused", "datasets.signature_invalid"})


LONGEST_WAIT_S = 600.0


def transfer_policy(
    on_wait: Callable[[Waiting], None] = ignore_waiting, max_wait_s: float = LONGEST_WAIT_S
) -> RetryPolicy:
    """Return how transfers try again, for so long while the store is away."""
    return RetryPolicy(classify, on_wait=on_wait, max_elapsed_s=max_wait_s, max_throttled_s=max_wait_s)


def classify(error: Exception) -> Failure:
    """Return what an error means for another attempt."""
    if is_expired(error):
        return Failure.EXPIRED
    if isinstance(error, Unavailable):
        return Failure.UNAVAILABLE
    return Failure.SERVER_ERROR if isinstance(error, ServerFailure) else Failure.PERMANENT


def is_expired(error: Exception) -> bool:
    """Return whether a signed request came after its time, so that a new one is all that is needed."""
    return isinstance(error, Denied) and error.code == _EXPIRED


class Refusals:
    """Tells signed requests that came too late from those that have no right.

    Some stores (Ceph) refuse both in the same words, and a server that was given new keys does not know the addresses
    that it signed before. So a refusal stands only when a second request for the same object is refused too, within its
    time. Safe to use from several threads.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._refused: set[str] = set()

    @contextmanager
    def watch(self, name: str, request: SignedRequest) -> Iterator[None]:
        """Let a request for an object be made. Raises Denied with `datasets.signature_expired` where it was late."""
        try:
            yield
        except Denied as error:
            if error.code not in _REFUSED:
                raise
            with self._lock:
                is_first = name not in self._refused
                self._refused.add(name)
            is_late = request.expires_at is not None and self._clock() >= request.expires_at
            if not is_first and not is_late:
                raise
            raise Denied(error.message, code=_EXPIRED, hint=error.hint) from error
        with self._lock:
            self._refused.discard(name)
