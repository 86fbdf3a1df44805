"""What the pods that import a folder of a cluster ask of the platform, with a token that is good for that import alone.

They may say what packs its files make, have the commit made of them, and bring its packs into the store: nothing else.
What they send is checked as what any client sends, and each blob is compared with its hash wherever it is read.
"""

from django.db import transaction
from django.db.models import F, QuerySet

from accounts.errors import NotSignedIn
from accounts.permissions import Actor
from accounts.selectors import find_actor
from core import clock
from core.errors import InvalidInput
from core.tasks import enqueue_on_commit
from datasets.adapters.copy_tokens import read_import
from datasets.adapters.opening import as_path, open_manifests
from datasets.engine.layout import map_key, pack_key
from datasets.engine.ports import SIGNED_LIFETIME, Announcement, SignedRequest
from datasets.errors import ImportNotReady, ManifestRejected, PackMissing, SourceNotFound, UploadNotFound
from datasets.models import Commit, ImportState, InPlaceImport, Pack, PackState, UploadSession, UploadState
from datasets.selectors.commits import head_of
from datasets.services import packs, tree_edits, upload_parts, uploads
from nearline.content.errors import ContentError
from nearline.content.manifest import read_range
from nearline.content.pack_maps import PackMap


def authenticate(secret: str) -> InPlaceImport:
    """Return the import that a token is for. Raises NotSignedIn when it is not under way any more."""
    import_id = read_import(secret)
    if import_id is None:
        raise NotSignedIn("This is no token of an import.")
    rows = InPlaceImport.objects.select_related("source", "dataset__store", "dataset__project")
    states = [ImportState.RUNNING, ImportState.PROMOTING]
    row = rows.filter(
        pk=import_id, state__in=states, dataset__deleted_at=None, dataset__project__deleted_at=None
    ).first()
    if row is None:
        raise NotSignedIn("The import that this token is for is not under way any more.")
    return row


def begin(*, row: InPlaceImport, files: int, size_bytes: int) -> UploadSession:
    """Note how much there is to be read, and begin anew: what an earlier pod has sent is forgotten, all but packs."""
    actor = _actor_of(row)
    for upload in list_sessions(row).filter(state=UploadState.OPEN):
        uploads.cancel_upload(actor=actor, upload=upload)
    begun = {"files": files, "work_bytes": size_bytes, "read_bytes": 0, "started_at": clock.now()}
    InPlaceImport.objects.filter(pk=row.pk, state=ImportState.RUNNING).update(**begun)
    return uploads.create_session(actor=actor, dataset=row.dataset, client_id=_client_of(row), branch=row.branch)


def report_progress(*, row: InPlaceImport, read_bytes: int) -> None:
    """Note how much was read."""
    InPlaceImport.objects.filter(pk=row.pk, state=ImportState.RUNNING).update(read_bytes=read_bytes)


def keep_map(*, row: InPlaceImport, upload_id: str, name: str, data: bytes) -> None:
    """Keep the map of a pack. Raises ManifestRejected."""
    uploads.prolong(actor=_actor_of(row), upload=_get_session(row, upload_id))
    try:
        pack_map = PackMap.decode(data)
    except ValueError as error:
        raise ManifestRejected(f"The map of the pack {name[:12]} cannot be kept: {error}.") from error
    # Where the files lie is said by the platform alone.
    written_bytes = store_map(row, name, PackMap(facts_of(row), pack_map.files, pack_map.blobs, pack_map.pieces))
    InPlaceImport.objects.filter(pk=row.pk).update(written_bytes=F("written_bytes") + written_bytes)


def keep_entries(*, row: InPlaceImport, upload_id: str, number: int, data: bytes) -> None:
    """Keep entries whose packs were sent. Raises ManifestRejected."""
    try:
        entries = read_range(data).entries
    except ContentError as error:
        raise ManifestRejected(str(error)) from error
    upload_parts.keep_entries(actor=_actor_of(row), upload=_get_session(row, upload_id), number=number, entries=entries)


