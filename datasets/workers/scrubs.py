"""Looking after ready copies: every file against its commit, and what is damaged healed from the store.

A daily scrub glances at every file and reads a thirtieth of them, each day others; one that was asked for reads all.
Where copies share a damaged file, each is told and each is healed, by a new file that takes the place of the old.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType

import structlog
from django.db import transaction
from django.db.models import Q

from core import clock, hosts, isolation, leases
from core.errors import PlatformError
from core.tasks import enqueue_reliably
from datasets.adapters.hydration import hydrate
from datasets.adapters.opening import open_dataset_store
from datasets.adapters.sites.registry import open_site
from datasets.engine.cache_ports import CopyFolder, Damage, DamageKind, Staging, Verifier
from datasets.engine.cache_states import CacheState
from datasets.errors import CopyDiffers, CopyGone
from datasets.models import CachedCommit, CachedCommitEventKind
from datasets.selectors import caches, failures
from datasets.selectors.trees import TreeReader
from datasets.services import packs
from datasets.services.cache_rows import record
from datasets.workers import evictions
from datasets.workers.evictions import HEALING
from nearline.content.manifest import Entry
from nearline.content.paths import show_path, to_text

log = structlog.get_logger(__name__)

SCRUB_EVERY = timedelta(days=1)
_SAMPLES = 30
_NAMED_FILES = 100


def enqueue_due_scrubs(*, limit: int = 20) -> int:
    """Enqueue the scrubs of copies whose last one is a day ago; return how many."""
    due = Q(scrubbed_at__isnull=True) | Q(scrubbed_at__lte=clock.now() - SCRUB_EVERY)
    ready = CachedCommit.objects.filter(due, state=CacheState.READY, site__host__in=hosts.here(), site__absence="")
    rows = isolation.take(failures.SCRUB, ready.order_by("scrubbed_at", "pk"), limit)
    for row in rows:
        enqueue_reliably("datasets.scrub", cached_commit_id=row.pk)
    return len(rows)


def scrub_each(ids: Sequence[str]) -> None:
    """Scrub these copies. One that fails stops none of the others."""
    isolation.for_each(failures.SCRUB, ids, lambda id_: scrub_cached_commit(cached_commit_id=id_))


def scrub_cached_commit(*, cached_commit_id: str) -> None:
    """Compare a ready copy with its commit if that is due or was asked for, and heal what differs."""
    rows = CachedCommit.objects.select_related("site", "commit", "dataset__project", "dataset__store")
    row = rows.filter(pk=cached_commit_id, state=CacheState.READY, site__host__in=hosts.here()).first()
    if row is None or not _is_due(row):
        return
    driver = open_site(row.site)
    folder = driver.folder
    if folder is None:
        _verify(row, driver.verifier)
        return
    token = leases.new_token()
    name = f"scrub:{row.pk}"
    if not leases.take_named(name, holder=token, for_s=leases.LONGEST_S):
        return
    try:
        _Scrub(row, folder, token).run()
    finally:
        leases.release_named(name, holder=token)


def _verify(row: CachedCommit, verifier: Verifier | None) -> None:
    """Have the site compare and heal a copy by itself, as far as there is one. Called again until it has."""
    began_at = clock.now()
    if verifier is None:
        _note_scrubbed(row, began_at)
        return
    part = None if row.scrub_requested_at is not None else (began_at.toordinal() % _SAMPLES, _SAMPLES)
    try:
        findings_here = verifier.verify(row.pk, part=part)
    except PlatformError as error:
        packs.record_failure(row.dataset, error)
        _note([row], CachedCommitEventKind.NOT_HEALED, f"Not healed: {error.message}", error)
        if isinstance(error, CopyDiffers):
            evictions.give_up(row, "It is not what its commit says, and is not ours to heal.")
            return
        if isinstance(error, CopyGone):
            evictions.give_up(row, error.message)
            return
        raise
    if findings_here is None:
        return
    if findings_here.count:
        others = CachedCommit.objects.select_related("commit", "dataset__project")
        copies = others.in_bulk({id_ for item in findings_here.named for id_, _ in item.also})
        findings = [
            (item.kind, [(row, item.path), *((copies[id_], path) for id_, path in item.also if id_ in copies)])
            for item in findings_here.named
        ]
        report = _tell(findings, unnamed={row.pk: findings_here.count - len(findings_here.named)})
        _note(report, CachedCommitEventKind.HEALED, "Healed from the store.", None)
    _note_scrubbed(row, began_at)


def heal_changes(*, cached_commit_id: str, since: datetime) -> list[str]:
    """Heal what was changed in a ready copy since a moment, and return what was found damaged since then, by path.

    Looks at every file, and reads those alone whose time of change is later: no program can set that back.
    """
    rows = CachedCommit.objects.select_related("site", "commit", "dataset__project", "dataset__store")
    row = rows.filter(pk=cached_commit_id, state=CacheState.READY).first()
    if row is None:
        return []
    token, name = leases.new_token(), f"scrub:{row.pk}"
    try:
        folder = open_site(row.site).folder
        if folder is not None and leases.take_named(name, holder=token, for_s=leases.LONGEST_S):
            try:
                _Scrub(row, folder, token).heal_changes(since)
            finally:
                leases.release_named(name, holder=token)
    except PlatformError as error:
        log.warning("cache.not_healed", cached_commit_id=row.pk, error=error.message)
    events = row.events.filter(kind=CachedCommitEventKind.DAMAGED, created_at__gte=since).order_by("pk")
    return [file["path"] for event in events for file in event.facts["files"]]


def _is_due(row: CachedCommit) -> bool:
    is_old = row.scrubbed_at is None or row.scrubbed_at <= clock.now() - SCRUB_EVERY
    return is_old or row.scrub_requested_at is not None


def _note_scrubbed(row: CachedCommit, started_at: datetime) -> None:
    CachedCommit.objects.filter(pk=row.pk).update(scrubbed_at=started_at)
    # By what was read with the row: a request that came right after has seen no file read.
    asked = CachedCommit.objects.filter(pk=row.pk, scrub_requested_at=row.scrub_requested_at)
    asked.update(scrub_requested_at=None)


def _choose_files(row: CachedCommit) -> Callable[[Entry], bool]:
    """Return which files are read although they look untouched: all on request, else the day's thirtieth."""
    if row.scrub_requested_at is not None:
        return lambda _: True
    today = clock.now().toordinal() % _SAMPLES
    return lambda entry: entry.content_id[0] % _SAMPLES == today


