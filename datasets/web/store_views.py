"""The endpoint of folder stores: carries out signed requests, as an S3 server would. Their holders need no sign-in."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from core import streaming
from datasets.workers import store_requests

_CHUNK = 1024 * 1024


@csrf_exempt  # the signature in the address is the proof of right, and browsers never send it by themselves
@require_http_methods(["GET", "PUT"])
def store_object(request: HttpRequest, signed: str) -> HttpResponseBase:
    """Store the body (PUT) or answer with the object or a part of it (GET)."""
    return _put(request, signed) if request.method == "PUT" else _get(request, signed)


def _put(request: HttpRequest, signed: str) -> HttpResponse:
    length = request.headers.get("Content-Length", "")
    growing = store_requests.open_signed(signed=signed, content_length=int(length) if length.isdecimal() else None)
    try:
        while chunk := request.read(_CHUNK):
            growing.write(chunk)
        growing.finish()
    finally:
        growing.discard()
    return HttpResponse(status=200)


def _get(request: HttpRequest, signed: str) -> HttpResponseBase:
    grant = store_requests.find_signed(signed=signed)
    try:
        span = streaming.parse_range(request.headers.get("Range", ""), grant.size_bytes)
    except ValueError:
        return HttpResponse(status=416, headers={"Content-Range": f"bytes */{grant.size_bytes}"})
    first, size = span or (0, grant.size_bytes)
    response = streaming.stream(
        request,
        grant.read(first, size),
        status=200 if span is None else 206,
        content_type="application/octet-stream",
    )
    response["Content-Length"] = str(size)
    response["Accept-Ranges"] = "bytes"
    if span is not None:
        response["Content-Range"] = f"bytes {first}-{first + size - 1}/{grant.size_bytes}"
    return response
