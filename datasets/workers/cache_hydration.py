"""The work behind a cached commit: take the row up, plan, fill a staging folder, publish it in one step.

May be called at any time, any number of times and by many at once: the lease lets one of them work. Dying at any point
leaves a row whose lease expires and a staging folder from which the next worker goes on.
"""

import math
from collections.abc import Iterator, Sequence

import structlog
from django.db import transaction

from accounts.actor import Actor
from core import clock, isolation, leases
from core.errors import PlatformError
from core.tasks import enqueue, enqueue_reliably
from core.units import format_bytes
from datasets.adapters.hydration import hydrate
from datasets.adapters.opening import open_dataset_store
from datasets.adapters.sites.registry import open_volume
from datasets.engine.cache_ports import CopyFolder, Staging
from datasets.engine.cache_states import UNFINISHED, WORKING, CacheState
from datasets.engine.hydration_plan import HydrationPlan
from datasets.errors import HydrationStopped, StagingLost
from datasets.models import CachedCommit, CachedCommitEventKind
from datasets.selectors import cache_plans, caches, failures
from datasets.selectors.trees import TreeReader
from datasets.services import cache_space, damage
from datasets.services.cache_events import change_state, record
from datasets.workers import cache_leases
from datasets.workers.cache_leases import Heartbeat
from nearline.content.manifest import Entry
from nearline.content.retry import Waiting
from nearline.hydrate.ports import HydrationProgress

log = structlog.get_logger(__name__)

# So often may workers take a copy up without getting any further before it counts as failed.
_MAX_ATTEMPTS = 10
_LONGEST_REASON = 300


def hydrate_each(ids: Sequence[str]) -> None:
    """Bring these cached commits as far as possible. One that fails stops none of the others."""
    isolation.for_each(failures.HYDRATE, ids, lambda id_: hydrate_cached_commit(cached_commit_id=id_))


def hydrate_cached_commit(*, cached_commit_id: str) -> None:
    """Bring a cached commit as far as possible: to ready, to failed with a reason, or nowhere if another is at it."""
    row = _claim(cached_commit_id)
    if row is None:
        return
    try:
        with Heartbeat(row, states=WORKING) as heartbeat:
            _Hydration(row, heartbeat).run()
    except (StagingLost, HydrationStopped):
        log.info("cache.hydration_left", cached_commit_id=row.pk)
    except PlatformError as error:
        damage.record_failure(row.dataset, error)
        _fail(row, error)
    finally:
        # Whatever went wrong, a database that was busy for too long say, the next worker need not wait for the expiry.
        leases.release(CachedCommit.objects.filter(pk=row.pk), row.lease_token)
        _ring_next(row)


def reap(*, limit: int = 100) -> int:
    """Ring for every copy that wants work and has no worker, dead ones' included; return how many there are."""
    now = clock.now()
    rows = CachedCommit.objects.filter(state__in=[*UNFINISHED, CacheState.EVICTING]).filter(leases.is_free(now))
    found = list(rows.order_by("pk").values_list("pk", "state")[:limit])
    for id_, state in found:
        if state == CacheState.EVICTING:
            enqueue_reliably("datasets.evict", cached_commit_id=id_)
        else:
            enqueue_reliably("datasets.hydrate", cached_commit_id=id_)
    wanted = CachedCommit.objects.filter(state=CacheState.READY, scrub_requested_at__isnull=False)
    for id_ in wanted.order_by("pk").values_list("pk", flat=True)[:limit]:
        enqueue_reliably("datasets.scrub", cached_commit_id=id_)
    return len(found)


