"""Pages and JSON travel compressed; what may show a secret once, and what streams, does not."""

import gzip

import pytest
from django.http import HttpResponse, StreamingHttpResponse
from django.test import RequestFactory

from tests.factories.browsers import browser_of
from web.middleware import CompressPages

pytestmark = pytest.mark.django_db
GZIP = {"Accept-Encoding": "gzip, br"}


def send(method: str, response: HttpResponse) -> HttpResponse:
    request = RequestFactory(headers=GZIP).generic(method, "/")
    return CompressPages(lambda _: response)(request)


def test_a_page_is_compressed_for_a_browser_that_takes_it(site_admin):
    client = browser_of(site_admin)

    answer = client.get("/jobs/", headers=GZIP)

    assert answer["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in answer["Vary"]
    assert b"<html" in gzip.decompress(answer.content)
    assert len(answer.content) < len(gzip.decompress(answer.content)) / 2
    assert "Content-Encoding" not in client.get("/jobs/", headers={"Accept-Encoding": "identity"})


def test_two_answers_with_the_same_content_differ_in_length():
    lengths = {len(send("GET", HttpResponse("secret" * 100)).content) for _ in range(50)}

    assert len(lengths) > 1


@pytest.mark.parametrize(
    ("method", "response"),
    [
        ("POST", HttpResponse("shown once" * 100)),
        ("GET", StreamingHttpResponse([b"data: news\n\n"] * 100, content_type="text/event-stream")),
        ("GET", HttpResponse(b"packed" * 100, content_type="application/octet-stream")),
    ],
)
def test_what_may_show_a_secret_once_or_is_no_text_is_sent_as_it_is(method, response):
    assert "Content-Encoding" not in send(method, response)
