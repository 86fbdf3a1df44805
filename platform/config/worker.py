"""Celery: the doorbell of the full installation, and the worker that answers it.

Run `celery -A config.worker worker -Q advance,cache,watch,notify`. Celery carries rings and nothing else; results,
retries and timers are rows in our database.
"""

import os

import structlog
from celery import Celery
from kombu.exceptions import OperationalError

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from django.conf import settings

from core import doorbell
from core.doorbell import Task

log = structlog.get_logger(__name__)

_REDELIVER_S = 120

app = Celery("nearline", broker=settings.NEARLINE.broker_url)
app.conf.update(
    broker_transport_options={
        "visibility_timeout": _REDELIVER_S,
        "socket_keepalive": True,
        "socket_timeout": 10,
        "socket_connect_timeout": 3,
    },
    visibility_timeout=_REDELIVER_S,
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    task_serializer="json",
    accept_content=["json"],
)


@app.task(name="nearline.ring")
def answer(name: str, ids: dict[str, str]) -> None:
    """Run the task that was rung for."""
    doorbell.run(name, ids)


class CeleryDoorbell:
    """Sends each ring as a message to the queue of its lane. A broker that is away costs the ring, never the work."""

    def ring(self, task: Task, ids: dict[str, str]) -> None:
        """Send the ring, or drop it with a warning: the next tick finds the work."""
        try:
            answer.apply_async(args=(task.name, ids), queue=str(task.lane), retry=False)
        except OperationalError as error:
            log.warning("doorbell.broker_away", task=task.name, error=str(error))
