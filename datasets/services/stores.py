"""Stores: registered, tried out, and which one new datasets go to."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction

from accounts import audit
from accounts.permissions import Actor, require_site_admin
from core import clock
from core.encryption import CredentialsUnreadable
from datasets.adapters import folder_marks
from datasets.adapters.folder import FolderStore
from datasets.adapters.opening import credentials_of, encrypt_credentials
from datasets.engine.ports import PutProof
from datasets.errors import InvalidStore, StoreUnreachable
from datasets.models import Dataset, Pack, PackState, Store, StoreKind

if TYPE_CHECKING:
    from datasets.adapters.s3_report import StoreReport

_FOLDER_STORE_NAME = "folder"


def ensure_default_store(*, actor: Actor) -> Store:
    """Make the store that the settings name the default one, registering it at its first mention.

    Raises InvalidStore and StoreUnreachable when an S3 store cannot be used.
    """
    chosen = settings.NEARLINE
    if chosen.store_url:
        store = register_s3_store(
            actor=actor,
            name=chosen.store_url.split("?", 1)[0],
            location=chosen.store_url,
            access_key=chosen.store_access_key,
            secret_key=chosen.store_secret_key,
        )
    else:
        store = register_folder_store(actor=actor, name=_FOLDER_STORE_NAME, folder=chosen.home / "store")
    _adopt_folders(actor)
    store.refresh_from_db(fields=["mark"])
    return store


def register_folder_store(*, actor: Actor, name: str, folder: Path) -> Store:
    """Make a folder the default store. Registered again under its name, it may have moved.

    A folder that should hold something is neither made nor marked: without its mark it does not answer.
    """
    require_site_admin(actor, "register stores")
    known = Store.objects.filter(name=name, kind=StoreKind.FOLDER).first()
    if known is not None and (_holds_objects(known) or (known.mark and known.location == str(folder))):
        mark = known.mark
    else:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            mark = folder_marks.ensure_mark(folder, folder_marks.STORE_MARK)
        except OSError as error:
            raise InvalidStore(f"The folder {folder} cannot be made: {error.strerror}.") from error
    return _register(
        actor,
        name,
        kind=StoreKind.FOLDER,
        location=str(folder),
        credentials={},
        put_proof=FolderStore.put_proof,
        mark=mark,
    )


def adopt_folder(*, actor: Actor, store: Store) -> None:
    """Take the folder that lies where a store has its own as the store's, by its mark, which it gets if it has none.

    Raises StoreUnreachable for a folder that is not there or has never held an object.
    """
    require_site_admin(actor, "register stores")
    folder = Path(store.location)
    try:
        if not (folder_marks.read_mark(folder, folder_marks.STORE_MARK) or folder_marks.holds_objects(folder)):
            raise StoreUnreachable(f"The store's folder {folder} is not there, or empty. Is its disk mounted?")
        mark = folder_marks.ensure_mark(folder, folder_marks.STORE_MARK)
    except OSError as error:
        raise StoreUnreachable(f"The store's folder cannot be written: {error.strerror}.") from error
    if mark == store.mark:
        return
    with transaction.atomic():
        store.mark = mark
        store.save(update_fields=["mark"])
        audit.record(actor, "datasets.adopt_folder", store)


def register_s3_store(*, actor: Actor, name: str, location: str, access_key: str, secret_key: str) -> Store:
    """Make a bucket the default store. The server is tried out, unless it is registered just like this already.

    Raises InvalidStore when the address makes no sense or the server refuses us, StoreUnreachable when it is away.
    """
    require_site_admin(actor, "register stores")
    # boto3 takes long to load and much memory, and most installations on one machine never need it.
    from datasets.adapters.s3 import S3Location  # noqa: PLC0415
    from datasets.adapters.s3_report import probe_put_proof  # noqa: PLC0415

    parsed = S3Location.parse(location)
    credentials = {"access_key": access_key, "secret_key": secret_key}
    known = Store.objects.filter(name=name, kind=StoreKind.S3, location=location).first()
    if known is not None and _has_credentials(known, credentials):
        proof = PutProof(known.put_proof)
    else:
        proof = probe_put_proof(parsed, access_key=access_key, secret_key=secret_key, now=clock.now())
    return _register(actor, name, kind=StoreKind.S3, location=location, credentials=credentials, put_proof=proof)


def report_on_store(*, actor: Actor, store: Store) -> "StoreReport":
    """Try out on a bucket what is asked of it, and use from now on the strongest proof of uploads that was seen.

    Raises InvalidStore for a folder, and where the server refuses us, StoreUnreachable when it is away.
    """
    require_site_admin(actor, "try out stores")
    if store.kind != StoreKind.S3:
        raise InvalidStore(f"{store.name} is a folder; only buckets are tried out.")
    from datasets.adapters.s3 import S3Location  # noqa: PLC0415 (as above)
    from datasets.adapters.s3_report import report_on  # noqa: PLC0415

    report = report_on(S3Location.parse(store.location), **credentials_of(store), now=clock.now())
    with transaction.atomic():
        if Store.objects.filter(pk=store.pk).exclude(put_proof=report.put_proof).update(put_proof=report.put_proof):
            audit.record(actor, "datasets.try_out_store", store, put_proof=str(report.put_proof))
    return report


def _adopt_folders(actor: Actor) -> None:
    """Mark the folders of earlier versions that are there."""
    for store in Store.objects.filter(kind=StoreKind.FOLDER, mark="").order_by("pk"):
        with suppress(StoreUnreachable):  # it is tried again at the next start
            adopt_folder(actor=actor, store=store)


def _holds_objects(store: Store) -> bool:
    """Whether a store was given anything that is to be there."""
    datasets = Dataset.objects.filter(store=store, purged_at=None)
    packs = Pack.objects.filter(dataset__in=datasets, lender=None, state=PackState.COMPLETE)
    return datasets.filter(recorded_version__gt=0).exists() or packs.exists()


def _has_credentials(store: Store, credentials: dict[str, str]) -> bool:
    """Whether these are the credentials of a store; what another key of the installation encrypted is replaced."""
    try:
        return credentials_of(store) == credentials
    except CredentialsUnreadable:
        return False


@transaction.atomic
def _register(
    actor: Actor,
    name: str,
    *,
    kind: StoreKind,
    location: str,
    credentials: dict[str, str],
    put_proof: PutProof,
    mark: str = "",
) -> Store:
    store = Store.objects.select_for_update().filter(name=name).first() or Store(name=name)
    is_same = (
        not store._state.adding  # noqa: SLF001 (Django's documented way to tell a new row)
        and (store.kind, store.location, store.put_proof, store.is_default, store.mark)
        == (kind, location, put_proof, True, mark)
        and _has_credentials(store, credentials)
    )
    if is_same:
        return store
    Store.objects.filter(is_default=True).exclude(pk=store.pk).update(is_default=False)
    store.kind, store.location, store.put_proof, store.is_default, store.mark = kind, location, put_proof, True, mark
    store.credentials = encrypt_credentials(credentials)
    store.save()
    audit.record(actor, "datasets.register_store", store, kind=str(kind), put_proof=str(put_proof))
    return store