@dataclass
class _Finding:
    """One damaged file: what should be there, and every place where it is wrong (a copy, a path in it)."""

    entry: Entry
    kind: DamageKind
    places: list[tuple[str, bytes]] = field(default_factory=list)


class _Scrub:
    """One check of one copy."""

    def __init__(self, row: CachedCommit, folder: CopyFolder, token: str) -> None:
        self._row = row
        self._folder = folder
        self._token = token
        self._reader = TreeReader(row.dataset)
        self._siblings = {sibling.location: sibling for sibling in caches.list_ready_siblings(row.site, row.dataset)}

    def run(self) -> None:
        """Look, name what is wrong, heal it, note the time."""
        started_at = clock.now()
        damages = list(
            self._folder.inspect(
                self._row.location,
                self._reader.list_entries(self._row.commit.root),
                quiet_since_ns=caches.find_quiet_since(self._row),
                must_read=_choose_files(self._row),
            )
        )
        if damages and not CachedCommit.objects.filter(pk=self._row.pk, state=CacheState.READY).exists():
            return  # it is leaving, so of course its files are
        if damages:
            self._treat(damages)
        _note_scrubbed(self._row, started_at)

    def heal_changes(self, since: datetime) -> None:
        """Look for what was changed since a moment, name it and heal it."""
        # Times of change are those of the folder's clock. Where that is behind ours, more files are read.
        behind_ns = max(0, int(clock.now().timestamp() * 10**9) - self._folder.now_ns())
        damages = list(
            self._folder.inspect(
                self._row.location,
                leases.keep_for_each(self._reader.list_entries(self._row.commit.root)),
                quiet_since_ns=int(since.timestamp() * 10**9) - behind_ns,
                must_read=lambda _: False,
            )
        )
        if damages:
            self._treat(damages)

    def _treat(self, damages: Sequence[Damage]) -> None:
        strays = [damage.path for damage in damages if damage.kind is DamageKind.STRAY]
        findings = self._find_places([damage for damage in damages if damage.kind is not DamageKind.STRAY])
        places = [(one.kind, [(self._siblings[where], path) for where, path in one.places]) for one in findings]
        own = self._siblings[self._row.location]
        report = _tell([*places, *((DamageKind.STRAY, [(own, stray)]) for stray in strays)])
        try:
            self._heal(findings, strays)
        except PlatformError as error:
            packs.record_failure(self._row.dataset, error)
            _note(report, CachedCommitEventKind.NOT_HEALED, f"Not healed: {error.message}", error)
            raise
        settled_ns = self._folder.now_ns()
        CachedCommit.objects.filter(pk__in=[row.pk for row in report]).update(settled_ns=settled_ns)
        _note(report, CachedCommitEventKind.HEALED, "Healed from the store.", None)

    def _find_places(self, damages: Sequence[Damage]) -> list[_Finding]:
        by_path = {damage.path: damage for damage in damages}
        keys = {damage.file_key for damage in damages if damage.file_key is not None}
        sharers = self._folder.find_sharers(sorted(self._siblings), keys)
        findings = []
        for entry in self._reader.list_entries(self._row.commit.root):
            damage = by_path.get(entry.path)
            if damage is None:
                continue
            places = sharers.get(damage.file_key, []) if damage.file_key is not None else []
            own = (self._row.location, entry.path)
            findings.append(_Finding(entry, damage.kind, [own, *(place for place in places if place != own)]))
        return findings

    def _heal(self, findings: Sequence[_Finding], strays: Sequence[bytes]) -> None:
        if not self._folder.path_of(self._row.location).is_dir():
            self._fill_again(findings)
            return
        work = f"{HEALING}{self._row.pk}"
        try:
            staging = self._fetch(work, findings)
            for stray in strays:
                self._folder.discard(self._row.location, stray, self._row.pk)
            for finding in findings:
                good = staging.folder / to_text(finding.entry.path)
                self._folder.replace(finding.places, finding.entry, good=good)
        finally:
            self._folder.remove(work, keep_going=lambda: True)

    def _fill_again(self, findings: Sequence[_Finding]) -> None:
        """Make the copy, all of which somebody removed, as it was made: jobs see all of its files or none."""
        self._fetch(self._row.pk, findings).publish(self._row.location, files=self._row.files_total)

    def _fetch(self, copy_id: str, findings: Sequence[_Finding]) -> Staging:
        staging = self._folder.stage(copy_id, self._token)
        entries = [finding.entry for finding in findings]
        hydrate(open_dataset_store(self._row.dataset), entries, staging.folder, read_only=False, keep_existing=True)
        return staging


