"""What the endpoint of folder stores does for who holds a signed address, which is all the right that it asks for."""

from dataclasses import dataclass
from pathlib import Path

from core import clock
from datasets.adapters import store_grants
from datasets.adapters.folder import FolderStore
from datasets.adapters.growing_file import GrowingFile
from datasets.adapters.opening import open_folder
from datasets.adapters.store_grants import StoreGrant
from datasets.engine.ports import Announcement
from datasets.errors import BlobMissing, BodyRefused, SignatureInvalid
from datasets.models import Store, StoreKind


@dataclass(frozen=True)
class StoreDownload:
    """What a signed GET of the folder store leads to."""

    path: Path
    size_bytes: int


def open_signed(*, signed: str, content_length: int | None) -> GrowingFile:
    """Return what takes the body of a signed PUT to a folder store; the caller finishes it and always discards it.

    Raises SignatureInvalid, SignatureExpired, and BodyRefused when another length is to come than was announced.
    """
    grant = store_grants.unseal(signed, method="PUT", now=clock.now())
    if content_length is not None and content_length != grant.size_bytes:
        raise BodyRefused(f"{content_length} bytes were to be sent where {grant.size_bytes} were announced.")
    return _open_granted(grant).open_put(grant.key, Announcement(grant.size_bytes, grant.sha256))


def find_signed(*, signed: str) -> StoreDownload:
    """Return the file that a signed GET of a folder store reads.

    Raises SignatureInvalid, SignatureExpired, BlobMissing.
    """
    grant = store_grants.unseal(signed, method="GET", now=clock.now())
    store = _open_granted(grant)
    found = store.stat(grant.key)
    if found is None:
        raise BlobMissing(f"The store has no object {grant.key}.", key=grant.key)
    return StoreDownload(store.path_of(grant.key), found.size_bytes)


def _open_granted(grant: StoreGrant) -> FolderStore:
    store = Store.objects.filter(pk=grant.store_id, kind=StoreKind.FOLDER).first()
    if store is None:
        raise SignatureInvalid("This store address belongs to a store that is gone.")
    return open_folder(store)
