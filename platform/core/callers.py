"""Who sends a request, told by whoever has checked its credential to whoever gives out turns before Django."""

from collections.abc import Callable
from contextvars import ContextVar

from core.errors import ErrorKind, PlatformError

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("caller_listener", default=None)


def listen(listener: Callable[[str], None]) -> None:
    """Have `listener` called with who the caller of the present request is, should that be checked."""
    _listener.set(listener)


def tell(name: str) -> None:
    """Say who the caller of the present request is; empty: nobody else than whoever holds this credential."""
    if (listener := _listener.get()) is not None:
        listener(name)


class TooManyRequests(PlatformError):
    """So many requests of the caller wait that this one was not taken up. Nothing of it was done."""

    code = "core.too_many_requests"
    kind = ErrorKind.THROTTLED
    hint = "Send it again in a few seconds, and fewer at once."