def _tell(
    findings: Iterable[tuple[DamageKind, Sequence[tuple[CachedCommit, bytes]]]],
    unnamed: Mapping[str, int] = MappingProxyType({}),
) -> list[CachedCommit]:
    """Record in every copy concerned what is wrong there, and with whom it is shared; return those copies.

    `unnamed` is how many more paths are wrong in a copy than there are findings.
    """
    files: dict[str, list[dict[str, object]]] = defaultdict(list)
    rows: dict[str, CachedCommit] = {}
    for kind, places in findings:
        for row, path in places:
            others = sorted({caches.label_of(other) for other, _ in places if other.pk != row.pk})
            files[row.pk].append({"path": show_path(path), "kind": str(kind), "shared_with": others})
            rows[row.pk] = row
    damages = sorted(rows.values(), key=lambda row: row.location)
    for row in damages:
        _record_damage(row, files[row.pk], unnamed.get(row.pk, 0))
    return damages


def _record_damage(row: CachedCommit, files: Sequence[Mapping[str, object]], unnamed: int) -> None:
    count = len(files) + unnamed
    named = [f"{item['path']} ({item['kind']})" for item in files[:3]]
    more = f" and {count - len(named)} more" if count > len(named) else ""
    record(
        row,
        CachedCommitEventKind.DAMAGED,
        f"Not as the commit says: {', '.join(named)}{more}.",
        count=count,
        files=list(files[:_NAMED_FILES]),
    )
    log.warning("cache.damage_found", cached_commit_id=row.pk, files=count)


@transaction.atomic
def _note(rows: Sequence[CachedCommit], kind: CachedCommitEventKind, message: str, error: PlatformError | None) -> None:
    for row in rows:
        record(row, kind, message)
        CachedCommit.objects.filter(pk=row.pk).update(
            error_code=error.code if error else "",
            error=error.message if error else "",
            error_hint=error.hint if error else "",
        )
