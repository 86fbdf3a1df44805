"""What the endpoint of stores does for who holds a signed address, which is all the right that it asks for.

It serves folder stores, and of every store the packs whose content lies in a source.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from core import clock
from datasets.adapters.folder import FolderStore, GrowingFile, StoreGrant
from datasets.adapters.opening import open_dataset_store, open_folder
from datasets.engine.ports import Announcement
from datasets.errors import BlobMissing, BodyRefused, SignatureInvalid
from datasets.models import Dataset, Store, StoreKind

_CHUNK: Final = 1024 * 1024


@dataclass(frozen=True)
class StoreDownload:
    """What a signed GET leads to. `read` yields a part; what is wrong it raises at once where it can be known."""

    size_bytes: int
    read: Callable[[int, int], Iterator[bytes]]


def open_signed(*, signed: str, content_length: int | None) -> GrowingFile:
    """Return what takes the body of a signed PUT to a folder store; the caller finishes it and always discards it.

    Raises SignatureInvalid, SignatureExpired, and BodyRefused when another length is to come than was announced.
    """
    grant = StoreGrant.unseal(signed, method="PUT", now=clock.now())
    if content_length is not None and content_length != grant.size_bytes:
        raise BodyRefused(f"{content_length} bytes were to be sent where {grant.size_bytes} were announced.")
    return _open_granted(grant).open_put(grant.key, Announcement(grant.size_bytes, grant.sha256))


def find_signed(*, signed: str) -> StoreDownload:
    """Return what a signed GET reads: an object of a folder store, or a pack of a dataset that has only a map.

    Such a pack is read before the answer begins, as far as it is asked for: so no answer breaks off because a file
    was changed. Raises SignatureInvalid, SignatureExpired, BlobMissing.
    """
    grant = StoreGrant.unseal(signed, method="GET", now=clock.now())
    dataset = Dataset.objects.select_related("store").filter(pk=grant.store_id).first()
    store = _open_granted(grant) if dataset is None else open_dataset_store(dataset)
    status = store.stat(grant.key)
    if status is None:
        raise BlobMissing(f"The store has no object {grant.key}.", key=grant.key)
    if isinstance(store, FolderStore):
        return StoreDownload(status.size_bytes, partial(_read_file, store.path_of(grant.key)))
    return StoreDownload(status.size_bytes, lambda first, size: iter([store.get_range(grant.key, first, size)]))


def _read_file(path: Path, first: int, size: int) -> Iterator[bytes]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        while size > 0 and (chunk := os.pread(descriptor, min(size, _CHUNK), first)):
            yield chunk
            first, size = first + len(chunk), size - len(chunk)
    finally:
        os.close(descriptor)


def _open_granted(grant: StoreGrant) -> FolderStore:
    store = Store.objects.filter(pk=grant.store_id, kind=StoreKind.FOLDER).first()
    if store is None:
        raise SignatureInvalid("This store address belongs to a store that is gone.")
    return open_folder(store)