def commit(*, row: InPlaceImport, upload_id: str) -> Commit:
    """Make the commit of all that was sent: the first of its branch. Asked again, the same."""
    actor, upload = _actor_of(row), _get_session(row, upload_id)
    if upload.state == UploadState.COMMITTED and upload.commit is not None:
        return upload.commit
    if head_of(actor=actor, upload=upload) is not None:
        raise ImportNotReady(f"{row.branch} has a commit by now; files of a cluster are the first of a branch.")
    parts = upload_parts.list_arrived(actor=actor, upload=upload)
    entries = {entry.path: entry for part in parts for entry in part.entries}
    if not entries:
        raise InvalidInput("No file has come yet.")
    made = tree_edits.commit_entries(
        actor=actor, upload=upload, expected_head=None, message=row.message, entries=entries
    )
    with transaction.atomic():
        InPlaceImport.objects.filter(pk=row.pk).update(commit=made, files=made.files, size_bytes=made.size_bytes)
        enqueue_on_commit("datasets.work_on_import", import_id=row.pk)
    return made


def next_map(*, row: InPlaceImport, after: str) -> tuple[str, bytes] | None:
    """Return the next pack of an import, by name, that the store does not have, and its map; None after the last."""
    rows = Pack.objects.filter(origin=row, state=PackState.COMPLETE, sha256__gt=after).order_by("sha256")
    for pack in rows.iterator():
        if not packs.take_stored(row.dataset, pack):
            return pack.sha256, open_manifests(row.dataset).get(map_key(pack.sha256))
    return None


def sign_pack(*, row: InPlaceImport, name: str, md5: str) -> SignedRequest:
    """Sign a PUT for a pack of an import. Raises PackMissing, StorageLimitReached."""
    pack = _get_pack(row, name)
    with transaction.atomic():
        packs.require_space(row.dataset, {name: pack.size_bytes})
    body = Announcement(pack.size_bytes, name, md5)
    lifetime_s = int(SIGNED_LIFETIME.total_seconds())
    signed = open_manifests(row.dataset).sign_put(pack_key(name), body, now=clock.now(), lifetime_s=lifetime_s)
    return as_path(signed)


def take_pack(*, row: InPlaceImport, name: str) -> None:
    """Look for a pack in the store, all of it, and forget its map. Raises PackMissing."""
    if not packs.take_stored(row.dataset, _get_pack(row, name)):
        raise PackMissing("The store does not have this pack as its name says.", packs=[name])


def _get_pack(row: InPlaceImport, name: str) -> Pack:
    pack = Pack.objects.filter(origin=row, sha256=name).first()
    if pack is None:
        raise PackMissing("The import has no such pack.", packs=[name])
    return pack


def _client_of(row: InPlaceImport) -> str:
    return f"import {row.pk}"


def list_sessions(row: InPlaceImport) -> "QuerySet[UploadSession]":
    """Return the uploads of an import."""
    sessions = UploadSession.objects.select_related("dataset__store", "dataset__project", "commit")
    return sessions.filter(dataset=row.dataset, client_id=_client_of(row))


def _get_session(row: InPlaceImport, upload_id: str) -> UploadSession:
    upload = list_sessions(row).filter(pk=upload_id).first()
    if upload is None:
        raise UploadNotFound("There is no such upload of this import.")
    return upload


def _actor_of(row: InPlaceImport) -> Actor:
    """Return who asked for the import, with the rights that they have now. Raises SourceNotFound."""
    actor = find_actor(row.user_id) if row.user_id is not None else None
    if actor is None or not row.source.projects.filter(pk=row.dataset.project_id).exists():
        raise SourceNotFound(
            f"Who asked for it, or {row.dataset.project.name}, may not import from {row.source.name} any more."
        )
    return actor


def facts_of(row: InPlaceImport) -> dict[str, str]:
    """Return what maps say of the source of an import, for whoever rebuilds the database."""
    source = row.source
    return {"id": source.pk, "name": source.name, "kind": str(source.kind), "location": source.location}


def store_map(row: InPlaceImport, name: str, pack_map: PackMap) -> int:
    """Put the map of a pack into the store in place of the pack, unless that is there; return the bytes written."""
    dataset = row.dataset
    claimed = packs.claim(dataset, {name: pack_map.size_bytes}).rows[name]
    if claimed.state == PackState.COMPLETE:
        return 0
    data = pack_map.encode()
    open_manifests(dataset).put(map_key(name), data)
    packs.mark_mapped(claimed, row)
    if claimed.state == PackState.DAMAGED:
        packs.check_packs(dataset, [Pack.objects.get(pk=claimed.pk)])
    return len(data)
