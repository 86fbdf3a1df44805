"""Jobs on a resource that was detached while they were submitted, or moved there: they end, as nothing runs there.

Two transactions do not see each other's rows, so detaching may count no job, and a submission find its template.
"""

from django.db import transaction
from django.db.models import QuerySet

from compute.models import Job, Resource
from compute.selectors import failures
from compute.services import losses
from core import clock, isolation


def find_stranded() -> list[QuerySet[Job]]:
    """Return the jobs that have not ended on resources that are detached."""
    return [Job.objects.filter(is_live=True, resource__detached_at__isnull=False)]


def end_stranded() -> None:
    """Fail the jobs that wait where nothing will start."""
    (stranded,) = find_stranded()
    resources = Resource.objects.filter(pk__in=stranded.values("resource")).order_by("pk")
    isolation.for_each(failures.STRANDED, list(resources), _end)


@transaction.atomic
def _end(resource: Resource) -> None:
    (stranded,) = find_stranded()
    losses.end_jobs(stranded.filter(resource=resource), f"{resource.name} was detached.", clock.now())
