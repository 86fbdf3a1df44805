"""What waiting jobs are told: the stored forecasts, with the names that the reader may see. One query."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import Min

from accounts.permissions import Actor
from compute.engine.outlook import STRANGER, DataState, HeldShare, HolderEnd, Outlook, Place, StoppedJob, in_words
from compute.engine.states import JobState
from compute.models import Job
from core import clock
from scheduler.selectors.forecasts import StoredForecast, find_forecasts

__all__ = ["Outlook", "find_outlook", "find_outlooks", "find_waiting", "read", "read_stops"]

_STRANGERS_JOB = "a job of another project"


def find_outlooks(*, actor: Actor, jobs: Sequence[Job]) -> Mapping[str, Outlook]:
    """Return by id what is known about the waits of these jobs, which the actor may see; others are left out.

    Of a job none of whose parts runs it is the wait of its first part that waits.
    """
    waiting = _find_waiting([job for job in jobs if job.present_state == JobState.PENDING])
    stored = find_forecasts([job.name for job in waiting.values()]) if waiting else {}
    now = clock.now()
    forecasts = {
        pk: read(actor, stored[job.name]) for pk, job in waiting.items() if _is_of_place(stored.get(job.name), job)
    }
    # A job in the queue has its data, also where that arrived since its forecast was made.
    queued = {pk for pk, job in waiting.items() if job.workload_id is not None}
    return {
        pk: in_words(_with_data(outlook) if pk in queued else outlook, now=now) for pk, outlook in forecasts.items()
    }


def _is_of_place(stored: StoredForecast | None, job: Job) -> bool:
    """Return whether there is a forecast of a job for the place where it waits, which it may have moved to since."""
    places = () if stored is None else stored.facts["places"]
    return any(place["is_chosen"] and place["template"] == job.template_name for place in places)


def find_outlook(*, actor: Actor, job: Job) -> Outlook | None:
    """Return what is known about the wait of a job, which the actor may see; None: nothing.

    Of a job that runs as parts it is the wait of the first part that waits.
    """
    waiting = find_waiting(job)
    return None if waiting is None else find_outlooks(actor=actor, jobs=[waiting]).get(waiting.pk)


def find_waiting(job: Job) -> Job | None:
    """Return a job itself, or the first of its parts that waits, if any does."""
    return _find_waiting([job]).get(job.pk)


def _find_waiting(jobs: Sequence[Job]) -> dict[str, Job]:
    """Return by id each of these jobs itself, or the first of its parts that waits; without such a part none."""
    waiting = {job.pk: job for job in jobs if not job.has_parts}
    if len(waiting) < len(jobs):
        parts = Job.objects.filter(part_of__in=[job.pk for job in jobs if job.has_parts], state=JobState.PENDING)
        first = parts.order_by().values("part_of").annotate(first=Min("pk")).values("first")
        waiting |= {part.part_of_id or "": part for part in Job.objects.filter(pk__in=first).defer("spec")}
    return waiting


def _with_data(outlook: Outlook) -> Outlook:
    """Return the outlook of a job whose data is where it waits."""
    places = [
        replace(place, data=replace(place.data, missing_bytes=0, ready_at=None))
        if place.is_chosen and place.data is not None
        else place
        for place in outlook.places
    ]
    return replace(outlook, places=places)


def read(actor: Actor, stored: StoredForecast) -> Outlook:
    """Return a forecast as the actor may read it, without its sentence."""
    facts = dict(stored.facts)
    return Outlook(
        wait_class=facts["wait_class"],
        made_at=stored.made_at,
        likely_at=stored.likely_at,
        late_at=stored.late_at,
        line=facts["line"],
        nodes=facts["nodes"],
        asked=None if facts["asked"] is None else HeldShare(**facts["asked"]),
        asked_milli=facts["asked_milli"],
        holders=[_holder(actor, each) for each in facts["holders"]],
        stops=read_stops(actor, facts["stops"]),
        places=[_place(each) for each in facts["places"]],
        compared=facts.get("compared", 0),
        ending_s=facts.get("ending_s", 0.0),
    )


def _names(actor: Actor, facts: Mapping[str, Any]) -> tuple[str, str]:
    """Return the names of a job and its project as the actor may read them."""
    is_known = actor.level_in(facts["project_id"]) is not None
    return (facts["job"], facts["project"]) if is_known else (_STRANGERS_JOB, STRANGER)


def read_stops(actor: Actor, stops: Sequence[Mapping[str, Any]]) -> list[StoppedJob]:
    """Return jobs that are stopped for another one, with the names that the actor may read."""
    return [
        StoppedJob(*_names(actor, facts), facts["code"], _moment(facts["at"]), facts.get("goes_on", False))
        for facts in stops
    ]


def _holder(actor: Actor, facts: Mapping[str, Any]) -> HolderEnd:
    job, project = _names(actor, facts)
    return HolderEnd(
        job=job,
        project=project,
        gpu_milli=facts["gpu_milli"],
        ends_at=_moment(facts["ends_at"]),
        is_borrowing=facts["is_borrowing"],
        is_ahead=facts["is_ahead"],
        has_priority=facts.get("has_priority", False),
        is_over_quota=facts.get("is_over_quota", False),
    )


def _place(facts: Mapping[str, Any]) -> Place:
    times = {name: _moment(facts[name]) for name in ("starts_at", "late_at", "finishes_at")}
    data = facts["data"]
    if data is not None:
        data = DataState(**{**data, "ready_at": _moment(data["ready_at"])})
    return Place(**{**facts, **times, "data": data})


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
