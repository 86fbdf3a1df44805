"""Cheap stamps of jobs, for pages that wait for a change. They tell nothing but that there was one."""

from collections.abc import Collection, Mapping

from django.db.models import Max

from compute.models import Job, JobEvent


def stamp_of_all_jobs() -> str:
    """Return a stamp that is another one whenever any job changed its state."""
    return str(JobEvent.objects.aggregate(newest=Max("pk"))["newest"])


def stamps_of_jobs(names: Collection[str]) -> Mapping[str, str]:
    """Return for each of these jobs a stamp that is another one whenever it, or a replica of it, changed its state.

    The same when it has saved a checkpoint, and when the progress of its parts changed.
    """
    columns = ("name", "event_seq", "checkpoint__saved_at", "parts_running", "replicas")
    rows = Job.objects.filter(name__in=names).values_list(*columns)
    return {
        name: " ".join([str(seq), str(saved_at), str(parts), *(str(each.get("state")) for each in gang)])
        for name, seq, saved_at, parts, gang in rows
    }
