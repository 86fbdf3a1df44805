"""Sources: the folders and parts of buckets that files may be imported from in place, and the projects that may.

Only site admins name places. Whoever imports names a source and a path below it, so nobody can make the platform read
anything else.
"""

import re
from collections.abc import Collection
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction
from django.db.models import ProtectedError

from accounts import audit
from accounts.models import Project
from accounts.permissions import Actor, require_site_admin
from core import clock
from core.tasks import enqueue_on_commit
from datasets.adapters.opening import credentials_of, encrypt_credentials, open_source
from datasets.adapters.sites.registry import get_kind
from datasets.engine.ports import SourceFiles
from datasets.errors import InvalidSource, InvalidStore, SourceInUse, SourceUnreachable
from datasets.models import (
    CacheSite,
    CacheSiteKind,
    FileSource,
    ImportState,
    InPlaceImport,
    SourceKind,
    Store,
    StoreKind,
)
from datasets.selectors.sources import get_source

if TYPE_CHECKING:
    from datasets.adapters.s3 import S3Location

_DEED = "name the sources of imports"
_LOOKED_AT = 1000
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def set_source(
    *,
    actor: Actor,
    name: str,
    location: str = "",
    access_key: str = "",
    secret_key: str = "",
    projects: Collection[Project] | None = None,
) -> FileSource:
    """Let projects import from a folder, or from `s3://bucket/prefix?endpoint=…&region=…`. It is tried out first.

    `site://NAME` is a cache site of kind existing without a commit: its files, on a volume of a cluster, become one.

    Of a source that is there, what is not given stays; files may have moved to another place with their names. Without
    keys, those of a store in the same bucket are used; they are kept encrypted. Raises InvalidSource and
    SourceFileMissing.
    """
    require_site_admin(actor, _DEED)
    if not _NAME.fullmatch(name):
        raise InvalidSource("A name has 1 to 63 small letters, digits and dashes, and no dash at its ends.")
    source = FileSource.objects.filter(name=name).first() or FileSource(name=name)
    # Projects can lose a source that cannot be reached.
    if location or access_key or not source.location:
        _place(source, location or source.location, access_key, secret_key)
    with transaction.atomic():
        source.save()
        if projects is not None:
            source.projects.set(projects)
        audit.record(
            actor,
            "datasets.set_source",
            source,
            kind=str(source.kind),
            projects=sorted(source.projects.values_list("name", flat=True)),
        )
    return source


def require_manage(*, actor: Actor) -> None:
    """Raise PermissionDenied unless the actor may name sources."""
    require_site_admin(actor, _DEED)


def check_source(*, actor: Actor, name: str) -> int:
    """Require that a source can be listed, and a file of it read; have its imports compared with it, and count those.

    Raises SourceNotFound, SourceUnreachable, SourceFileMissing, SourceFileChanged; of a volume InvalidSource,
    InvalidCacheSite and CacheSiteUnavailable.
    """
    require_site_admin(actor, _DEED)
    source = get_source(actor=actor, name=name)
    if source.kind == SourceKind.SITE:
        _check_site(source)
    else:
        _read_one(open_source(source))
    with transaction.atomic():
        states = [ImportState.REFERENCED, ImportState.PROMOTING]
        rows = InPlaceImport.objects.filter(source=source, state__in=states, dataset__deleted_at=None)
        ids = list(rows.values_list("pk", flat=True))
        rows.update(check_requested_at=clock.now())
        audit.record(actor, "datasets.check_source", source)
        for id_ in ids:
            enqueue_on_commit("datasets.work_on_import", import_id=id_)
    return len(ids)


def remove_source(*, actor: Actor, name: str) -> None:
    """Forget a source, and its keys. Its files are not touched. Raises SourceNotFound, SourceInUse."""
    require_site_admin(actor, _DEED)
    source = get_source(actor=actor, name=name)
    try:
        with transaction.atomic():
            # What needs it no more stays as a record of where it came from only as long as the source does.
            source.imports.filter(packs=None).delete()
            audit.record(actor, "datasets.remove_source", source)
            source.delete()
    except ProtectedError as error:
        raise SourceInUse(f"Datasets refer to files of '{source.name}'.") from error


