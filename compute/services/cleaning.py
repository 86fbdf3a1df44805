"""Files of jobs that ended long ago are deleted. Their rows, events and what flows collected from them stay."""

from datetime import timedelta

from compute.adapters import drivers
from compute.engine.states import JOB_STATES
from compute.errors import ResourceUnreachable
from compute.models import Job
from core import clock

KEEP = timedelta(days=14)
_AT_ONCE = 1000


def delete_old_files(*, keep: timedelta = KEEP) -> int:
    """Delete the folders of jobs that ended longer ago than `keep`; return how many. Repeat it for the rest."""
    now = clock.now()
    ended = Job.objects.filter(state__in=sorted(JOB_STATES.final), finished_at__lt=now - keep, files_deleted_at=None)
    deleted = []
    for job in ended.select_related("resource").defer("spec").order_by("pk")[:_AT_ONCE]:
        try:
            driver = drivers.driver_of(job.resource)
            driver.forget(job.name)
            driver.delete(job.name)
        except ResourceUnreachable:
            continue
        deleted.append(job.pk)
    Job.objects.filter(pk__in=deleted).update(files_deleted_at=now)
    return len(deleted)
