"""Files of users on their way to a browser: shown only if they are plain pixels, otherwise only saved."""

import pytest
from django.test import Client

from datasets.web.paths import link_path, read_path
from nearline.content.paths import show_path
from tests.factories.browsers import browser_of
from tests.factories.datasets import commit_files, make_dataset, make_store

pytestmark = pytest.mark.django_db

FILES = {
    "a.png": b"\x89PNG",
    "page.html": b"<script>alert(1)</script>",
    "drawing.svg": b"<svg onload='alert(1)'/>",
    "data.bin": bytes(range(256)),
    "odd \udcff & +.txt": b"odd",
}


@pytest.fixture
def browser(member, project, tmp_path) -> Client:
    make_store(tmp_path / "store")
    commit_files(member, make_dataset(member, project, "digits"), FILES)
    return browser_of(member)


def fetch(browser: Client, path: str, *, show: bool = False, **headers: str):
    wanted = link_path(path.encode("utf-8", "surrogateescape"))
    return browser.get(f"/datasets/team-a/digits/content/?path={wanted}{'&show' if show else ''}", headers=headers)


def body(answer) -> bytes:
    return b"".join(answer.streaming_content)


def test_a_picture_is_shown_when_asked_for_and_else_saved(browser):
    shown, saved = fetch(browser, "a.png", show=True), fetch(browser, "a.png")

    assert (shown["Content-Type"], shown["Content-Disposition"]) == ("image/png", "inline")
    assert saved["Content-Disposition"].startswith("attachment;")


@pytest.mark.parametrize("name", ["page.html", "drawing.svg", "data.bin"])
def test_what_could_hold_a_script_is_only_ever_saved(browser, name):
    answer = fetch(browser, name, show=True)

    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment;")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"] == "default-src 'none'; sandbox"


def test_a_part_of_a_file_is_sent_for_a_range(browser):
    answer = fetch(browser, "data.bin", Range="bytes=10-19")

    assert (answer.status_code, answer["Content-Range"], body(answer)) == (206, "bytes 10-19/256", bytes(range(10, 20)))


def test_a_name_that_is_no_text_survives_the_way_through_an_address(browser):
    assert body(fetch(browser, "odd \udcff & +.txt")) == b"odd"


def test_a_file_that_is_not_there_is_no_page(browser):
    assert fetch(browser, "missing").status_code == 404


@pytest.mark.parametrize("name", [b"a b+c&d=e.txt", b"caf\xe9", "ü/😀".encode(), b"%2e%2e", b"a#b?c"])
def test_any_name_comes_back_from_an_address_byte_for_byte(rf, name):
    assert read_path(rf.get(f"/?path={link_path(name)}"), "path") == name


def test_bytes_that_are_no_text_appear_as_escapes():
    assert show_path(b"caf\xe9") == "caf\\xe9"
