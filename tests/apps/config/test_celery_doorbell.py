"""The doorbell over Celery delivers to the lane's queue, and costs nobody anything when the broker is away."""

import json
import os
import time

import pytest

from config import worker
from core.doorbell import Lane, Task

TASK = Task("test.note", Lane.CACHE, lambda **_ids: None, None)


def test_a_broker_that_is_away_costs_the_ring_and_no_time():
    bell = worker.CeleryDoorbell(worker.make_app("redis://127.0.0.1:1/0"))
    started = time.monotonic()

    for number in range(1000):
        bell.ring(TASK, {"id": str(number)})

    took = time.monotonic() - started
    bell.stop()
    assert took < 1


@pytest.mark.services
@pytest.mark.skipif("NEARLINE_TEST_REDIS" not in os.environ, reason="needs Redis: `make services`")
def test_a_ring_lies_in_the_queue_of_its_lane():
    import redis

    url = os.environ["NEARLINE_TEST_REDIS"] + "/15"
    client = redis.Redis.from_url(url)
    client.flushdb()

    bell = worker.CeleryDoorbell(worker.make_app(url))

    bell.ring(TASK, {"id": "7"})

    _, message = client.blpop(["cache"], timeout=10)
    bell.stop()
    assert json.loads(message)["headers"]["task"] == "nearline.ring"
    client.close()
