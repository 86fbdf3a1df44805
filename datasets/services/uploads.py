"""Upload sessions: which packs and manifests the store wants, signed addresses for them, and proof that they came."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from django.db import transaction

from accounts import audit
from accounts.permissions import Actor, require
from core import clock
from core.errors import InvalidInput
from core.units import count_of
from datasets import permissions
from datasets.adapters.opening import open_dataset_store
from datasets.adapters.scoped import ScopedStore
from datasets.engine.layout import pack_key, range_key, root_key
from datasets.engine.ports import SIGNED_LIFETIME, Announcement, SignedRequest
from datasets.errors import PackMissing, UploadClosed
from datasets.models import (
    Branch,
    Commit,
    Dataset,
    ManifestRange,
    PackState,
    UploadSession,
    UploadState,
)
from datasets.selectors import commits as commit_reads
from datasets.services import packs, tree_writing
from datasets.services.packs import ClaimedPacks
from nearline.content.packs import MAX_PACK_BYTES

SESSION_LIFETIME = timedelta(hours=24)
# A range of 32,768 entries with long names stays far below this.
_MAX_MANIFEST_BYTES = 256 << 20
_HEADS_AT_ONCE = 8


class ObjectKind(StrEnum):
    """What a signed address may lead to."""

    PACK = "pack"
    RANGE = "range"
    ROOT = "root"


@dataclass(frozen=True)
class Offer:
    """An object that a client has. `id` is a pack's SHA-256 or a manifest's id."""

    kind: ObjectKind
    id: str
    body: Announcement


@dataclass(frozen=True)
class Answer:
    """Whether the store has the object; if not, the request that brings it there."""

    kind: ObjectKind
    id: str
    request: SignedRequest | None

    @property
    def state(self) -> str:
        """`complete`: nothing to do. `wanted`: send it."""
        return "complete" if self.request is None else "wanted"


@dataclass(frozen=True)
class StartedUpload:
    """A new session, and its branch with the head to build on."""

    upload: UploadSession
    branch: Branch


def start_upload(*, actor: Actor, dataset: Dataset, branch: str, client_id: str) -> StartedUpload:
    """Begin work towards a commit of a branch. Raises ReferenceNotFound, and StorageLimitReached at the limit."""
    require(actor, permissions.COMMIT, dataset.project_id)
    packs.require_some_space(dataset)
    branch_row = commit_reads.get_branch(actor, dataset, branch)
    return StartedUpload(
        create_session(actor=actor, dataset=dataset, branch=branch_row.name, client_id=client_id), branch_row
    )


@transaction.atomic
def create_session(*, actor: Actor, dataset: Dataset, client_id: str, branch: str = "") -> UploadSession:
    """Create a session of a dataset: towards a commit of a branch, or without one towards a stored tree."""
    require(actor, permissions.COMMIT, dataset.project_id)
    upload = UploadSession.objects.create(
        dataset=dataset,
        branch=branch,
        client_id=client_id[:200],
        user_id=actor.user_id,
        expires_at=clock.now() + SESSION_LIFETIME,
    )
    audit.record(actor, "datasets.start_upload", upload, project_id=dataset.project_id, dataset=dataset.name)
    return upload


def offer_packs(*, actor: Actor, upload: UploadSession, offers: Sequence[Offer]) -> list[Answer]:
    """Say which packs are there, and sign a PUT for each of the others.

    A pack that was sent before, but not confirmed, is looked for in the store once. Raises StorageLimitReached.
    """
    prolong(actor=actor, upload=upload)
    for offer in offers:
        if not 0 < offer.body.size_bytes <= MAX_PACK_BYTES:
            raise InvalidInput(f"A pack has 1 to {MAX_PACK_BYTES} bytes.")
    store = open_dataset_store(upload.dataset)
    sizes = {offer.id: offer.body.size_bytes for offer in offers}
    with transaction.atomic():
        packs.require_space(upload.dataset, sizes)
        claimed = packs.claim(upload.dataset, sizes)
    there = _find_there(store, claimed)
    return [_answer(store, offer, pack_key(offer.id), is_there=offer.id in there) for offer in offers]


def confirm_packs(*, actor: Actor, upload: UploadSession, names: Sequence[str]) -> list[Answer]:
    """Look for the packs in the store and record those that are there as complete.

    Of a pack that was damaged every byte is read. Raises PackMissing naming those that are not there; the others are
    confirmed all the same. Raises StorageLimitReached where the space of one that took long has gone to others: it is
    found in the store, and not sent again, when it is offered once there is space.
    """
    prolong(actor=actor, upload=upload)
    dataset = upload.dataset
    packs.check_packs(dataset, dataset.packs.filter(sha256__in=names, state=PackState.DAMAGED))
    sizes = dict(dataset.packs.filter(sha256__in=names).values_list("sha256", "size_bytes"))
    with transaction.atomic():
        packs.require_space(dataset, sizes)
        claimed = packs.claim(dataset, sizes)
    there = _find_there(open_dataset_store(dataset), claimed)
    if missing := sorted(set(names) - there):
        raise PackMissing(f"{count_of(len(missing), 'pack')} did not arrive in the store.", packs=missing)
    return [Answer(ObjectKind.PACK, sha256, None) for sha256 in names]


def offer_manifests(*, actor: Actor, upload: UploadSession, offers: Sequence[Offer]) -> list[Answer]:
    """Say which ranges and roots are known to be right, and sign a PUT for each of the others."""
    prolong(actor=actor, upload=upload)
    for offer in offers:
        if not 0 < offer.body.size_bytes <= _MAX_MANIFEST_BYTES:
            raise InvalidInput(f"A manifest has 1 to {_MAX_MANIFEST_BYTES} bytes.")
    dataset = upload.dataset
    store = open_dataset_store(dataset)
    ranges = [offer.id for offer in offers if offer.kind == ObjectKind.RANGE]
    if dataset.is_internal:
        tree_writing.touch_manifests(ManifestRange.objects.filter(dataset=dataset, range_id__in=ranges))
    roots = [offer.id for offer in offers if offer.kind == ObjectKind.ROOT]
    there = {
        *((ObjectKind.RANGE, known_id) for known_id in _known(ManifestRange, dataset, "range_id", ranges)),
        *((ObjectKind.ROOT, known_id) for known_id in _known(Commit, dataset, "root", roots)),
    }
    key_of: dict[ObjectKind, Callable[[str], str]] = {ObjectKind.RANGE: range_key, ObjectKind.ROOT: root_key}
    return [
        _answer(store, offer, key_of[offer.kind](offer.id), is_there=(offer.kind, offer.id) in there)
        for offer in offers
    ]


@transaction.atomic
def cancel_upload(*, actor: Actor, upload: UploadSession) -> None:
    """Give an upload up. What it brought leaves with the next garbage; one that has ended already is left alone."""
    require(actor, permissions.COMMIT, upload.dataset.project_id)
    if UploadSession.objects.filter(pk=upload.pk, state=UploadState.OPEN).update(state=UploadState.CANCELLED):
        upload.parts.all().delete()
        audit.record(
            actor, "datasets.cancel_upload", upload, project_id=upload.dataset.project_id, dataset=upload.dataset.name
        )


def prolong(*, actor: Actor, upload: UploadSession) -> None:
    """Let a session live on from now. Raises UploadClosed."""
    require(actor, permissions.COMMIT, upload.dataset.project_id)
    now = clock.now()
    is_open = UploadSession.objects.filter(pk=upload.pk, state=UploadState.OPEN, expires_at__gt=now)
    if not is_open.update(expires_at=now + SESSION_LIFETIME):
        raise UploadClosed("This upload has ended or expired.")


def _find_there(store: ScopedStore, claimed: ClaimedPacks) -> set[str]:
    """Return the names of the packs that the store holds, looking for those that are not recorded as complete."""
    rows = claimed.rows.values()
    there = {pack.sha256 for pack in rows if pack.state == PackState.COMPLETE}
    pending = [pack for pack in rows if pack.state == PackState.PENDING and pack.sha256 not in claimed.new]
    if pending:
        with ThreadPoolExecutor(min(_HEADS_AT_ONCE, len(pending)), thread_name_prefix="head") as pool:
            stats = list(pool.map(store.stat, [pack_key(pack.sha256) for pack in pending]))
        arrived = [
            pack
            for pack, stat in zip(pending, stats, strict=True)
            if stat is not None and stat.size_bytes == pack.size_bytes
        ]
        packs.mark_complete(arrived)
        there.update(pack.sha256 for pack in arrived)
    return there


def _known(model: type[ManifestRange] | type[Commit], dataset: Dataset, field: str, ids: Sequence[str]) -> set[str]:
    if not ids:
        return set()
    return set(model._default_manager.filter(dataset=dataset, **{f"{field}__in": ids}).values_list(field, flat=True))


def _answer(store: ScopedStore, offer: Offer, key: str, *, is_there: bool) -> Answer:
    if is_there:
        return Answer(offer.kind, offer.id, None)
    request = store.sign_put(key, offer.body, now=clock.now(), lifetime_s=int(SIGNED_LIFETIME.total_seconds()))
    return Answer(offer.kind, offer.id, request)
