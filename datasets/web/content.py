"""The bytes of one file, on their way to a browser. Whatever a file holds, it never runs as a part of our pages."""

from urllib.parse import quote

from django.http import HttpResponse, HttpResponseBase

from accounts.web.requests import PageRequest, text
from core.streaming import parse_range, stream
from datasets.selectors import commits, datasets, files
from datasets.services import caches
from datasets.web.paths import read_path, show_path
from datasets.web.previews import is_picture, picture_type


def read_content(request: PageRequest, project: str, name: str) -> HttpResponseBase:
    """Send a file: a plain picture to be shown, when asked for it; anything else only to be saved."""
    dataset = datasets.get_dataset(actor=request.actor, project=project, name=name)
    ref = text(request, "ref") or dataset.default_branch
    commit = commits.get_commit(request.actor, dataset, ref)
    content = files.open_file(request.actor, commit, path=read_path(request, "path"))
    caches.touch_commit(commit.id, f"{request.actor.name} in the browser")
    entry = content.entry
    try:
        span = parse_range(request.headers.get("Range", ""), content.size_bytes)
    except ValueError:
        return HttpResponse(status=416, headers={"Content-Range": f"bytes */{content.size_bytes}"})
    first, size = span or (0, content.size_bytes)
    is_shown = "show" in request.GET and is_picture(entry)
    response = stream(
        request,
        content.read(first, size),
        status=206 if span else 200,
        content_type=(picture_type(entry.path) if is_shown else None) or "application/octet-stream",
    )
    response["Content-Length"] = str(size)
    response["Accept-Ranges"] = "bytes"
    if span:
        response["Content-Range"] = f"bytes {first}-{first + size - 1}/{content.size_bytes}"
    response["Content-Disposition"] = "inline" if is_shown else _attachment(entry.path)
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["X-Content-Type-Options"] = "nosniff"
    # The content of a commit never changes; that of a branch does.
    is_fixed = ref == commit.id
    response["Cache-Control"] = "private, max-age=31536000, immutable" if is_fixed else "private, no-cache"
    return response


def _attachment(path: bytes) -> str:
    name = path.rsplit(b"/", 1)[-1]
    plain = "".join(
        letter if (letter.isascii() and letter.isalnum()) or letter in "._- " else "_" for letter in show_path(name)
    )
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
