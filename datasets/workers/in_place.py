"""Imports in place, led on: from a request to a commit, from there into the store, and compared with their source.

A worker may die at any point. What it had done is found done by the next one: maps and packs are named by their
content, and a pack is read from its source until its bytes were seen in the store.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from operator import itemgetter
from typing import Final

import structlog
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from accounts.permissions import Actor
from accounts.selectors import find_actor
from core import clock, isolation, leases
from core.errors import InvalidInput, PlatformError
from core.tasks import enqueue_reliably
from datasets.adapters.opening import open_manifests, open_mapped_packs, open_source
from datasets.adapters.sites.existing import ExistingSite
from datasets.adapters.sites.volume.kind import connection_of
from datasets.adapters.sources.listing import list_import, list_places
from datasets.engine.layout import pack_key
from datasets.errors import (
    CacheSiteUnavailable,
    ImportNotReady,
    SourceChanged,
    SourceFileChanged,
    SourceFileMissing,
    SourceNotFound,
    StaleParent,
)
from datasets.models import (
    PRESENT,
    WORKING,
    Branch,
    CacheSite,
    CacheSiteKind,
    Commit,
    ImportState,
    InPlaceImport,
    Pack,
    PackState,
    SourceKind,
    UploadSession,
)
from datasets.selectors.commits import head_of
from datasets.selectors.trees import open_tree
from datasets.services import cache_rows, caches, packs, tree_edits, uploads
from datasets.workers import import_jobs
from nearline.content.manifest import Entry
from nearline.content.mapping import FoundFile, MapWriter
from nearline.content.pack_maps import PackMap
from nearline.content.paths import show_path

log = structlog.get_logger(__name__)

WORK: Final = "datasets.work_on_import"
"""The kind of failures; items are imports."""
_CHECK_EVERY = timedelta(days=1)
_HEAL_EVERY = timedelta(minutes=10)
_LEASE_S = 900.0
_TELL_EVERY = timedelta(seconds=1)
_NAMED_FILES = 100
_RACES = 5
_ENQUEUED_AT_ONCE = 20
_SYSTEM = Actor.system("imports in place")


class _Cancelled(Exception):
    """Somebody wants the work stopped."""


class _LeaseLost(Exception):
    """Another worker leads the import on."""


def enqueue_due() -> None:
    """Enqueue the work on imports that is due."""
    for row in isolation.take(WORK, _find_due().order_by("pk"), _ENQUEUED_AT_ONCE):
        enqueue_reliably("datasets.work_on_import", import_id=row.pk)


def work_on_each(ids: list[str]) -> None:
    """Lead these imports on. One that fails stops none of the others."""
    isolation.for_each(WORK, ids, work_on)


def work_on(import_id: str) -> None:
    """Lead an import on as far as it goes, unless another worker does."""
    name, token = f"import:{import_id}", leases.new_token()
    if not leases.take_named(name, holder=token, for_s=_LEASE_S):
        return
    try:
        row = _find_due().select_related("source", "dataset__store", "dataset__project").filter(pk=import_id).first()
        if row is not None:
            _Work(row, name, token).run()
    except _LeaseLost:
        log.warning("import.lease_lost", import_id=import_id)
    finally:
        leases.release_named(name, holder=token)


def find_due() -> list[QuerySet[InPlaceImport]]:
    """Return the imports that are under way, were asked to be checked, or are to be checked again."""
    return [_find_due()]


def _find_due() -> QuerySet[InPlaceImport]:
    late = clock.now() - _CHECK_EVERY
    asked = Q(check_requested_at__isnull=False) & (Q(checked_at=None) | Q(checked_at__lt=F("check_requested_at")))
    damaged = Exists(Pack.objects.filter(origin=OuterRef("pk"), state=PackState.DAMAGED))
    is_bad = Q(damaged) | ~Q(error="")
    is_old = Q(checked_at__lt=late) | Q(checked_at=None) | Q(is_bad, checked_at__lt=clock.now() - _HEAL_EVERY)
    due = Q(state__in=WORKING) | Q(asked | is_old, state=ImportState.REFERENCED)
    return InPlaceImport.objects.filter(due, dataset__deleted_at=None, dataset__project__deleted_at=None)


class _Work:
    """One worker's work on one import."""

    def __init__(self, row: InPlaceImport, lease: str, token: str) -> None:
        self._row = row
        self._lease = lease
        self._token = token

    def run(self) -> None:
        """Do what is next. What fails for a reason that people can mend is said in the row."""
        if self._row.state == ImportState.CANCELLING:
            self._cancel()
            return
        try:
            self._work()
        except _Cancelled:
            self._cancel()

    def _work(self) -> None:
        row = self._row
        if row.source.kind == SourceKind.SITE:
            self._work_on_volume()
            return
        if row.state in {ImportState.QUEUED, ImportState.RUNNING}:
            self._import()
            return
        began_at = clock.now()
        # The state is left alone unless it was for us to change: somebody may ask for more meanwhile.
        state = {"state": ImportState.REFERENCED} if row.state == ImportState.PROMOTING else {}
        try:
            if state:
                self._promote()
                state["state"] = ImportState.REFERENCED if self._packs().exists() else ImportState.PROMOTED
            outcome: dict[str, object] = {**self._check(), "error": "", "error_code": ""}
        except PlatformError as error:
            outcome = _tell(error)
        self._set(**state, checked_at=began_at, **outcome)

    def _renew(self) -> None:
        if not leases.renew_named(self._lease, holder=self._token, for_s=_LEASE_S):
            raise _LeaseLost

    def _set(self, **values: object) -> None:
        self._renew()
        InPlaceImport.objects.filter(pk=self._row.pk).update(**values)
        for name, value in values.items():
            setattr(self._row, name, value)

    def _begin(self) -> None:
        """Note that the work has begun. Raises _Cancelled."""
        begun = InPlaceImport.objects.filter(pk=self._row.pk, state__in=[ImportState.QUEUED, ImportState.RUNNING])
        if not begun.update(state=ImportState.RUNNING):
            raise _Cancelled
        self._row.state = ImportState.RUNNING

    def _stop_if_cancelled(self) -> None:
        if InPlaceImport.objects.filter(pk=self._row.pk, state=ImportState.CANCELLING).exists():
            raise _Cancelled

    def _cancel(self) -> None:
        """End what works on the import. One whose commit was made meanwhile is done all the same."""
        row = self._row
        for upload in import_jobs.list_sessions(row):
            uploads.cancel_upload(actor=_SYSTEM, upload=upload)
        site = CacheSite.objects.filter(name=row.source.site_name, kind=CacheSiteKind.EXISTING).first()
        if site is not None:
            try:
                ExistingSite(site, connection_of(site)).end_import(row.pk)
            except CacheSiteUnavailable as error:
                self._set(waits_for=error.message[:300])
                return
        row.refresh_from_db(fields=["commit"])
        if row.commit is None:
            self._set(state=ImportState.CANCELLED, waits_for="")
            return
        if site is not None and site.config.get("commit") != row.commit_id:
            self._take_site(site)
        done = ImportState.REFERENCED if self._packs().exists() else ImportState.PROMOTED
        self._set(state=done, waits_for="")

    def _import(self) -> None:
        self._begin()
        try:
            self._set(
                **self._make_commit(), state=ImportState.REFERENCED, checked_at=clock.now(), error="", error_code=""
            )
        except PlatformError as error:
            self._set(state=ImportState.FAILED, **_tell(error))

    def _work_on_volume(self) -> None:
        """Have a pod of the cluster read the files; asked again until it has. The scrubs of its site compare them."""
        row = self._row
        if row.state == ImportState.REFERENCED:
            self._set(checked_at=clock.now())
            return
        if row.state == ImportState.QUEUED:
            self._begin()
        is_import = row.state == ImportState.RUNNING
        before = ImportState.FAILED if is_import else ImportState.REFERENCED
        try:
            site = CacheSite.objects.get(name=row.source.site_name, kind=CacheSiteKind.EXISTING)
            driver = ExistingSite(site, connection_of(site))
            # A commit is the pod's last deed: whatever becomes of it then, nothing is read again.
            if not (is_import and row.commit_id is not None):
                waits_for = driver.work_on_import(row.pk, duty="import" if is_import else "promote")
                row.refresh_from_db(fields=["commit"])
                if waits_for and not (is_import and row.commit_id is not None):
                    self._set(waits_for=waits_for[:300])
                    return
            driver.end_import(row.pk)
            if is_import:
                self._take_site(site)
        except CacheSiteUnavailable as error:
            self._set(waits_for=error.message[:300])
            return
        except (PlatformError, CacheSite.DoesNotExist) as error:
            report = _tell(error) if isinstance(error, PlatformError) else _tell(SourceNotFound("Its site is gone."))
            self._set(state=before, waits_for="", **report)
            return
        done = ImportState.REFERENCED if self._packs().exists() else ImportState.PROMOTED
        self._set(state=done, waits_for="", checked_at=clock.now(), error="", error_code="")

    def _take_site(self, site: CacheSite) -> None:
        """Let the volume be a copy of the commit that was made of its files."""
        commit = self._row.commit
        if commit is None:
            raise ImportNotReady("The pod has ended without a commit.")
        commit.dataset = self._row.dataset
        with transaction.atomic():
            site = cache_rows.lock_site(site.pk)
            site.config |= {"commit": commit.pk, "size_bytes": max(1, commit.size_bytes), "imported": True}
            site.capacity_bytes = max(site.capacity_bytes, site.config["size_bytes"])
            site.save(update_fields=["config", "capacity_bytes"])
        caches.request_cache(actor=_SYSTEM, commit=commit, site=site)

    def _make_commit(self) -> dict[str, object]:
        """Map all files, commit them, and return what the row says of it."""
        row = self._row
        dataset = row.dataset
        actor = find_actor(row.user_id) if row.user_id is not None else None
        if actor is None or not row.source.projects.filter(pk=dataset.project_id).exists():
            raise SourceNotFound(f"Who asked for it, or {dataset.project.name}, may not import from it any more.")
        listed = list(list_import(open_source(row.source), row.prefix.encode()))
        top = row.directory.encode() + b"/" if row.directory else b""
        files = sorted(((top + path, file) for path, file in listed if not file.why), key=itemgetter(0))
        skipped = [f"{show_path(file.path)} {file.why}" for _, file in listed if file.why]
        if not files:
            raise InvalidInput(f"'{row.source.name}:{row.prefix}' holds no file that a dataset can carry.")
        told_at, written_bytes = clock.now(), 0
        work_bytes = sum(file.size_bytes for _, file in files)
        self._set(files=len(files), work_bytes=work_bytes, started_at=told_at, read_bytes=0)
        upload = uploads.create_session(actor=actor, dataset=dataset, client_id=f"import {row.pk}", branch=row.branch)

        def go_on(read_bytes: int) -> None:
            nonlocal told_at
            if clock.now() - told_at >= _TELL_EVERY:
                told_at = clock.now()
                self._set(read_bytes=read_bytes)
                self._stop_if_cancelled()
                uploads.prolong(actor=actor, upload=upload)

        def keep(name: str, pack_map: PackMap) -> None:
            nonlocal written_bytes
            written_bytes += import_jobs.store_map(row, name, pack_map)

        try:
            writer = MapWriter(
                open_source(row.source),
                facts=import_jobs.facts_of(row),
                on_pack=keep,
                on_read=go_on,
                on_changed=_explain_change,
                find_known=self._known_entries(),
            )
            entries = {entry.path: entry for entry in writer.write(files)}
            commit = self._commit(actor, upload, entries)
        except PlatformError:
            uploads.cancel_upload(actor=actor, upload=upload)
            raise
        return {
            "commit": commit,
            "files": len(entries),
            "size_bytes": sum(entry.size for entry in entries.values() if not entry.target),
            "read_bytes": writer.read_bytes,
            "written_bytes": written_bytes,
            "skipped": skipped[:_NAMED_FILES],
        }

    def _known_entries(self) -> Callable[[bytes], Entry | None]:
        """Return what finds the entry of a path in the branch's newest commit, where all of its packs are whole."""
        head = Branch.objects.select_related("head").get(dataset=self._row.dataset, name=self._row.branch).head
        if head is None:
            return lambda _path: None
        head.dataset = self._row.dataset
        tree = open_tree(head)
        whole = Pack.objects.filter(dataset=self._row.dataset, state=PackState.COMPLETE)
        names = {bytes.fromhex(name) for name in whole.values_list("sha256", flat=True)}

        def find(path: bytes) -> Entry | None:
            entry = tree.find(path)
            return entry if entry is not None and names.issuperset(blob.pack for blob in entry.blobs) else None

        return find

    def _commit(self, actor: Actor, upload: UploadSession, entries: Mapping[bytes, Entry]) -> Commit:
        for attempt in range(1, _RACES + 1):
            head = head_of(actor=actor, upload=upload)
            try:
                return tree_edits.commit_entries(
                    actor=actor,
                    upload=upload,
                    expected_head=head.pk if head is not None else None,
                    message=self._row.message,
                    entries=entries,
                )
            except StaleParent:
                if attempt == _RACES:
                    raise
        raise AssertionError

    def _promote(self) -> None:
        """Copy pack by pack into the store. What the source does not have as it was stays a reference, and is named."""
        dataset = self._row.dataset
        mapped, store = open_mapped_packs(dataset), open_manifests(dataset)
        for pack in self._packs().iterator():
            self._renew()
            self._stop_if_cancelled()
            # What was changed when it was last read may have been put back since.
            if pack.state == PackState.DAMAGED and packs.check_packs(dataset, [pack]):
                continue
            if packs.take_stored(dataset, pack):
                continue
            try:
                data = mapped.get(pack_key(pack.sha256))
            except SourceFileChanged:
                packs.check_packs(dataset, [pack])
                continue
            with transaction.atomic():
                packs.require_space(dataset, {pack.sha256: pack.size_bytes})
            store.put(pack_key(pack.sha256), data)
            packs.take_stored(dataset, pack)

    def _check(self) -> dict[str, object]:
        """Compare what the source lists with the maps, and return what the row says of it.

        Packs of files that were written to are read again.
        """
        row = self._row
        listed = {file.path: file for file in _list(row)} if self._packs().exists() else {}
        mapped, changed = open_mapped_packs(row.dataset), set[bytes]()
        for pack in self._packs().iterator():
            self._renew()
            pack_map = mapped.find_map(pack_key(pack.sha256))
            is_suspect = pack.state == PackState.DAMAGED or pack_map is None
            for file in pack_map.files if pack_map is not None else ():
                now = listed.get(file.path)
                is_suspect |= now is None or (now.size_bytes, now.version) != (file.size_bytes, file.version)
            if is_suspect and packs.check_packs(row.dataset, [pack]) and pack_map is not None:
                changes = mapped.find_changes(pack_key(pack.sha256)) or ()
                changed.update(change.file.path for change in changes)
        names = [show_path(path) for path in sorted(changed)]
        return {"changed": names[:_NAMED_FILES], "changed_files": len(names)}

    def _packs(self) -> QuerySet[Pack]:
        return Pack.objects.filter(origin=self._row, state__in=PRESENT).order_by("pk")


def _tell(error: PlatformError) -> dict[str, object]:
    return {"error": error.message[:2000], "error_code": error.code}


def _list(row: InPlaceImport) -> Sequence[FoundFile]:
    """Return what lies where an import has read its files; nothing where the folder is gone."""
    try:
        return list(list_places(open_source(row.source), row.prefix.encode()))
    except SourceFileMissing:
        return ()


def _explain_change(file: FoundFile) -> SourceChanged:
    name = show_path(file.path)
    return SourceChanged(f"'{name}' changed while it was read.", path=name)
