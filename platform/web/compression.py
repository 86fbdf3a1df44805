"""Compressed answers: pages, parts of pages and JSON travel as gzip where the browser takes it."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

_TYPES = ("text/html", "application/json")


class CompressPages(GZipMiddleware):
    """Compresses what GET answers with. Streams (live news, downloads) pass as they are: they must not be held up.

    An attacker who can add to a page and see its length could guess a secret in it (BREACH). So answers to a POST,
    which may show a secret once, are left alone, Django masks CSRF tokens anew in each page, and each compressed
    answer gets a random length.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Compress the response if it may be."""
        if request.method != "GET" or response.streaming or not response.headers["Content-Type"].startswith(_TYPES):
            return response
        return super().process_response(request, response)
