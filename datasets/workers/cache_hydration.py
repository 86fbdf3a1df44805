"""The work behind a cached commit: take the row up, plan, and have the site's driver bring the copy to ready.

May be called at any time, any number of times and by many at once: the lease lets one of them work. Dying at any point
leaves a row whose lease expires and a copy with which the driver goes on. A site that works alone is asked again, by
the tick, until its copy is ready.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path

import structlog
from django.db import transaction
from django.db.models import QuerySet

from accounts.permissions import Actor
from core import clock, hosts, isolation, leases
from core.errors import PlatformError
from core.tasks import enqueue, enqueue_on_commit, enqueue_reliably
from core.units import count_of, format_bytes
from datasets.adapters.hydration import hydrate, make_retry_policy
from datasets.adapters.opening import open_dataset_store
from datasets.adapters.sites.registry import get_kind, open_site
from datasets.engine.cache_ports import (
    CacheSiteDriver,
    CloneBase,
    CopyProgress,
    CopyRequest,
    Donor,
    Fetched,
    StopsFilling,
)
from datasets.engine.cache_states import UNFINISHED, WORKING, CacheState
from datasets.engine.hydration_plan import HydrationPlan
from datasets.errors import CacheSiteAway, HydrationStopped, StagingLost
from datasets.models import CachedCommit, CachedCommitEventKind, CacheSite, CacheSiteKind
from datasets.selectors import cache_plans, caches, failures
from datasets.selectors.trees import TreeReader
from datasets.services import cache_rows, packs
from datasets.services.cache_rows import change_state, record, tell_changed
from datasets.workers import cache_leases, site_checks
from datasets.workers.cache_leases import Columns, Heartbeat
from nearline.content.manifest import Entry
from nearline.content.retry import Waiting
from nearline.hydrate.ports import HydrationProgress

log = structlog.get_logger(__name__)

# So often may workers take a copy up without getting any further before it counts as failed.
_MAX_ATTEMPTS = 10
_HELD_UP_AT_ONCE = 10
_FOLLOWERS = 50
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
        with Heartbeat(row, states=WORKING, on_begun=lambda: tell_changed(row)) as heartbeat:
            _Hydration(row, heartbeat).run()
    except (StagingLost, HydrationStopped):
        log.info("cache.hydration_left", cached_commit_id=row.pk)
    except PlatformError as error:
        if absence := _find_absence(row.site):
            _pause(row, message=absence, waits_for=_site_awaited(absence), token=row.lease_token)
        else:
            packs.record_failure(row.dataset, error)
            _fail(row, error)
    finally:
        # Whatever went wrong, a database that was busy for too long say, the next worker need not wait for the expiry.
        leases.release(CachedCommit.objects.filter(pk=row.pk), row.lease_token)
        if not (row.state == CacheState.HYDRATING and get_kind(row.site.kind).works_alone):
            _enqueue_next(row)


def find_unattended() -> list[QuerySet[CachedCommit]]:
    """Return the copies of this host that need work and have no worker, and those that somebody wants scrubbed."""
    ours = CachedCommit.objects.filter(site__host__in=hosts.here())
    unfinished = ours.filter(state__in=[*UNFINISHED, CacheState.EVICTING])
    to_scrub = ours.filter(state=CacheState.READY, scrub_requested_at__isnull=False)
    now = clock.now()
    return [unfinished.filter(leases.is_free(now, leases.latest_end(now))), to_scrub]


def reap(*, limit: int = 100) -> int:
    """Enqueue copies that need work and have no worker, dead ones' included; return how many.

    Copies that wait for something come after the others: the oldest, and some by chance, so that each has its turn.
    Removals that others hold up are few at a time, all by chance: they must leave time for all other copies.
    """
    unfinished, to_scrub = find_unattended()
    evicting = unfinished.filter(state=CacheState.EVICTING)
    rest = unfinished.exclude(state=CacheState.EVICTING)
    waiting = rest.exclude(waits_for="")
    orders = (rest.filter(waits_for="").order_by("pk"), waiting.order_by("pk"), waiting.order_by("?"))
    held_up = isolation.take(failures.REMOVE, evicting.exclude(waits_for="").order_by("?"), _HELD_UP_AT_ONCE)
    to_evict = {
        row.pk
        for row in [*isolation.take(failures.REMOVE, evicting.filter(waits_for="").order_by("pk"), limit), *held_up]
    }
    to_hydrate = {row.pk for rows in orders for row in isolation.take(failures.HYDRATE, rows, limit)}
    due_scrubs = {row.pk for row in isolation.take(failures.SCRUB, to_scrub.order_by("pk"), limit)}
    for id_ in sorted(to_evict):
        enqueue_reliably("datasets.evict", cached_commit_id=id_)
    for id_ in sorted(to_hydrate):
        enqueue_reliably("datasets.hydrate", cached_commit_id=id_)
    for id_ in sorted(due_scrubs):
        enqueue_reliably("datasets.scrub", cached_commit_id=id_)
    return len(to_evict) + len(to_hydrate) + len(due_scrubs)


@transaction.atomic
def _claim(cached_commit_id: str) -> CachedCommit | None:
    """Take the lease, if the row wants work of this host, nobody has it, and nothing must come first."""
    ours = CachedCommit.objects.filter(pk=cached_commit_id, site__host__in=hosts.here())
    unfinished = ours.filter(state__in=UNFINISHED).values("site_id").first()
    if unfinished is None:
        return None
    site = cache_rows.lock_site(unfinished["site_id"])
    rows = CachedCommit.objects.select_for_update(of=("self",))
    row = rows.select_related("site", "commit", "dataset__project", "dataset__store").get(pk=cached_commit_id)
    now = clock.now()
    if row.state not in UNFINISHED or row.is_leased_at(now):
        return None
    row.site = site
    is_ahead = ours.filter(caches.only_ahead()).exists()
    if not is_ahead:
        _pause_others_ahead(row)
    reason = _site_awaited(_absence_of(site)) or (_find_need(row) if is_ahead else "")
    reason = reason or _find_reason_to_wait(row) or _find_leader(row)
    if reason:
        CachedCommit.objects.filter(pk=row.pk).update(waits_for=reason)
        return None
    if row.attempts >= _MAX_ATTEMPTS:
        _give_up(row)
        return None
    row.lease_token, row.lease_expires_at = leases.new_token(), cache_leases.expiry(now)
    row.attempts, row.waits_for, row.rate_bytes_s = row.attempts + 1, "", None
    row.save(update_fields=["lease_token", "lease_expires_at", "attempts", "waits_for", "rate_bytes_s"])
    if row.state == CacheState.HYDRATING and get_kind(site.kind).works_alone:
        return row
    if row.state in WORKING:
        record(row, CachedCommitEventKind.TAKEN_OVER, "Its worker was lost; another goes on.")
    if row.state != CacheState.PROVISIONING:
        change_state(row, CacheState.PROVISIONING)
    return row


def _pause_others_ahead(row: CachedCommit) -> None:
    """Have the copies of a site that are made for what may be read next make way for one that is needed now."""
    kind = get_kind(row.site.kind)
    if not kind.pauses:
        return
    ahead = CachedCommit.objects.filter(caches.only_ahead(), site=row.site, state__in=WORKING).exclude(pk=row.pk)
    for other in ahead.order_by("pk"):
        if kind.stops_by_call:  # who has its lease stops it: see `_Hydration._makes_way`
            enqueue_on_commit("datasets.hydrate", cached_commit_id=other.pk)
        else:
            _pause(other, message=_makes_way_for(row), waits_for=_needed_now(row.site))


def _pause(row: CachedCommit, *, message: str, waits_for: str, token: str | None = None) -> bool:
    """Have a copy wait; say whether that was possible, with a `token` only under it."""
    return change_state(
        row,
        CacheState.QUEUED,
        token=token,
        message=message,
        waits_for=waits_for,
        paused_at=row.paused_at or clock.now(),
        lease_token="",
        lease_expires_at=None,
        rate_bytes_s=None,
        attempts=0,
    )


def _makes_way_for(needed: CachedCommit) -> str:
    return f"Makes way for {caches.label_of(needed)}, which is needed now."


def _needed_now(site: CacheSite) -> str:
    return f"the copies that are needed on {site.name} now"


def _list_needed(site: CacheSite) -> QuerySet[CachedCommit]:
    """Return what is needed now on a site and goes before what may be read next."""
    rows = CachedCommit.objects.filter(site=site, state__in=UNFINISHED).exclude(caches.only_ahead())
    return rows.select_related("dataset__project").order_by("pk")


def _find_need(row: CachedCommit) -> str:
    """Return what is needed now and goes before a copy for what may be read next; empty when nothing does."""
    return _needed_now(row.site) if row.state not in WORKING and _list_needed(row.site).exists() else ""


def _find_reason_to_wait(row: CachedCommit) -> str:
    """Return what must come first; empty when nothing does."""
    others = CachedCommit.objects.filter(site=row.site).exclude(pk=row.pk)
    kind = get_kind(row.site.kind)
    if kind.works_alone and row.state == CacheState.HYDRATING:
        return ""
    if others.filter(commit=row.commit, state=CacheState.EVICTING).exists():
        return "the removal of an older copy of this commit"
    # Two copies of one dataset made at the same time could share nothing.
    busy = others.filter(dataset=row.dataset, state__in=WORKING, lease_expires_at__gt=clock.now()).first()
    if busy is not None:
        return f"the caching of {busy.commit_id[:8]}, with which it shares files"
    if kind.parallel_copies is not None and others.filter(state__in=WORKING).count() >= kind.parallel_copies:
        return f"the copies that {row.site.name} fills before it"
    capacity = caches.measure_capacity(row.site)
    is_full = capacity.committed_bytes > capacity.total_bytes
    if (is_full or capacity.has_too_many_volumes) and others.filter(state=CacheState.EVICTING).exists():
        return "space that is being freed" if is_full else "a volume that is being deleted"
    return ""


def _find_leader(row: CachedCommit) -> str:
    """Name the copy that is to begin first; empty when there is none."""
    if row.state == CacheState.HYDRATING:
        return ""
    leader = cache_plans.find_leader(row)
    return f"the copy on {leader.site.name}, from which it is filled" if leader is not None else ""


def _find_absence(site: CacheSite) -> str:
    """Say why the folder of a site, in which something failed, is not there; empty: it is, or the site is none."""
    if site.kind != CacheSiteKind.FOLDER:
        return ""
    site_checks.check_folder(site)
    return _absence_of(CacheSite.objects.get(pk=site.pk))


def _absence_of(site: CacheSite) -> str:
    """Say that the folder of a site is not there, to everybody; empty: it is there, as far as its host has seen."""
    return CacheSiteAway.of(site.name, site.absence).message if site.absence else ""


def _site_awaited(absence: str) -> str:
    return f"its site: {absence}"[:_LONGEST_REASON] if absence else ""


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
    """One worker's attempt at one copy. It is the lease that the site's driver works under."""

    def __init__(self, row: CachedCommit, heartbeat: Heartbeat) -> None:
        self._row = row
        self._heartbeat = heartbeat
        self._reader = TreeReader(row.dataset, policy=make_retry_policy(lambda: self.is_lost, self._note_waiting))
        self._progress: Columns = {}
        self._works_alone = get_kind(row.site.kind).works_alone
        # A site that works alone counts from the beginning, whoever asks.
        self._moved_before = 0 if self._works_alone else row.bytes_moved

    def run(self) -> None:
        """Plan, have the copy filled, note how far it is."""
        row = self._row
        driver = open_site(row.site)
        if self._makes_way(driver):
            return
        plan = None
        while row.state != CacheState.HYDRATING:
            plan = cache_plans.plan_hydration(row.commit, row.site, self._reader)
            self._begin(plan, cache_plans.find_donor(row.commit, row.site))
        progress = driver.ensure(self._request(plan), self)
        if progress.is_ready:
            self._finish(driver, progress)
        else:
            self._note(progress)

    def _makes_way(self, driver: CacheSiteDriver) -> bool:
        """Stop the filling of a copy for what may be read next while others are needed now; say whether it stopped.

        That is done under its own lease, before the row says so: whoever dies in between, the next worker does it.
        """
        row = self._row
        if not (get_kind(row.site.kind).stops_by_call and row.state == CacheState.HYDRATING and row.is_for_holders):
            return False
        needed = _list_needed(row.site).first()
        if needed is None or not CachedCommit.objects.filter(caches.only_ahead(), pk=row.pk).exists():
            return False
        if not (isinstance(driver, StopsFilling) and driver.stop(row.pk)):
            return False
        reason = _needed_now(row.site)
        if not _pause(row, message=_makes_way_for(needed), waits_for=reason, token=row.lease_token):
            raise StagingLost("Another worker has taken this copy over, or nobody wants it any more.")
        return True

    @property
    def is_lost(self) -> bool:
        """Whether the work must stop."""
        return self._heartbeat.is_lost

    def confirm(self) -> None:
        """Renew the lease now."""
        self._heartbeat.confirm()

    def report(self, progress: CopyProgress) -> None:
        """Have the next beat write how far the copy is."""
        self._progress = self._columns_of(progress)
        self._heartbeat.report(**self._progress)

    def _note_waiting(self, waiting: Waiting) -> None:
        """Have the next beat write that the store is away where it should say what the files are."""
        self._heartbeat.report(**{**self._progress, "waits_for": _store_awaited(waiting)})

    def _columns_of(self, progress: CopyProgress) -> Columns:
        return {
            "files_done": progress.files_done,
            "bytes_done": progress.bytes_done,
            "bytes_shared": progress.bytes_shared,
            "bytes_copied": progress.bytes_copied,
            "bytes_moved": self._moved_before + progress.bytes_moved,
            "waits_for": progress.waits_for,
            # A site that works alone measures by itself.
            **({"rate_bytes_s": progress.rate_bytes_s} if self._works_alone else {}),
        }

    @transaction.atomic
    def _begin(self, plan: HydrationPlan, donor: CachedCommit | None) -> None:
        """Make the promise fit the plan, now that it is exact. Nothing happens where a copy that it needs leaves."""
        row = self._row
        site = cache_rows.lock_site(row.site_id)
        sources = {plan.base_id, donor.pk if donor is not None else None} - {None}
        if CachedCommit.objects.filter(pk__in=sources, state__in=[*WORKING, CacheState.READY]).count() < len(sources):
            return
        if plan.write_bytes > row.reserved_bytes:
            label = caches.label_of(row)
            capacity = cache_rows.plan_capacity(
                site,
                need_bytes=plan.write_bytes,
                usable=site.capacity_bytes,
                keep=[plan.base_id] if plan.base_id else [],
                extending=row.pk,
                is_ahead=CachedCommit.objects.filter(caches.only_ahead(), pk=row.pk).exists(),
            )
            if not capacity.is_sufficient:
                raise cache_rows.explain_full(Actor.system("caching"), site, capacity, wanted_for=label)
            cache_rows.free_capacity(capacity, wanted_for=label)
        is_ours = change_state(
            row,
            CacheState.HYDRATING,
            token=row.lease_token,
            message=_describe(plan, donor),
            base_id=plan.base_id,
            donor=donor,
            reserved_bytes=plan.write_bytes,
            started_at=_started_at(row),
            paused_at=None,
            **({"bytes_shared": plan.shared_bytes} if self._works_alone else {}),
            files_total=plan.files,
            bytes_total=plan.size_bytes,
            share_reports=[],
        )
        if not is_ours:
            raise StagingLost("Another worker has taken this copy over, or nobody wants it any more.")
        followers = CachedCommit.objects.filter(commit=row.commit, state=CacheState.QUEUED).exclude(pk=row.pk)
        for id_ in followers.order_by("pk").values_list("pk", flat=True)[:_FOLLOWERS]:
            enqueue_on_commit("datasets.hydrate", cached_commit_id=id_)

    def _request(self, plan: HydrationPlan | None) -> CopyRequest:
        row = self._row
        base = CachedCommit.objects.filter(pk=row.base_id).first() if row.base_id else None
        donor = CachedCommit.objects.filter(pk=row.donor_id).select_related("site").first() if row.donor_id else None
        return CopyRequest(
            id=row.pk,
            token=row.lease_token,
            location=row.location,
            files=row.files_total,
            size_bytes=row.bytes_total,
            bytes_shared=plan.shared_bytes if plan else row.bytes_shared,
            started_at=row.started_at or clock.now(),
            list_entries=lambda: self._reader.list_entries(row.commit.root),
            fetch=self._fetch,
            # Who asks again after the filling began is a site that works alone, and finds files in the base by itself.
            base=CloneBase(base.location, plan.find_in_base if plan else lambda _: None) if base else None,
            donor=_as_donor(donor) if donor else None,
        )

    def _fetch(self, entries: Iterable[Entry], folder: Path, on_progress: Callable[[Fetched], None]) -> None:
        fetched = HydrationProgress()

        def note_fetched(progress: HydrationProgress) -> None:
            nonlocal fetched
            fetched = progress
            on_progress(_fetched(progress))

        def note_waiting(waiting: Waiting) -> None:
            on_progress(_fetched(fetched, _store_awaited(waiting)))

        hydrate(
            open_dataset_store(self._row.dataset),
            entries,
            folder,
            keep_existing=True,
            on_progress=note_fetched,
            on_wait=note_waiting,
            should_stop=lambda: self.is_lost,
            next_packs=self._heartbeat.next_packs,
        )

    def _note(self, progress: CopyProgress) -> None:
        """Write how far a copy is that goes on without us."""
        rows = CachedCommit.objects.filter(pk=self._row.pk, lease_token=self._row.lease_token, state__in=WORKING)
        rows.update(attempts=0, **self._columns_of(progress))

    @transaction.atomic
    def _finish(self, driver: CacheSiteDriver, progress: CopyProgress) -> None:
        row = self._row
        now = clock.now()
        # A predecessor that published and died has counted where the bytes came from; then this attempt brought none.
        shared = progress.bytes_shared if self._works_alone else progress.bytes_shared or row.bytes_shared
        is_ours = change_state(
            row,
            CacheState.READY,
            token=row.lease_token,
            files_done=row.files_total,
            bytes_done=row.bytes_total,
            bytes_shared=shared,
            bytes_copied=progress.bytes_copied or row.bytes_copied,
            bytes_moved=self._moved_before + progress.bytes_moved,
            reserved_bytes=row.bytes_total - shared,
            ready_at=now,
            last_used_at=now,
            scrubbed_at=now,
            settled_ns=driver.now_ns(),
            waits_for="",
            lease_token="",
            lease_expires_at=None,
            rate_bytes_s=None,
        )
        if not is_ours:
            raise StagingLost("Another worker has taken this copy over, or nobody wants it any more.")


def _started_at(row: CachedCommit) -> datetime:
    """Return when the filling of a copy began, as if it had never been paused."""
    now = clock.now()
    if row.started_at is None:
        return now
    return row.started_at if row.paused_at is None else row.started_at + (now - row.paused_at)


def _as_donor(row: CachedCommit) -> Donor:
    """Return a copy as another one is filled from it."""
    rows = CachedCommit.objects.filter(pk=row.pk)
    unchecked = rows.filter(state=CacheState.READY, scrub_requested_at=None)
    return Donor(
        site=open_site(row.site),
        id=row.pk,
        location=row.location,
        is_coming=lambda: rows.filter(cache_plans.being_filled()).exists(),
        doubt=lambda: unchecked.update(scrub_requested_at=clock.now()),
    )


def _describe(plan: HydrationPlan, donor: CachedCommit | None) -> str:
    source = f"the site {donor.site.name}" if donor is not None else "the store"
    if plan.base_id is None:
        return f"{count_of(plan.files, 'file')}, {format_bytes(plan.size_bytes)} to be read from {source}."
    moved, shared = format_bytes(plan.write_bytes), format_bytes(plan.shared_bytes)
    return f"{count_of(plan.files, 'file')}: {moved} to be read from {source}, {shared} shared with an older copy."


def _store_awaited(waiting: Waiting) -> str:
    minutes = math.ceil(waiting.left_s / 60)
    return f"the store, for {minutes} min more at most: {waiting.reason}"[:_LONGEST_REASON]


def _fetched(progress: HydrationProgress, waits_for: str = "") -> Fetched:
    return Fetched(progress.files, progress.size_bytes, progress.bytes_moved, waits_for)


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
        reserved_bytes=fresh.bytes_on_disk,
        waits_for="",
        lease_token="",
        lease_expires_at=None,
        rate_bytes_s=None,
    )


def _enqueue_next(row: CachedCommit) -> None:
    """Enqueue the copies that waited for this one; the periodic run would find them a little later."""
    waiting = CachedCommit.objects.filter(site_id=row.site_id, state=CacheState.QUEUED)
    if get_kind(row.site.kind).parallel_copies is None:
        waiting = waiting.filter(dataset_id=row.dataset_id)
    for id_ in waiting.order_by("pk").values_list("pk", flat=True)[:10]:
        enqueue("datasets.hydrate", cached_commit_id=id_)