def _read_one(files: SourceFiles) -> None:
    """Read from the first of its files: not all of a huge source are looked at."""
    first_file = next((file for file in islice(files.list_files(b""), _LOOKED_AT) if file.size_bytes), None)
    if first_file is not None:
        with files.open(first_file) as stream:
            stream.read(1)


def _place(source: FileSource, place: str, access_key: str, secret_key: str) -> None:
    """Set where a source lies, once it has answered."""
    if place.startswith("site://"):
        source.kind, source.credentials, source.location = SourceKind.SITE, b"", place
        _check_site(source)
        return
    if place.startswith("s3://"):
        known = bytes(source.credentials) if place == source.location else b""
        source.kind, source.credentials = SourceKind.S3, _check_bucket(place, access_key, secret_key) or known
        if not source.credentials:
            raise InvalidSource("Give the keys of the bucket: no store lies in it.")
    else:
        place, source.kind, source.credentials = str(_check_folder(place)), SourceKind.FOLDER, b""
    source.location = place
    try:
        next(iter(open_source(source).list_files(b"")), None)
    except SourceUnreachable as error:
        raise InvalidSource(error.message) from error


def _check_site(source: FileSource) -> None:
    """Require a cache site of existing files that answers."""
    site = CacheSite.objects.filter(name=source.site_name, kind=CacheSiteKind.EXISTING).first()
    if site is None:
        raise InvalidSource(f"There is no cache site of kind existing called '{source.site_name}'.")
    config = {key: value for key, value in site.config.items() if key != "imported"}
    get_kind(site.kind).check(CacheSite(name=site.name, kind=site.kind, config=config))


def _check_folder(location: str) -> Path:
    """Return the real path of a folder. What the platform keeps of its own is no source: it would be open to all."""
    if not Path(location).is_absolute():
        raise InvalidSource(
            f"'{location}' is neither an absolute path nor of the form s3://bucket/prefix?endpoint=…&region=…."
        )
    folder = Path(location).resolve()
    if not folder.is_dir():
        raise InvalidSource(f"'{location}' is no folder of this machine.")
    stores = Store.objects.filter(kind=StoreKind.FOLDER).values_list("location", flat=True)
    for own in (Path(settings.NEARLINE.home).resolve(), *(Path(place).resolve() for place in stores)):
        if folder.is_relative_to(own) or own.is_relative_to(folder):
            raise InvalidSource(f"'{location}' holds, or lies in, what Nearline keeps of its own in '{own}'.")
    return folder


def _check_bucket(location: str, access_key: str, secret_key: str) -> bytes:
    """Return the keys of a bucket, encrypted; empty where none are known. Where datasets lie is no source."""
    from datasets.adapters.s3 import S3Location  # noqa: PLC0415 (boto3 takes long to load)

    try:
        target = S3Location.parse(location)
    except InvalidStore as error:
        raise InvalidSource(error.message) from error
    credentials: dict[str, str] = {}
    for store in Store.objects.filter(kind=StoreKind.S3):
        other = S3Location.parse(store.location)
        if (other.endpoint, other.bucket) != (target.endpoint, target.bucket):
            continue
        credentials = credentials_of(store)
        if _overlap(target, other):
            raise InvalidSource(f"'{location}' holds, or lies in, what the store '{store.name}' keeps of datasets.")
    if access_key or secret_key:
        credentials = {"access_key": access_key, "secret_key": secret_key}
    return encrypt_credentials(credentials)


def _overlap(source: "S3Location", store: "S3Location") -> bool:
    datasets_prefix = f"{store.prefix}datasets/"
    return source.prefix.startswith(datasets_prefix) or datasets_prefix.startswith(source.prefix)
