"""The queue over Celery delivers to the broker's queue of a task, and costs nobody anything when the broker is away."""

import json
import logging
import os
import queue
import threading

import pytest
import redis
from kombu.exceptions import OperationalError

from config import broker_outages, worker
from core import outages
from core.tasks import Queue, Task

LIMIT_S = 300
TASK = Task("test.note", Queue.CACHE, lambda **_ids: None, None)


class Application:
    """Celery as the task queue uses it, over a broker that does what the test says."""

    def __init__(self, *, is_stuck: bool = False, failures: int = 0) -> None:
        self.goes_on = threading.Event()
        self.failures = failures
        self.sent = queue.Queue()
        if not is_stuck:
            self.goes_on.set()

    def send_task(self, _name, arguments, **_options):
        self.goes_on.wait(LIMIT_S)
        if self.failures:
            self.failures -= 1
            raise OperationalError("Connection refused.")
        self.sent.put(arguments)


def test_no_caller_waits_for_the_broker():
    broker = Application(is_stuck=True)
    tasks = worker.CeleryQueue(broker)

    for number in range(1000):
        tasks.enqueue(TASK, {"id": str(number)})

    assert broker.sent.empty()  # nothing could be sent, and still we are here
    broker.goes_on.set()
    tasks.stop()


def test_a_broker_that_is_away_costs_messages_and_not_the_sender():
    broker = Application(failures=2)
    tasks = worker.CeleryQueue(broker)

    for number in range(3):
        tasks.enqueue(TASK, {"id": str(number)})

    assert broker.sent.get(timeout=LIMIT_S) == (TASK.name, {"id": "2"})
    tasks.stop()


@pytest.fixture
def celery_log():
    """The loggers of Celery that tell of an outage, with what is left of their lines."""
    names = ("celery.worker.consumer.consumer", "celery.bootsteps", "py.warnings")
    loggers = {name: logging.getLogger(name) for name in names}
    before = {name: logger.filters[:] for name, logger in loggers.items()}
    yield loggers
    for name, logger in loggers.items():
        logger.filters[:] = before[name]


def test_an_outage_of_the_broker_is_one_line_however_often_celery_meets_it(celery_log, caplog, monkeypatch):
    told = []
    monkeypatch.setattr(outages, "tell", lambda event, reason: told.append((event, reason)))
    broker_outages.shorten_log()
    consumer, steps, warned = celery_log.values()

    consumer.error(
        "consumer: Cannot connect to %s: %s.\n%s\n", "redis://:**@db", "refused", "Trying again in 2 seconds"
    )
    further = AttributeError("connection_errors")
    further.__context__ = redis.ConnectionError("refused")
    steps.error("Error on restarting Gossip", exc_info=further)
    warned.warning("... the worker_cancel_long_running_tasks_on_connection_loss setting ...")
    steps.error("Something else")

    assert told == [
        ("broker.unavailable", "consumer: Cannot connect to redis://:**@db: refused. Trying again in 2 seconds"),
        ("broker.unavailable", "Error on restarting Gossip"),
    ]
    assert [record.getMessage() for record in caplog.records] == ["Something else"]


@pytest.mark.services
@pytest.mark.skipif("NEARLINE_TEST_REDIS" not in os.environ, reason="needs Redis: `make services`")
def test_a_message_lies_in_the_queue_of_its_task():
    url = os.environ["NEARLINE_TEST_REDIS"] + "/0"
    client = redis.Redis.from_url(url)
    client.flushdb()

    tasks = worker.CeleryQueue(worker.make_app(url))

    tasks.enqueue(TASK, {"id": "7"})

    _, message = client.blpop(["cache"], timeout=LIMIT_S)
    tasks.stop()
    assert json.loads(message)["headers"]["task"] == "nearline.ring"
    client.close()


@pytest.mark.services
@pytest.mark.skipif("NEARLINE_TEST_REDIS" not in os.environ, reason="needs Redis: `make services`")
def test_a_worker_that_loses_the_broker_in_the_middle_of_its_work_goes_on():
    with worker.make_app(os.environ["NEARLINE_TEST_REDIS"] + "/0").connection() as connection:
        channel = connection.channel()
        with connection.SimpleQueue("lost", channel=channel) as messages:
            messages.put({"name": "test.note"})
            messages.get(timeout=LIMIT_S)  # and it is worked on

            channel.connection.client = None  # so kombu leaves a connection that broke
            channel._disconnect_pools()
            channel.close()  # raised AttributeError, with which the worker ended
