"""Keeps Python's garbage collector from what stays: it would look through all of it again and again."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEW_OBJECTS = 5_000


def leave_out_what_is_loaded() -> None:
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
