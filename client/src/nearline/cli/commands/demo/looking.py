"""What the walks look at until it is so."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from nearline.errors import Failed

if TYPE_CHECKING:
    from nearline.client import Client

T = TypeVar("T")

_LOOK_EVERY_S = 0.5


def wait_for(look: Callable[[], T | None], limit_s: float) -> T:
    """Return what `look` finds, once it finds something. Raises Failed."""
    deadline = time.monotonic() + limit_s
    while (answer := look()) is None:
        if time.monotonic() >= deadline:
            raise Failed("The walk does not go on.", hint="A slow machine may need a longer --limit.")
        time.sleep(_LOOK_EVERY_S)
    return answer


def is_free(client: "Client", pool: str) -> bool:
    """Return whether nothing holds GPUs of a pool, or waits for them."""
    return not any(queue.gpu_held_milli or queue.waiting_workloads for queue in client.queues.list(pool=pool))
