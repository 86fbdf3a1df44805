"""Static files come through the web process, under ASGI without a warning (which would fail these tests)."""

from pathlib import Path

from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client

from web import static_files

LOGO = Path(static_files.__file__).parent / "static" / "web" / "logo.svg"
URL = "/static/web/logo.svg"


@async_to_sync
async def fetch(**headers: str) -> tuple[int, str, bytes]:
    answer = await AsyncClient().get(URL, headers=headers)
    body = b"".join([chunk async for chunk in answer.streaming_content])
    answer.close()
    return answer.status_code, answer["Content-Type"], body


def test_an_asynchronous_server_streams_a_file():
    assert fetch() == (200, "image/svg+xml", LOGO.read_bytes())


def test_an_asynchronous_server_sends_the_part_that_is_asked_for():
    assert fetch(range="bytes=1-4") == (206, "image/svg+xml", LOGO.read_bytes()[1:5])


def test_a_synchronous_client_gets_the_same_bytes():
    answer = Client().get(URL)

    assert b"".join(answer.streaming_content) == LOGO.read_bytes()
