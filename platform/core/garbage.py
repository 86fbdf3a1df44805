"""Pauses Python's garbage collector while much is made that stays: it would look through all of it again and again."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
