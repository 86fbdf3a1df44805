"""What a page offers to a viewer can be done by a viewer: no form that is refused, no button to a page that says no."""

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.test import Client
from django.urls import resolve

from tests.architecture.test_pages import NO_PAGES, address_of
from tests.architecture.test_permission_matrix import PAGES
from tests.architecture.world import World

SHOWN = [
    route
    for route in PAGES
    if route.method == "GET" and route.expected["viewer"] == "200" and route.path not in NO_PAGES
]
TAKEN = {route.path: route.expected["viewer"] for route in PAGES if route.method == "POST"}
SAYS_NO = ("Your role in this project", "No project to submit to", "No project to write to")


@pytest.fixture
def viewer(everything) -> Client:
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = everything.askers["viewer"].session
    return client


def pages_of(everything: World, viewer: Client) -> Iterator[tuple[str, str]]:
    for route in SHOWN:
        answer = viewer.get(address_of(route, everything))
        if not answer.streaming and answer.headers["Content-Type"].startswith("text/html"):
            yield answer.request["PATH_INFO"], answer.content.decode()


def pattern_of(address: str) -> str:
    """Return an address as the table of routes writes it."""
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", resolve(urlsplit(address).path).route)


def forms_of(path: str, page: str) -> Iterator[str]:
    """Return where the forms of a page that can be sent would send what they write."""
    for form, inside in re.findall(r"(<form\b[^>]*>)(.*?)</form>", page, re.DOTALL):
        buttons = re.findall(r"<button\b[^>]*>", inside)
        if 'method="post"' in form and any(" disabled" not in button for button in buttons):
            named = re.search(r'\baction="([^"]*)"', form)
            yield unescape(named[1]) if named else path


def buttons_of(page: str) -> Iterator[str]:
    """Return where the links that look like buttons lead."""
    for link in re.findall(r'<a\b[^>]*class="btn\b[^>]*>', page):
        address = re.search(r'\bhref="([^"]*)"', link)
        if address and address[1].startswith("/") and "download" not in link:
            yield unescape(address[1])


def test_a_viewer_is_offered_no_form_that_is_refused(everything, viewer):
    refused = {
        (path, address)
        for path, page in pages_of(everything, viewer)
        for address in forms_of(path, page)
        if TAKEN.get(pattern_of(address), "302") in {"403", "404"}
    }

    assert refused == set()


def test_a_viewer_is_offered_no_button_to_a_page_that_says_no(everything, viewer):
    leading = {(path, address) for path, page in pages_of(everything, viewer) for address in buttons_of(page)}
    answers = {address: viewer.get(address) for address in {address for _, address in leading}}
    refused = {
        address
        for address, answer in answers.items()
        if answer.status_code not in {200, 302}
        or (not answer.streaming and any(words in answer.content.decode(errors="replace") for words in SAYS_NO))
    }

    assert {(path, address) for path, address in leading if address in refused} == set()
