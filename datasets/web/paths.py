"""Paths of files in addresses and on pages. A file's name is bytes: any legal one survives the way through a link."""

from urllib.parse import parse_qs, quote

from django.http import HttpRequest


def read_path(request: HttpRequest, name: str) -> bytes:
    """Return a path of the address's query, byte for byte; empty when it is missing."""
    raw: str = request.META.get("QUERY_STRING", "")
    query = parse_qs(raw, encoding="utf-8", errors="surrogateescape")
    return query.get(name, [""])[-1].encode("utf-8", "surrogateescape").strip(b"/")


def link_path(path: bytes) -> str:
    """Return a path as it stands in an address's query."""
    return quote(path, safe="/")
