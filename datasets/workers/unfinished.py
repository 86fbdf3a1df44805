"""Uploads that nobody finishes: their sessions end, and what they left in folder stores is removed."""

from core import clock, isolation
from datasets.adapters.opening import open_folder
from datasets.engine.ports import SIGNED_LIFETIME
from datasets.models import Store, StoreKind, UploadPart, UploadSession, UploadState


def expire_uploads() -> int:
    """End the sessions whose time is over and forget the parts of all that ended; return how many ended now."""
    late = UploadSession.objects.filter(state=UploadState.OPEN, expires_at__lte=clock.now())
    ended = late.update(state=UploadState.EXPIRED)
    UploadPart.objects.exclude(upload__state=UploadState.OPEN).delete()
    return ended


def sweep_unfinished() -> int:
    """Remove what killed uploads left in folder stores, once no signed address can go on with it."""
    before = clock.now() - 4 * SIGNED_LIFETIME
    stores = Store.objects.filter(kind=StoreKind.FOLDER).order_by("pk")
    return sum(
        isolation.for_each("datasets.sweep_store", stores, lambda store: open_folder(store).sweep(before=before))
    )
