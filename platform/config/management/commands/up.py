"""`manage.py up`: the whole product in one process, on the loopback interface."""

import fcntl
import os
import sys
import threading
from pathlib import Path
from typing import TextIO

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import connections

from compute.selectors import resources
from compute.workers import watch
from config import first_start, leader, log_setup, recovery, serving, wiring
from config.demo import Demo
from config.management.commands import sign_in
from core import tasks
from core.commands import PlatformCommand

HOST = "127.0.0.1"


class Command(PlatformCommand):
    """Serve pages, API, background work and the scheduler from one process."""

    help = "Run the whole product in one process on 127.0.0.1."

    def add_arguments(self, parser: CommandParser) -> None:
        """Offer to listen where others reach it."""
        parser.add_argument("--listen", default=HOST, help="address to listen on, in a pod 0.0.0.0 (%(default)s)")

    def handle(self, *_args: object, **options: str) -> None:
        """Run until SIGTERM or Ctrl-C."""
        home = settings.NEARLINE.home
        lock = _lock(home)
        serving.allow_many_files()
        listener = serving.listen(options["listen"], settings.NEARLINE.port)
        log_file = home / "nearline.log"
        log_setup.move_to_file(log_file, sys.stderr)
        stop = threading.Event()
        demo = Demo(sys.stdout, stop, log_file)
        demo.begin()
        first_start.prepare()
        first_start.attach_this_cluster()
        recovery.void_leases()
        queue = wiring.make_local_queue()
        tasks.install(queue)
        queue.start()
        threads = [
            threading.Thread(target=leader.lead, args=(queue, stop), name="leader", daemon=True),
            threading.Thread(target=watch.watch_forever, args=(stop,), name="watch", daemon=True),
        ]
        for thread in threads:
            thread.start()
        self.stdout.write(f"Nearline serves on {settings.NEARLINE.url}  (state in {home}, log in {log_file.name})")
        for text in resources.describe_unconfined():
            self.stdout.write(text)
        self.stdout.flush()
        if demo.is_due:
            threading.Thread(target=self._demonstrate, args=(demo, stop), name="demo", daemon=True).start()
        else:
            self._show_sign_in_link()
        try:
            serving.serve(listener)
        finally:
            stop.set()
            for thread in threads:
                thread.join(timeout=5)
            queue.stop(timeout_s=5)
            lock.close()

    def _demonstrate(self, demo: Demo, stop: threading.Event) -> None:
        self.stdout.write("A demo runs first (about 15 s). The link to sign in follows it.")
        self.stdout.flush()
        demo.run()
        if not stop.is_set():
            self._show_sign_in_link()
        connections.close_all()

    def _show_sign_in_link(self) -> None:
        self.stdout.write("\nNearline serves until Ctrl-C. Sign in once within 30 minutes:")
        self.stdout.write(sign_in.make_link())
        self.stdout.flush()


def _lock(home: Path) -> TextIO:
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = (home / "lock").open("a+")
    except OSError as error:
        raise CommandError(
            f"The folder {home} cannot be written ({error.strerror}). Choose another with NEARLINE_HOME."
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        owner = lock.readline().strip() or "unknown"
        raise CommandError(
            f"Nearline already runs on the state in {home} (process {owner}). Stop it, or choose another NEARLINE_HOME."
        ) from error
    os.set_inheritable(lock.fileno(), False)  # noqa: FBT003 (the only spelling)
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n{settings.NEARLINE.url}\n")
    lock.flush()
    return lock
