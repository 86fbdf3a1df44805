"""Celery: the task queue of the full installation, and the worker that runs its tasks.

Run `celery -A config.worker worker -Q advance,cache,watch,notify,tidy`. Celery carries messages and nothing else;
results, retries and timers are rows in our database.
"""

import contextlib
import os
import queue
import threading

import structlog
from celery import Celery
from celery.signals import worker_init
from kombu.exceptions import OperationalError
from kombu.transport.redis import Channel

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")  # for the reason of `core.commands`

from django.conf import settings

from config import broker_outages
from core import tasks
from core.tasks import Task

log = structlog.get_logger(__name__)

_MESSAGE = "nearline.ring"  # its name on the broker since the first release
_REDELIVER_S = 120
_MOST_WAITING = 10_000


# A worker that loses the broker would put its messages back into it first, and end because it cannot (kombu 5.7). They
# come again by themselves after `_REDELIVER_S`, and what they are about is found by the periodic runs before.
Channel.do_restore = False


def make_app(broker_url: str) -> Celery:
    """Return a Celery application that talks to that broker."""
    made = Celery("nearline", broker=broker_url)
    made.conf.update(
        broker_transport_options={
            "visibility_timeout": _REDELIVER_S,
            "socket_keepalive": True,
            "socket_timeout": 10,
            "socket_connect_timeout": 3,
        },
        visibility_timeout=_REDELIVER_S,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,  # it is waited for as long as it takes
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        task_serializer="json",
        accept_content=["json"],
    )
    return made


app = make_app(settings.NEARLINE.broker_url)


@app.task(name=_MESSAGE)
def run_task(name: str, ids: dict[str, str]) -> None:
    """Run the task that the message names."""
    tasks.run(name, ids)


@worker_init.connect
def check_keys(**_facts: object) -> None:
    """Refuse to work with other keys than the other processes. Raises SystemExit."""
    from config import keys  # noqa: PLC0415 (models are loaded by now)

    keys.check_keys()


@worker_init.connect
def shorten_outages(**_facts: object) -> None:
    """Have an outage of the broker told in few lines."""
    broker_outages.shorten_log()


class CeleryQueue:
    """Sends each message to the broker's queue of its task, from a thread of its own, so that no caller waits.

    A broker that is away, or a process that ends, costs messages and never work: the next periodic run finds it.
    """

    def __init__(self, application: Celery = app) -> None:
        self._application = application
        self._messages: queue.Queue[tuple[Task, dict[str, str]] | None] = queue.Queue(_MOST_WAITING)
        self._starting = threading.Lock()
        self._sender: threading.Thread | None = None

    def enqueue(self, task: Task, ids: dict[str, str]) -> None:
        """Hand the message to the sender; drop it when thousands wait already."""
        try:
            self._messages.put_nowait((task, ids))
        except queue.Full:
            log.warning("tasks.queue_full", task=task.name)
        with self._starting:
            # A forked child inherits the object and not the thread, which then counts as dead.
            if self._sender is None or not self._sender.is_alive():
                self._sender = threading.Thread(target=self._send, name="task-sender", daemon=True)
                self._sender.start()

    def stop(self) -> None:
        """Drop what waits and end the sender."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._messages.get_nowait()
        self._messages.put(None)
        if self._sender is not None:
            self._sender.join()

    def _send(self) -> None:
        while (message := self._messages.get()) is not None:
            task, ids = message
            try:
                self._application.send_task(_MESSAGE, (task.name, ids), queue=str(task.queue), retry=False)
            except OperationalError as error:
                broker_outages.tell(error)
