"""The queues of deleted projects. They have no quota from the deletion on (`selectors.snapshots.view_queue`).

Their rows and samples stay, so that what a pool and a department consumed is the same afterwards.
"""

from django.db.models import Max

from accounts import project_contents
from accounts.models import Project
from accounts.project_contents import ProjectContents, RemovalWaits, remove_first
from core import clock
from core.units import count_of
from scheduler.engine.states import LIVE
from scheduler.models import Eviction, PastPlacement, PoolSample, Workload
from scheduler.selectors.project_contents import describe


def _stop(_project: Project) -> None:
    """Who runs the jobs withdraws and releases their workloads."""


def _remove(project_id: str) -> bool:
    own = Workload.objects.filter(project=project_id)
    if live := own.filter(state__in=sorted(LIVE)).count():
        raise RemovalWaits(f"It waits for {count_of(live, 'workload')} to release capacity.")
    sampled_until = PoolSample.objects.filter(level=0).aggregate(end=Max("ends_at"))["end"] or clock.now()
    past = PastPlacement.objects.filter(queue__project=project_id)
    if own.filter(released_at__gt=sampled_until).exists() or past.filter(released_at__gt=sampled_until).exists():
        raise RemovalWaits("It waits for the next sample of what it consumed.")
    return remove_first(Eviction.objects.filter(project=project_id), own, past)


project_contents.add(ProjectContents("scheduler", describe, _stop, _remove))
