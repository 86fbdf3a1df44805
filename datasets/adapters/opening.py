"""From a row of a store or a source to its adapter: which technology serves it, with which credentials."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.db.models import QuerySet

from core import encryption
from datasets.adapters.folder import FolderStore
from datasets.adapters.scoped import MappedPacks, ScopedStore
from datasets.adapters.sources.folder import SourceFolder
from datasets.adapters.sources.volume import SourceVolume
from datasets.engine.layout import dataset_prefix, pack_key
from datasets.engine.ports import BlobStore, PutProof, SignedRequest, SourceFiles
from datasets.errors import SourceUnreachable
from datasets.models import Dataset, FileSource, Pack, SourceKind, Store, StoreKind


def open_store(store: Store) -> BlobStore:
    """Return the adapter of a store. Cheap: adapters are kept as long as the row says the same."""
    if store.kind == StoreKind.FOLDER:
        return open_folder(store)
    return _open_s3(store.location, bytes(store.credentials), store.put_proof)


def open_folder(store: Store) -> FolderStore:
    """Return the adapter of a store that is a folder."""
    return _open_folder(store.location, store.id, store.name, store.mark, settings.NEARLINE.url)


def open_dataset_store(dataset: Dataset) -> ScopedStore:
    """Return the part of a store that holds one dataset; its keys are those of `engine.layout`.

    Packs that the dataset borrows are found where they lie, and those that were imported in place in their source.
    """
    lent = Pack.objects.filter(dataset=dataset, lender__isnull=False).values_list("sha256", "lender__dataset_id")
    # One statement for both, since this is done for nearly every request.
    rows = dict(lent.union(_list_origins(dataset), all=True))
    borrowed = {sha256: place for sha256, place in rows.items() if place.startswith(f"{Dataset.id_prefix}_")}
    origins = {sha256: place for sha256, place in rows.items() if sha256 not in borrowed}
    lenders = Dataset.objects.select_related("store").in_bulk(set(borrowed.values())) if borrowed else {}
    parts = {id_: open_manifests(lender) for id_, lender in lenders.items()}
    return ScopedStore(
        open_store(dataset.store),
        dataset_prefix(dataset.id),
        {pack_key(sha256): parts[lender] for sha256, lender in borrowed.items()},
        _map_packs(dataset, origins),
    )


def open_mapped_packs(dataset: Dataset) -> MappedPacks:
    """Return the packs of a dataset whose content lies in sources. Internal datasets, which lend packs, have none."""
    return _map_packs(dataset, dict(_list_origins(dataset)))


def _list_origins(dataset: Dataset) -> "QuerySet[Pack, tuple[str, str]]":
    mapped = Pack.objects.filter(dataset=dataset, origin__isnull=False)
    return mapped.values_list("sha256", "origin__source_id")


def _map_packs(dataset: Dataset, origins: Mapping[str, str]) -> MappedPacks:
    sources = FileSource.objects.in_bulk(set(origins.values())) if origins else {}
    return MappedPacks(
        dataset.id,
        open_manifests(dataset),
        {pack_key(sha256): source for sha256, source in origins.items()},
        lambda id_: open_source(sources[id_]),
        settings.NEARLINE.url,
    )


def open_source(source: FileSource) -> SourceFiles:
    """Return the adapter of a source. Cheap. Raises SourceUnreachable while its keys are unknown."""
    if source.site_name:
        return SourceVolume(source.name, source.site_name)
    if source.kind == SourceKind.FOLDER:
        return SourceFolder(source.name, Path(source.location))
    if not source.credentials:
        raise SourceUnreachable(f"The keys of the source '{source.name}' are not known.", source=source.name)
    return _open_bucket(source.name, source.location, bytes(source.credentials))


def open_manifests(dataset: Dataset) -> ScopedStore:
    """Return the same for callers that read no pack: nothing but packs is ever borrowed."""
    return ScopedStore(open_store(dataset.store), dataset_prefix(dataset.id))


def as_path(request: SignedRequest) -> SignedRequest:
    """Return a request to the platform itself with a path for an address, and any other as it is."""
    ours = str(settings.NEARLINE.url).rstrip("/") + "/"
    is_ours = request.url.startswith(ours)
    return replace(request, url="/" + request.url.removeprefix(ours)) if is_ours else request


def encrypt_credentials(credentials: dict[str, str]) -> bytes:
    """Return what `Store.credentials` holds."""
    return encryption.encrypt(json.dumps(credentials, sort_keys=True)) if credentials else b""


def credentials_of(store: Store) -> dict[str, str]:
    """Return a store's credentials in the clear."""
    return _decrypt(bytes(store.credentials))


@lru_cache(maxsize=16)
def _open_folder(location: str, store_id: str, name: str, mark: str, base_url: str) -> FolderStore:
    return FolderStore(Path(location), store_id=store_id, name=name, mark=mark, base_url=base_url)


@lru_cache(maxsize=16)
def _open_s3(location: str, ciphertext: bytes, put_proof: str) -> BlobStore:
    # boto3 takes long to load and much memory, and most installations on one machine never need it.
    from datasets.adapters.s3 import S3Location, S3Store  # noqa: PLC0415

    keys = _decrypt(ciphertext)
    return S3Store(
        S3Location.parse(location),
        access_key=keys["access_key"],
        secret_key=keys["secret_key"],
        put_proof=PutProof(put_proof),
    )


@lru_cache(maxsize=16)
def _open_bucket(name: str, location: str, ciphertext: bytes) -> SourceFiles:
    from datasets.adapters.s3 import S3Location  # noqa: PLC0415 (as above)
    from datasets.adapters.sources.bucket import SourceBucket  # noqa: PLC0415

    return SourceBucket(name, S3Location.parse(location), **_decrypt(ciphertext))


def _decrypt(ciphertext: bytes) -> dict[str, str]:
    if not ciphertext:
        return {}
    credentials: dict[str, str] = json.loads(encryption.decrypt(ciphertext, "The keys of the store"))
    return credentials
