"""Pointing the database at a copy of a bucket: under another name or prefix, or on another server."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from accounts import audit
from accounts.permissions import Actor
from core import clock
from datasets.adapters.opening import encrypt_credentials
from datasets.engine.layout import dataset_prefix, map_key, pack_key, range_key, root_key
from datasets.engine.ports import PutProof
from datasets.errors import InvalidStore
from datasets.models import Commit, Dataset, ManifestRange, Pack, PackState, Store, StoredTree, StoreKind
from datasets.workers.stored_datasets import Objects, list_objects

_SYSTEM = Actor.system("move stores")
_NAMED = 5


@dataclass(frozen=True)
class CopyReport:
    """What the bucket of the settings holds of what the database knows of a store. `missing` names the first keys."""

    location: str
    datasets: int
    objects: int
    missing: Sequence[str]
    missing_count: int


def check_copy(store: Store) -> CopyReport:
    """Compare the bucket that the settings name with what the database knows of a store: names and sizes, no bytes.

    Content is named by its hash, so no other store has these objects. Raises InvalidStore where the settings name no
    other bucket, StoreUnreachable.
    """
    # boto3 takes long to load and much memory, and most installations on one machine never need it.
    from datasets.adapters.s3 import S3Location, S3Store  # noqa: PLC0415

    chosen = settings.NEARLINE
    if store.kind != StoreKind.S3 or not chosen.store_url:
        raise InvalidStore("Only a bucket is moved, to the one that NEARLINE_STORE_URL names.")
    if store.location == chosen.store_url:
        raise InvalidStore(f"{store.name} is the bucket that NEARLINE_STORE_URL names: set it to the copy's address.")
    copy = S3Store(
        S3Location.parse(chosen.store_url),
        access_key=chosen.store_access_key,
        secret_key=chosen.store_secret_key,
        put_proof=PutProof(store.put_proof),
    )
    objects = list_objects(copy)
    dataset_ids = list(Dataset.objects.filter(store=store, purged_at=None).order_by("pk").values_list("pk", flat=True))
    count, missing = 0, []
    for id_ in dataset_ids:
        known, absent = _compare(id_, objects.get(id_, Objects()))
        count += known
        missing += [f"{dataset_prefix(id_)}/{key}" for key in absent]
    return CopyReport(chosen.store_url, len(dataset_ids), count, missing[:_NAMED], len(missing))


def move_store(store: Store) -> CopyReport:
    """Use the bucket that the settings name for all that a store holds, once it proved to be a copy of it.

    Nothing else may write meanwhile. Raises InvalidStore where something is missing, and what `check_copy` raises.
    """
    report = check_copy(store)
    if report.missing_count:
        raise InvalidStore(f"{report.location} lacks {report.missing_count:,} of {report.objects:,} objects.")
    from datasets.adapters.s3 import S3Location  # noqa: PLC0415 (as above)
    from datasets.adapters.s3_report import probe_put_proof  # noqa: PLC0415

    chosen = settings.NEARLINE
    keys = {"access_key": chosen.store_access_key, "secret_key": chosen.store_secret_key}
    proof = probe_put_proof(S3Location.parse(report.location), **keys, now=clock.now())
    with transaction.atomic():
        _move(store, report.location, encrypt_credentials(keys), proof=str(proof))
    return report


def _move(store: Store, location: str, credentials: bytes, *, proof: str) -> None:
    row, name = Store.objects.select_for_update().get(pk=store.pk), location.split("?", 1)[0]
    namesake = Store.objects.filter(name=name).exclude(pk=row.pk).first()
    if namesake is not None:
        if Dataset.objects.filter(store=namesake).exists():
            raise InvalidStore(f"Datasets were made in {name} already, as in a store of its own.")
        row.is_default = row.is_default or namesake.is_default
        namesake.delete()  # `setup` made it before, with the settings of the copy
    before, row.name, row.location, row.credentials, row.put_proof = row.location, name, location, credentials, proof
    row.save()
    audit.record(_SYSTEM, "datasets.move_store", row, before=before, location=location)


def _compare(dataset_id: str, objects: Objects) -> tuple[int, list[str]]:
    """Return how many objects of a dataset the database knows, and the keys of those that are not there."""
    own = Pack.objects.filter(dataset=dataset_id, lender=None, state=PackState.COMPLETE)
    packs = dict(own.filter(origin=None).values_list("sha256", "size_bytes"))
    maps = set(own.exclude(origin=None).values_list("sha256", flat=True))
    ranges = set(_settled(ManifestRange, dataset_id).filter(is_committed=True).values_list("range_id", flat=True))
    roots = set(Commit.objects.filter(dataset=dataset_id).values_list("root", flat=True))
    roots.update(_settled(StoredTree, dataset_id).values_list("root", flat=True))
    missing = [
        *(pack_key(name) for name, size_bytes in packs.items() if objects.packs.get(name) != size_bytes),
        *map(map_key, maps - objects.maps - objects.packs.keys()),
        *map(range_key, ranges - objects.ranges),
        *map(root_key, roots - objects.roots),
    ]
    return len(packs) + len(maps) + len(ranges) + len(roots), sorted(missing)


def _settled(model: type[ManifestRange] | type[StoredTree], dataset_id: str) -> QuerySet[Any]:
    """Return the rows that nobody is deleting."""
    return model.objects.filter(dataset=dataset_id, due_at=None)
