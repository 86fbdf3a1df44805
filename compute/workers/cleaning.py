"""Files of jobs that ended long ago are deleted, trees on this host that no job uses, and what jobs left that are gone.

So are, before their time, those that keep the volume of a cached commit from going.

The jobs' rows, events and what flows collected from them stay.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from accounts.models import Project
from compute import signals
from compute.adapters import drivers
from compute.adapters.local.kind import open_tree_folders
from compute.engine.job_spec import JobSpec, Tree
from compute.engine.ports import ComputeDriver, KeepsCheckpoints, KeepsLeftovers, SharesVolumes
from compute.engine.states import JOB_STATES
from compute.errors import ResourceUnreachable
from compute.models import Checkpoint, Job, JobVolume, Resource
from compute.selectors import failures
from core import clock, hosts, isolation, orm
from datasets.selectors import caches

log = structlog.get_logger(__name__)

KEEP_TREES = timedelta(days=2)
_AT_ONCE = 1000


def delete_old_files(*, keep: timedelta | None = None) -> int:
    """Delete the files of jobs that ended longer ago than `keep` and that nobody needs any more; return how many.

    None: as long as the kind of their resource keeps them. One whose log is not in the store yet stays. Those of jobs
    that were deleted, and of a project that was deleted for good, go at once.
    """
    return sum(_delete_of_kind(kind.name, kind.keep_ended if keep is None else keep) for kind in drivers.KINDS.values())


def _delete_of_kind(kind: str, keep: timedelta) -> int:
    now = clock.now()
    ended = _list_ended([kind])
    old = ended.filter(finished_at__lt=now - keep, log_stored_at__isnull=False)
    # Queries of their own, as no index answers for both, and mostly no project is deleted.
    projects = list(Project.objects.filter(deleted_at__isnull=False, restore_ends_at=None, removed_at=None))
    purged = ended.filter(purged_at__isnull=False).order_by("pk")  # by which its index is
    due = [old, purged, *([ended.filter(project__in=projects)] if projects else [])]
    return _delete_each((job_id for jobs in due for job_id in jobs.values_list("pk", flat=True)), now, keep)


def _list_ended(kinds: Collection[str]) -> QuerySet[Job]:
    """Return the ended jobs on resources of this host whose files are there."""
    ended = Job.objects.filter(state__in=sorted(JOB_STATES.final), files_deleted_at=None)
    return ended.filter(resource__kind__in=kinds, resource__host__in=hosts.here()).order_by("finished_at", "pk")


def _delete_each(job_ids: Iterable[str], now: datetime, keep: timedelta) -> int:
    """Delete the files of these jobs that nobody has needed for so long; return of how many."""
    count = 0

    def delete(job_id: str) -> None:
        nonlocal count
        if count < _AT_ONCE and _take(job_id, now, keep):
            count += _delete(job_id)

    ids = dict.fromkeys(job_ids)
    isolation.for_each("compute.delete_files", ids, delete, on_failure=lambda job_id, _: _keep(job_id))
    return count


def find_leaving() -> list[QuerySet[Any]]:
    """Return what leaves volumes that jobs may have read."""
    return [caches.find_leaving_volumes()]


def release_volumes() -> int:
    """Delete the files of ended jobs that keep volumes from going; return of how many.

    A cluster lets go of no claim that a pod names, though it has ended.
    """
    claims = caches.list_leaving_claims()
    if not claims:
        return 0
    kinds = [kind.name for kind in drivers.KINDS.values() if kind.runs_pods]
    readers = _list_ended(kinds).filter(log_stored_at__isnull=False)
    ids = (
        job_id
        for batch in orm.in_batches(sorted(claims))
        for job_id in readers.filter(mounted_volumes__claim__in=batch).values_list("pk", flat=True)
    )
    count = _delete_each(ids, clock.now(), timedelta(0))
    attached = Resource.objects.filter(detached_at=None, kind__in=kinds, host__in=hosts.here())
    isolation.for_each(
        failures.RELEASE,
        attached.order_by("pk"),
        lambda resource: _delete_idle_shares(drivers.driver_of(resource), claims),
    )
    return count


def _delete_idle_shares(driver: ComputeDriver, leaving: Collection[str] = ()) -> None:
    if isinstance(driver, SharesVolumes):
        with suppress(ResourceUnreachable):
            driver.delete_idle_shares(leaving)


def delete_orphans() -> int:
    """Delete what resources of this host keep of runs whose job is gone or was cleaned before; return how many.

    One that still runs is stopped by the next poll of its resource, and deleted afterwards.
    """
    attached = Resource.objects.filter(detached_at=None, host__in=hosts.here())
    return sum(isolation.for_each(failures.CLEAN, attached.order_by("pk"), _delete_orphans_of))


def _delete_orphans_of(resource: Resource) -> int:
    driver = drivers.driver_of(resource)
    if isinstance(driver, KeepsCheckpoints):
        _delete_stray_checkpoints(driver)
    _delete_idle_shares(driver)
    if not isinstance(driver, KeepsLeftovers):
        return 0
    try:
        leftovers = driver.list_leftovers()
        live_names = {
            job_id
            for batch in orm.in_batches(sorted(leftovers))
            for job_id in Job.objects.filter(pk__in=batch, files_deleted_at=None).values_list("pk", flat=True)
        }
        names = sorted(name for job_id in leftovers.keys() - live_names for name in leftovers[job_id])
        done = isolation.for_each("compute.delete_orphan", names, driver.delete, concerns_all=(ResourceUnreachable,))
    except ResourceUnreachable:
        return 0  # they are deleted once it answers
    if done:
        log.info("orphans.deleted", resource=resource.name, runs=names)
    return len(done)


def _delete_stray_checkpoints(driver: KeepsCheckpoints) -> None:
    """Delete the checkpoint folders of projects that were deleted, and copies that a chain of jobs left behind."""
    with suppress(ResourceUnreachable):
        names = set(driver.list_checkpoints())
        present = Checkpoint.objects.filter(deleted_at=None)
        needed = {
            pk
            for batch in orm.in_batches(sorted(names))
            for pk in present.filter(pk__in=batch).values_list("pk", flat=True)
        }
        isolation.for_each(
            failures.DELETE_CHECKPOINT,
            sorted(names - needed),
            driver.delete_checkpoint,
            concerns_all=(ResourceUnreachable,),
        )


def delete_idle_trees(*, keep: timedelta = KEEP_TREES) -> int:
    """Delete the folders of trees on this host that no live job reads and nobody used for so long; return how many."""
    specs = Job.objects.filter(is_live=True).values_list("spec", flat=True).iterator()
    mounts = (mount for spec in specs for mount in JobSpec.from_json(spec).mounts)
    used = {mount.source.root for mount in mounts if isinstance(mount.source, Tree)}
    folders = open_tree_folders(Path(settings.NEARLINE.home))

    def delete(root: str) -> bool:
        return folders.delete_idle(root, idle_s=keep.total_seconds())

    roots = [root for root in folders.list_roots() if root not in used]
    return sum(isolation.for_each("compute.delete_tree", roots, delete))


@transaction.atomic
def _take(job_id: str, now: datetime, keep: timedelta) -> bool:
    """Note that the files are gone, unless somebody needs them: from then on nobody begins to rely on them."""
    answers = signals.files_due.send(sender=None, job_id=job_id, unused_since=now - keep)
    if any(is_needed for _, is_needed in answers):
        return False
    return bool(Job.objects.filter(pk=job_id, files_deleted_at=None).update(files_deleted_at=now))


def _keep(job_id: str) -> None:
    """Note that the files are there still."""
    Job.objects.filter(pk=job_id).update(files_deleted_at=None)


def _delete(job_id: str) -> bool:
    job = Job.objects.select_related("resource").defer("spec").get(pk=job_id)
    try:
        driver = drivers.driver_of(job.resource)
        for name in job.run_names:
            driver.forget(name)
            driver.delete(name)
    except ResourceUnreachable:
        # They are there still, and are deleted once their resource answers.
        _keep(job_id)
        return False
    JobVolume.objects.filter(job=job).delete()
    return True
