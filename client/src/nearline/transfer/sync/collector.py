"""Less looking for garbage during a transfer.

Entries come by the million and never refer to each other in circles, yet the collector would walk through all of
them again and again: a third of the time of a large sync.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_RARELY = (200_000, 20, 100)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Let the collector run rarely; it runs at its usual pace again afterwards."""
    usual = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
