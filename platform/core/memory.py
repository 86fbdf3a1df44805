"""How this process uses memory: where its threads take it from, and what the garbage collector passes over."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_ARENA_MAX = -8  # M_ARENA_MAX of glibc's malloc.h
_NEW_OBJECTS = 5_000


def share_arenas() -> None:
    """Let all threads take memory from one place. To be called before there are others.

    By default glibc gives each thread an arena of its own, which keeps what was ever taken from it: of 20 threads that
    is a fifth of the process. They wait for the lock of the interpreter anyway. Other C libraries have no such call.
    """
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)


def freeze_what_is_loaded() -> None:
    """Leave all that the process has loaded by now out of later collections.

    A full one would look through several hundred thousand objects of the program itself. No other thread runs
    meanwhile, and the write lock of SQLite may be held. Later ones come a seventh as often as usual: nearly all that a
    pass makes is gone by its end without them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)


@contextmanager
def not_collected() -> Iterator[None]:
    """Run a block without collections, for every thread. The outermost block of all turns them on again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
