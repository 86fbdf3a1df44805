"""What routes of files share: exact paths in, and bytes out."""

from urllib.parse import parse_qsl, quote

from django.http import HttpResponse
from django.http.response import HttpResponseBase

from accounts.api.auth import ApiRequest
from core import streaming
from datasets.selectors.files import FileContent


def read_raw(request: ApiRequest, name: str) -> bytes:
    """Return the exact bytes of a query parameter; Django's own reading would mangle those that are no UTF-8."""
    query = parse_qsl(request.META.get("QUERY_STRING", ""), keep_blank_values=True, errors="surrogateescape")
    return next((value.encode("utf-8", "surrogateescape") for key, value in query if key == name), b"")


def answer_content(request: ApiRequest, content: FileContent) -> HttpResponseBase:
    """Answer with the bytes of one file, or of a part of it (`Range`)."""
    name = content.entry.path.rpartition(b"/")[2]
    try:
        span = streaming.parse_range(request.headers.get("Range", ""), content.size_bytes)
    except ValueError:
        return HttpResponse(status=416, headers={"Content-Range": f"bytes */{content.size_bytes}"})
    first, size = span or (0, content.size_bytes)
    picture = streaming.picture_type(name.decode("utf-8", "replace"))
    response = streaming.stream(
        request,
        content.read(first, size),
        status=200 if span is None else 206,
        content_type=picture or "application/octet-stream",
    )
    response["Content-Length"] = str(size)
    response["Content-Disposition"] = f"{'inline' if picture else 'attachment'}; filename*=UTF-8''{quote(name)}"
    response["Accept-Ranges"] = "bytes"
    response["ETag"] = f'"{content.entry.content_id.hex()}"'
    if span is not None:
        response["Content-Range"] = f"bytes {first}-{first + size - 1}/{content.size_bytes}"
    return response
