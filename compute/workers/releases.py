"""Cached commits that jobs read are held until the job has ended; here they are released.

So are those of a job that was never created, because its submission was interrupted.
"""

from datetime import timedelta
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from accounts.permissions import Actor
from compute.engine.states import JOB_STATES
from compute.models import Job
from compute.services.submissions import HOLDER
from core import clock, isolation
from datasets.selectors import caches as cache_selectors
from datasets.services import caches

_SYSTEM = Actor.system("releases")
_SUBMISSION = timedelta(minutes=5)
"""The longest time from the first hold of a submission to its job."""


def find_held() -> list[QuerySet[Any]]:
    """Return what jobs hold of cached commits."""
    return [cache_selectors.find_holds(prefix=HOLDER)]


def release_data() -> None:
    """Release what ended jobs read."""
    job_ids = {holder.removeprefix(HOLDER) for holder in cache_selectors.list_holders(prefix=HOLDER)}
    jobs = Job.objects.filter(pk__in=job_ids)
    # Parts read what the job holds that they belong to, and may still be stopping.
    live_parts = Job.objects.filter(part_of=OuterRef("pk"), is_live=True)
    over = jobs.filter(~Exists(live_parts), state__in=sorted(JOB_STATES.final))
    ended = set(over.values_list("pk", flat=True))
    settled = cache_selectors.list_holders(prefix=HOLDER, before=clock.now() - _SUBMISSION)
    missing = {holder.removeprefix(HOLDER) for holder in settled} - set(jobs.values_list("pk", flat=True))
    isolation.for_each("compute.release_data", sorted(ended | missing), _release)


def _release(job_id: str) -> None:
    caches.release_holds(actor=_SYSTEM, holder=HOLDER + job_id)