@transaction.atomic
def _claim(cached_commit_id: str) -> CachedCommit | None:
    """Take the lease, if the row wants work, nobody has it, and nothing must come first."""
    found = CachedCommit.objects.filter(pk=cached_commit_id, state__in=UNFINISHED).values("site_id").first()
    if found is None:
        return None
    site = cache_space.lock_site(found["site_id"])
    rows = CachedCommit.objects.select_for_update(of=("self",))
    row = rows.select_related("site", "commit", "dataset__project", "dataset__store").get(pk=cached_commit_id)
    now = clock.now()
    if row.state not in UNFINISHED or row.is_leased_at(now):
        return None
    row.site = site
    reason = _find_reason_to_wait(row)
    if reason:
        CachedCommit.objects.filter(pk=row.pk).update(waits_for=reason)
        return None
    if row.attempts >= _MAX_ATTEMPTS:
        _give_up(row)
        return None
    row.lease_token, row.lease_expires_at = leases.new_token(), cache_leases.expiry(now)
    row.attempts, row.waits_for, row.rate_bytes_s = row.attempts + 1, "", None
    row.save(update_fields=["lease_token", "lease_expires_at", "attempts", "waits_for", "rate_bytes_s"])
    if row.state in WORKING:
        record(row, CachedCommitEventKind.TAKEN_OVER, "Its worker was lost; another goes on.")
    if row.state != CacheState.PROVISIONING:
        change_state(row, CacheState.PROVISIONING)
    return row


def _find_reason_to_wait(row: CachedCommit) -> str:
    """Return what must come first; empty when nothing does."""
    others = CachedCommit.objects.filter(site=row.site).exclude(pk=row.pk)
    if others.filter(commit=row.commit, state=CacheState.EVICTING).exists():
        return "the removal of an older copy of this commit"
    # Two copies of one dataset made at the same time could share nothing.
    busy = others.filter(dataset=row.dataset, state__in=WORKING, lease_expires_at__gt=clock.now()).first()
    if busy is not None:
        return f"the caching of {busy.commit_id[:8]}, with which it shares files"
    promised = caches.measure_capacity(row.site).committed_bytes
    if promised > row.site.capacity_bytes and others.filter(state=CacheState.EVICTING).exists():
        return "space that is being freed"
    return ""


def _give_up(row: CachedCommit) -> None:
    change_state(
        row,
        CacheState.FAILED,
        message="Given up.",
        error_code="datasets.cache_given_up",
        error=f"{row.attempts} workers in a row died while caching this commit, without getting any further.",
        error_hint="Look into the log of the workers (often it is memory), then ask for the commit again.",
        lease_token="",
        lease_expires_at=None,
    )


