"""What happened on the clusters: evictions with their receipts, what projects consumed, and idle GPUs."""

from collections.abc import Iterator
from datetime import datetime

from nearline._http import Http
from nearline.models import Consumption, Eviction, EvictionWeek, IdleGpus


class Analytics:
    """The past of the scheduler. You see your own projects; jobs of others have no names."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list_evictions(
        self,
        *,
        job: str | None = None,
        project: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> Iterator[Eviction]:
        """Yield the receipts of evictions, newest first: of one job or project, or within a time."""
        filters = {"job": job, "project": project, "since": _written(since), "until": _written(until)}
        return map(Eviction.read, self._http.list_items("/scheduler/evictions", **filters, limit=limit))

    def list_eviction_weeks(self, *, project: str | None = None) -> Iterator[EvictionWeek]:
        """Yield by project and week how many evictions there were and what they lost, the newest week first."""
        return map(EvictionWeek.read, self._http.list_items("/scheduler/evictions/weeks", project=project))

    def list_consumption(
        self, *, project: str | None = None, since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[Consumption]:
        """Yield what projects consumed in each pool, the most first; without `since`, in the last day."""
        filters = {"project": project, "since": _written(since), "until": _written(until)}
        return map(Consumption.read, self._http.list_items("/scheduler/consumption", **filters, limit=None))

    def list_idle_gpus(self, *, project: str | None = None) -> Iterator[IdleGpus]:
        """Yield who holds GPUs that were not used for ten minutes, the most first, then those that nobody measures."""
        return map(IdleGpus.read, self._http.list_items("/compute/idle-gpus", project=project))


def _written(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
