"""Static files come through the web process, under ASGI without a warning (which would fail these tests)."""

import gzip
import os
from pathlib import Path

import brotli
import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client

from web import middleware
from web.looks import asset_url, style_url

STATIC = Path(middleware.__file__).parent / "static"
LOGO = STATIC / "web" / "logo.svg"
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


@pytest.mark.parametrize("url_of", [asset_url, style_url])
def test_a_built_file_is_compressed_and_kept_for_ever_as_its_name_carries_its_hash(url_of):
    url = url_of("src/app.ts")

    answer = Client().get(url, headers={"Accept-Encoding": "gzip"})

    assert answer["Cache-Control"] == "max-age=315360000, public, immutable"
    assert answer["Content-Encoding"] == "gzip"
    assert gzip.decompress(b"".join(answer.streaming_content)) == (STATIC / url.removeprefix("/static/")).read_bytes()


def test_a_browser_that_takes_brotli_gets_it():
    answer = Client().get(asset_url("icons.svg"), headers={"Accept-Encoding": "gzip, deflate, br"})

    assert answer["Content-Encoding"] == "br"
    assert brotli.decompress(b"".join(answer.streaming_content)).startswith(b"<svg")


def test_a_new_build_is_served_without_a_restart(db):
    server = Client()
    fresh = STATIC / "web/dist" / f"fresh-{os.getpid():08}.js"
    before = server.get(f"/static/web/dist/{fresh.name}")
    try:
        fresh.write_text("export {}")
        after = b"".join(server.get(f"/static/web/dist/{fresh.name}").streaming_content)
    finally:
        fresh.unlink()

    assert (before.status_code, after) == (404, b"export {}")


@pytest.mark.parametrize("path", ["web", "web/", "nothing.js", "../middleware.py", "%ff", "a" * 5000])
def test_an_address_of_no_file_is_no_error_of_the_server(path, db):
    assert Client().get(f"/static/{path}").status_code == 404
