"""A web process that may not start tells its server so, in one sentence."""

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator

from config.liveness import with_start_check


async def never(scope, receive, send):
    raise AssertionError("nothing is served before the check")


def start(check) -> list[dict]:
    async def talk() -> list[dict]:
        server = ApplicationCommunicator(with_start_check(never, check), {"type": "lifespan"})
        await server.send_input({"type": "lifespan.startup"})
        answers = [await server.receive_output()]
        if answers[0]["type"] == "lifespan.startup.complete":
            await server.send_input({"type": "lifespan.shutdown"})
            answers.append(await server.receive_output())
        return answers

    return async_to_sync(talk)()


def test_a_process_whose_check_fails_does_not_start_and_says_why():
    def check():
        raise SystemExit("Another key.")

    assert start(check) == [{"type": "lifespan.startup.failed", "message": "Another key."}]


@pytest.mark.django_db
def test_a_process_whose_check_passes_starts_and_stops():
    assert start(lambda: None) == [{"type": "lifespan.startup.complete"}, {"type": "lifespan.shutdown.complete"}]
