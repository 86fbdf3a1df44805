"""`manage.py controller`: runs periodic tasks, schedules and watches compute. Run several; one leads."""

import signal
import threading

from django.core.management.base import BaseCommand

from compute.workers import watch
from config import leader
from core.local_queue import LocalQueue


class Command(BaseCommand):
    """Lead, or stand by to lead."""

    help = "Run scheduling cycles, watch compute and do whatever is due. One of several controllers leads."

    def handle(self, *_args: object, **_options: object) -> None:
        """Run until SIGTERM or SIGINT."""
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        queue = LocalQueue()
        queue.start()
        watcher = threading.Thread(target=watch.watch_forever, args=(stop,), name="watch", daemon=True)
        leader.lead(queue, stop, on_lead=watcher.start)
        queue.stop()
