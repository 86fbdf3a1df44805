"""The log of a job: parts of it as JSON for `<log-view>`, places of a text in it, and the whole of it as a file."""

import re
from collections.abc import Iterator

from django.http import HttpResponse, HttpResponseBase, JsonResponse

from accounts.web.requests import PageRequest, text
from compute.models import Job
from compute.selectors import jobs, logs, stored_logs
from core.errors import InvalidInput
from core.streaming import stream

_PART_BYTES = 128 * 1024


def read_log(request: PageRequest, name: str) -> HttpResponse:
    """Answer with what follows the byte `offset`, or with the lines before the byte `before`; else with the last."""
    job = jobs.get_job(actor=request.actor, name=name)
    offset = _number(request, "offset")
    part = (
        logs.read_before(actor=request.actor, job=job, before=_number(request, "before"), limit=_PART_BYTES)
        if offset is None
        else logs.read_part(actor=request.actor, job=job, offset=offset, limit=_PART_BYTES)
    )
    return JsonResponse(
        {
            "offset": part.offset,
            "text": part.text.text,
            "next_offset": part.text.next_offset,
            "size_bytes": part.text.size_bytes,
            "is_complete": part.text.is_complete,
            "stored_at": stored_logs.stored_at(job),
        }
    )


def find_in_log(request: PageRequest, name: str) -> HttpResponse:
    """Answer with the places at which `text` occurs."""
    job = jobs.get_job(actor=request.actor, name=name)
    matches = logs.find_in_log(actor=request.actor, job=job, text=request.GET.get("text", ""))
    return JsonResponse({"count": matches.count, "offsets": matches.offsets})


def download_log(request: PageRequest, name: str) -> HttpResponseBase:
    """Send the whole log so far as a file."""
    job = jobs.get_job(actor=request.actor, name=name)
    response = stream(request, _whole_log(request, job), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{_file_name(job.label)}.log"'
    return response


def _file_name(label: str) -> str:
    """Return a label as a file name that every system takes: `digits-7-train-C=10`."""
    return re.sub(r"[^A-Za-z0-9._=-]+", "-", label).strip("-.")


def _whole_log(request: PageRequest, job: Job) -> Iterator[bytes]:
    offset = 0
    while (chunk := jobs.read_log(actor=request.actor, job=job, offset=offset)).data:
        yield chunk.data
        offset = chunk.next_offset


def _number(request: PageRequest, name: str) -> int | None:
    value = text(request, name)
    if value is not None and not value.isdecimal():
        raise InvalidInput(f"'{name}' must be a number of bytes.")
    return None if value is None else int(value)
