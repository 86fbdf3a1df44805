"""Routes for the pods that import a folder of a cluster in place. A token of a person opens none of them."""

import base64
from typing import Annotated

from django.http import HttpRequest
from ninja import Router, Schema, Status
from pydantic import Field

from core import bounds
from core.bodies import BodySchema
from core.errors import InvalidInput
from datasets.api import schemas
from datasets.models import InPlaceImport
from datasets.workers import import_jobs

_Pack = Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="The name of a pack: the SHA-256 of its bytes.")]
_Data = Annotated[str, Field(max_length=14 << 20)]
_UploadId = Annotated[bounds.Name, Field(description="The id that the beginning answered with.")]


class ImportPodRequest(HttpRequest):
    """A request of a pod that works on an import."""

    row: InPlaceImport


def authenticate_import(request: HttpRequest) -> InPlaceImport:
    """Return the import whose pod is calling and note it on the request. Raises NotSignedIn."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    row = import_jobs.authenticate(secret.strip() if scheme.lower() == "bearer" else "")
    request.row = row  # type: ignore[attr-defined]
    return row


router = Router(auth=authenticate_import)


class ImportBeginIn(BodySchema):
    """How much there is to be read."""

    files: bounds.Offset = Field(description="Files to be read.")
    size_bytes: bounds.Bytes = Field(description="Their bytes.")


class ImportBeginOut(Schema):
    """Where what was read is sent."""

    upload_id: str = Field(description="The id under which it is sent.")


class ImportReadIn(BodySchema):
    """How much was read."""

    read_bytes: bounds.Bytes = Field(description="Bytes that were read so far.")


class ImportMapIn(BodySchema):
    """A pack that files make, and in base64 its map."""

    upload_id: _UploadId
    name: _Pack
    map: _Data = Field(description="The map of the pack, in base64.")


class ImportEntriesIn(BodySchema):
    """Entries whose packs were sent: in base64 a range of a manifest. What comes again under a number is the same."""

    upload_id: _UploadId
    number: bounds.Count = Field(description="What came before under this number stays.")
    entries: _Data = Field(description="A range of a manifest, in base64.")


class ImportCommitIn(BodySchema):
    """What is to become the commit."""

    upload_id: _UploadId


class ImportCommitOut(Schema):
    """The commit that was made."""

    commit: str = Field(description="Its id.")


class ImportNextIn(BodySchema):
    """The pack that was done last; empty: none."""

    after: Annotated[str, Field(max_length=64)] = Field(description="The name of that pack.")


class ImportNextOut(Schema):
    """A pack that the store does not have, and in base64 its map; empty: there is none."""

    name: str = Field(description="The name of the pack; empty: there is none.")
    map: str = Field(description="Its map, in base64.")


class ImportSignIn(BodySchema):
    """A pack that was put together from its files; `md5` in base64."""

    name: _Pack
    md5: Annotated[str, Field(max_length=32)] = Field(description="The MD5 of its bytes, in base64.")


class ImportStoredIn(BodySchema):
    """A pack that was sent to the store."""

    name: _Pack


@router.post("/import-job/begin", response=ImportBeginOut, operation_id="datasets_import_job_begin")
def begin(request: ImportPodRequest, body: ImportBeginIn) -> ImportBeginOut:
    """Say how much there is to be read. What an earlier pod sent is forgotten."""
    return ImportBeginOut(upload_id=import_jobs.begin(row=request.row, **body.model_dump()).pk)


@router.post("/import-job/progress", response={204: None}, operation_id="datasets_import_job_report_progress")
def report_progress(request: ImportPodRequest, body: ImportReadIn) -> Status[None]:
    """Say how much was read."""
    import_jobs.report_progress(row=request.row, read_bytes=body.read_bytes)
    return Status(204, None)


@router.post("/import-job/maps", response={204: None}, operation_id="datasets_import_job_send_map")
def send_map(request: ImportPodRequest, body: ImportMapIn) -> Status[None]:
    """Have the map of a pack kept."""
    import_jobs.keep_map(row=request.row, upload_id=body.upload_id, name=body.name, data=_decode(body.map))
    return Status(204, None)


@router.post("/import-job/entries", response={204: None}, operation_id="datasets_import_job_send_entries")
def send_entries(request: ImportPodRequest, body: ImportEntriesIn) -> Status[None]:
    """Have entries kept."""
    data = _decode(body.entries)
    import_jobs.keep_entries(row=request.row, upload_id=body.upload_id, number=body.number, data=data)
    return Status(204, None)


@router.post("/import-job/commit", response=ImportCommitOut, operation_id="datasets_import_job_commit")
def commit(request: ImportPodRequest, body: ImportCommitIn) -> ImportCommitOut:
    """Have the commit made of all that was sent."""
    return ImportCommitOut(commit=import_jobs.commit(row=request.row, upload_id=body.upload_id).pk)


@router.post("/import-job/next", response=ImportNextOut, operation_id="datasets_import_job_next_map")
def next_map(request: ImportPodRequest, body: ImportNextIn) -> ImportNextOut:
    """Return the next pack that is to be copied into the store."""
    name, data = import_jobs.next_map(row=request.row, after=body.after) or ("", b"")
    return ImportNextOut(name=name, map=base64.b64encode(data).decode())


@router.post("/import-job/sign", response=schemas.SignedRequestOut, operation_id="datasets_import_job_sign_pack")
def sign_pack(request: ImportPodRequest, body: ImportSignIn) -> schemas.SignedRequestOut:
    """Return the request by which a pack is sent straight to the store."""
    return schemas.SignedRequestOut.of(import_jobs.sign_pack(row=request.row, name=body.name, md5=body.md5))


@router.post("/import-job/stored", response={204: None}, operation_id="datasets_import_job_pack_stored")
def pack_stored(request: ImportPodRequest, body: ImportStoredIn) -> Status[None]:
    """Have a pack looked for in the store."""
    import_jobs.take_pack(row=request.row, name=body.name)
    return Status(204, None)


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InvalidInput("This is not base64.") from error
