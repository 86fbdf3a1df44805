"""Cached commits that jobs read are held until the job has ended; here they are released."""

from compute.engine.states import JOB_STATES
from compute.models import Job
from compute.services.submissions import HOLDER
from core import isolation
from datasets.services import caches


def release_data() -> None:
    """Release what ended jobs read."""
    held = {holder.removeprefix(HOLDER) for holder in caches.list_holders(prefix=HOLDER)}
    ended = Job.objects.filter(name__in=held, state__in=sorted(JOB_STATES.final))
    names = sorted(ended.values_list("name", flat=True))
    isolation.for_each("compute.release_data", names, lambda name: caches.release_holds(HOLDER + name))
