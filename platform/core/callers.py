"""Whose credential a request shows, told by whoever has checked it to whoever gives out turns before Django."""

from collections.abc import Callable
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("caller_listener", default=None)


def listen(listener: Callable[[str], None]) -> None:
    """Have `listener` called with who the caller of the present request is, should that be checked."""
    _listener.set(listener)


def tell(name: str) -> None:
    """Say who the caller of the present request is; empty: nobody else than whoever holds this credential."""
    if (listener := _listener.get()) is not None:
        listener(name)
