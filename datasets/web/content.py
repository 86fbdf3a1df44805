"""The bytes of one file, on their way to a browser. Whatever a file holds, it never runs as a part of our pages."""

from urllib.parse import quote

from django.http import HttpResponse, HttpResponseBase

from accounts.web.requests import PageRequest, text
from core.streaming import parse_range, stream
from datasets.selectors import commits, datasets, files, pictures
from datasets.services import caches
from datasets.web.kinds import shown_type
from datasets.web.paths import read_path
from nearline.content.paths import show_path

_SMALL_EDGE, _LARGE_EDGE = 224, 1024


def read_content(request: PageRequest, project: str, name: str) -> HttpResponseBase:
    """Send a file: plain pixels, sounds and films to be shown, when asked for; anything else only to be saved."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    ref = text(request, "ref") or dataset.default_branch
    commit = commits.get_commit(request.actor, dataset, ref)
    content = files.open_file(request.actor, commit, path=read_path(request, "path"))
    caches.touch_commit(actor=request.actor, commit=commit)
    entry = content.entry
    try:
        span = parse_range(request.headers.get("Range", ""), content.size_bytes)
    except ValueError:
        return HttpResponse(status=416, headers={"Content-Range": f"bytes */{content.size_bytes}"})
    first, size = span or (0, content.size_bytes)
    kind = shown_type(entry) if "show" in request.GET else None
    response = stream(
        request,
        content.read(first, size),
        status=206 if span else 200,
        content_type=kind or "application/octet-stream",
    )
    response["Content-Length"] = str(size)
    response["Accept-Ranges"] = "bytes"
    if span:
        response["Content-Range"] = f"bytes {first}-{first + size - 1}/{content.size_bytes}"
    response["Content-Disposition"] = "inline" if kind else _attachment(entry.path)
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["X-Content-Type-Options"] = "nosniff"
    # The content of a commit never changes; that of a branch does.
    is_fixed = ref == commit.id
    response["Cache-Control"] = "private, max-age=31536000, immutable" if is_fixed else "private, no-cache"
    return response


def read_thumbnail(request: PageRequest, project: str, name: str) -> HttpResponse:
    """Send a small picture of a file, made by us; 204 when it is no picture: pages then say that none can be shown."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    ref = text(request, "ref") or dataset.default_branch
    commit = commits.get_commit(request.actor, dataset, ref)
    edge = _LARGE_EDGE if "large" in request.GET else _SMALL_EDGE
    small = pictures.get_thumbnail(request.actor, commit, path=read_path(request, "path"), edge=edge)
    response = HttpResponse(small or b"", status=200 if small else 204, content_type="image/webp")
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, max-age=31536000, immutable" if ref == commit.id else "private, no-cache"
    return response


def _attachment(path: bytes) -> str:
    name = path.rsplit(b"/", 1)[-1]
    plain = "".join(
        letter if (letter.isascii() and letter.isalnum()) or letter in "._- " else "_" for letter in show_path(name)
    )
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
