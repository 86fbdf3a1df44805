"""`manage.py controller`: runs periodic tasks, schedules and watches compute. Run several; one leads.

One on each host that has a local resource or a cache site in a folder: what is there, no other host can do.
"""

import signal
import threading

from compute.workers import watch
from config import first_start, host_calls, keys, leader
from core import memory
from core.commands import PlatformCommand
from core.local_queue import LocalQueue


class Command(PlatformCommand):
    """Lead, or stand by to lead."""

    help = "Run scheduling cycles, watch compute and do whatever is due. One of several controllers leads."

    def handle(self, *_args: object, **_options: object) -> None:
        """Run until SIGTERM or SIGINT."""
        keys.check_keys()
        first_start.take_what_is_here()
        first_start.attach_this_cluster()
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        queue = LocalQueue()
        queue.start()
        host_calls.start_answering(stop)
        memory.freeze_what_is_loaded()
        watcher = threading.Thread(target=watch.watch_forever, args=(stop,), name="watch", daemon=True)
        leader.lead(queue, stop, on_lead=watcher.start)
        queue.stop()
