"""What `manage.py up` does beside serving pages, for drills that kill it."""

import threading
from collections.abc import Callable

from compute.workers import watch
from config import leader, recovery
from core import tasks
from core.local_queue import LocalQueue

_LOOK_EVERY_S = 0.2


def serve(goes_on: Callable[[], bool] = lambda: True) -> None:
    """Lead, work and watch as long as asked for. Call it where nobody else works on the same state."""
    stop, queue = threading.Event(), LocalQueue()
    tasks.install(queue)
    queue.start()
    recovery.void_leases()
    threads = [
        threading.Thread(target=leader.lead, args=(queue, stop), daemon=True),
        threading.Thread(target=watch.watch_forever, args=(stop,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    while goes_on():
        stop.wait(_LOOK_EVERY_S)
    stop.set()
    queue.stop(timeout_s=5)