class _Hydration:
    """One worker's attempt at one copy."""

    def __init__(self, row: CachedCommit, heartbeat: Heartbeat) -> None:
        self._row = row
        self._heartbeat = heartbeat
        self._reader = TreeReader(row.dataset)
        self._shared_files = 0
        self._shared_bytes = 0
        self._fetched = HydrationProgress()
        self._waits_for = ""
        self._moved_before = row.bytes_moved

    def run(self) -> None:
        """Plan, fill, publish, finish."""
        row = self._row
        volume = open_volume(row.site)
        plan = cache_plans.plan_hydration(row.commit, row.site)
        self._begin(plan)
        staging = volume.stage(row.pk, row.lease_token)
        if not volume.is_published(row.location, row.pk):
            self._fill(plan, staging)
        self._heartbeat.confirm()
        staging.publish(row.location, files=row.files_total)
        self._finish(volume)

    @transaction.atomic
    def _begin(self, plan: HydrationPlan) -> None:
        """Make the promise fit the plan, now that it is exact."""
        row = self._row
        site = cache_space.lock_site(row.site_id)
        if plan.write_bytes > row.reserved_bytes:
            label = caches.label_of(row)
            room = cache_space.plan_room(
                site,
                need_bytes=plan.write_bytes,
                usable=site.capacity_bytes,
                keep=[plan.base_id] if plan.base_id else [],
                extending=row.pk,
            )
            if not room.is_sufficient:
                raise cache_space.explain_full(Actor.system("caching"), site, room, wanted_for=label)
            cache_space.make_room(room, wanted_for=label)
        is_ours = change_state(
            row,
            CacheState.HYDRATING,
            token=row.lease_token,
            message=_describe(plan),
            base_id=plan.base_id,
            reserved_bytes=plan.write_bytes,
            files_total=plan.files,
            bytes_total=plan.size_bytes,
        )
        if not is_ours:
            raise StagingLost("Another worker has taken this copy over, or nobody wants it any more.")

    def _fill(self, plan: HydrationPlan, staging: Staging) -> None:
        base = CachedCommit.objects.filter(pk=plan.base_id).first() if plan.base_id else None
        hydrate(
            open_dataset_store(self._row.dataset),
            self._share_or_pass_on(plan, staging, base.location if base else ""),
            staging.folder,
            keep_existing=True,
            on_progress=self._note_fetched,
            on_wait=self._note_waiting,
            should_stop=lambda: self._heartbeat.is_lost,
        )
        self._report()

    def _share_or_pass_on(self, plan: HydrationPlan, staging: Staging, base: str) -> Iterator[Entry]:
        """Share every entry that the base has, and yield the others, which the store must give."""
        for entry in self._reader.list_entries(self._row.commit.root):
            base_path = plan.find_in_base(entry)
            if base_path is not None and staging.share(entry, base=base, base_path=base_path):
                self._shared_files += 1
                self._shared_bytes += entry.size
                if self._shared_files % 256 == 0:
                    self._report()
                    if self._heartbeat.is_lost:
                        raise StagingLost("Another worker has taken this copy over, or nobody wants it any more.")
            else:
                yield entry

    def _note_fetched(self, progress: HydrationProgress) -> None:
        self._fetched, self._waits_for = progress, ""
        self._report()

    def _note_waiting(self, waiting: Waiting) -> None:
        minutes = math.ceil(waiting.left_s / 60)
        self._waits_for = f"the store, for {minutes} min more at most: {waiting.reason}"[:_LONGEST_REASON]
        self._report()

    def _report(self) -> None:
        fetched = self._fetched
        self._heartbeat.report(
            files_done=self._shared_files + fetched.files,
            bytes_done=self._shared_bytes + fetched.size_bytes,
            bytes_shared=self._shared_bytes,
            bytes_moved=self._moved_before + fetched.bytes_moved,
            waits_for=self._waits_for,
        )

    @transaction.atomic
    def _finish(self, volume: CopyFolder) -> None:
        row = self._row
        now = clock.now()
        # A predecessor that published and died has counted what it shared; then this attempt shared nothing itself.
        shared = self._shared_bytes or row.bytes_shared
        is_ours = change_state(
            row,
            CacheState.READY,
            token=row.lease_token,
            files_done=row.files_total,
            bytes_done=row.bytes_total,
            bytes_shared=shared,
            bytes_moved=self._moved_before + self._fetched.bytes_moved,
            reserved_bytes=row.bytes_total - shared,
            ready_at=now,
            last_used_at=now,
            scrubbed_at=now,
            settled_ns=volume.now_ns(),
            waits_for="",
            lease_token="",
            lease_expires_at=None,
            rate_bytes_s=None,
        )
        if not is_ours:
            raise StagingLost("Another worker has taken this copy over, or nobody wants it any more.")


def _describe(plan: HydrationPlan) -> str:
    if plan.base_id is None:
        return f"{plan.files} files, {format_bytes(plan.size_bytes)} to be read from the store."
    moved, shared = format_bytes(plan.write_bytes), format_bytes(plan.shared_bytes)
    return f"{plan.files} files: {moved} to be read from the store, {shared} shared with an older copy."


def _fail(row: CachedCommit, error: PlatformError) -> None:
    """Note why it failed. What is done stays in staging, charged to the row, for when someone asks again."""
    fresh = CachedCommit.objects.get(pk=row.pk)
    change_state(
        row,
        CacheState.FAILED,
        token=row.lease_token,
        message=error.message,
        error_code=error.code,
        error=error.message,
        error_hint=error.hint,
        reserved_bytes=caches.bytes_on_disk(fresh),
        waits_for="",
        lease_token="",
        lease_expires_at=None,
        rate_bytes_s=None,
    )


def _ring_next(row: CachedCommit) -> None:
    """Ring for the copies that waited for this one; the tick would find them a little later."""
    waiting = CachedCommit.objects.filter(site_id=row.site_id, dataset_id=row.dataset_id, state=CacheState.QUEUED)
    for id_ in waiting.order_by("pk").values_list("pk", flat=True)[:10]:
        enqueue("datasets.hydrate", cached_commit_id=id_)
