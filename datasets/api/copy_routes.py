"""Routes for the pods that fill and verify cached commits. A token of a person opens none of them."""

from typing import Annotated

from django.http import HttpRequest
from ninja import Field, Router, Schema, Status

from core import bounds
from core.bodies import BodySchema
from datasets.api import schemas
from datasets.engine.volumes import MOST_PODS
from datasets.models import CachedCommit
from datasets.services.downloads import Wanted
from datasets.workers import copies


class CopyPodRequest(HttpRequest):
    """A request of a pod that works on a copy."""

    copy: CachedCommit


def authenticate_copy(request: HttpRequest) -> CachedCommit:
    """Return the copy whose pod is calling and note it on the request. Raises NotSignedIn.

    Refusals are not counted: nobody can guess what we have signed, and pods of evicted copies call from few addresses.
    """
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    copy = copies.authenticate(secret.strip() if scheme.lower() == "bearer" else "")
    request.copy = copy  # type: ignore[attr-defined]
    return copy


router = Router(auth=authenticate_copy)


class CopyOut(Schema):
    """The commit whose files are to be in a copy."""

    commit: str
    root: str
    files: int
    size_bytes: int


class CopyProgressIn(BodySchema):
    """How far a copy is, and where its bytes came from: a cloned volume, a mounted one, the store.

    Where several pods fill it: how far this `share` of so many `shares` is.
    """

    files_done: bounds.Offset
    bytes_done: bounds.Bytes
    bytes_shared: bounds.Bytes
    bytes_copied: bounds.Bytes
    bytes_moved: bounds.Bytes
    rate_bytes_s: bounds.Finite
    share: Annotated[int, Field(ge=0, le=MOST_PODS - 1, description="Which share the pod fills, from 0.")] = 0
    shares: Annotated[int, Field(ge=1, le=MOST_PODS, description="How many pods fill the copy.")] = 1


class CopyProgressOut(Schema):
    """What the platform tells who fills a copy."""

    next_packs: list[str] = Field(description="What jobs that read it meanwhile need next.")


@router.get("/copy", response=CopyOut, operation_id="cache_get_copy")
def get_copy(request: CopyPodRequest) -> CopyOut:
    """Return what the calling pod's copy is to hold."""
    commit = request.copy.commit
    return CopyOut(commit=commit.pk, root=commit.root, files=commit.files, size_bytes=commit.size_bytes)


@router.post("/copy/downloads", response=schemas.DownloadsOut, operation_id="cache_sign_copy_downloads")
def sign_downloads(request: CopyPodRequest, body: schemas.DownloadsIn) -> schemas.DownloadsOut:
    """Return requests by which objects of the copy's dataset can be read straight from the store."""
    signed = copies.sign_downloads(copy=request.copy, objects=[Wanted(one.kind, one.id) for one in body.objects])
    return schemas.DownloadsOut(items=[schemas.DownloadOut.of(one) for one in signed])


@router.post("/copy/progress", response=CopyProgressOut, operation_id="cache_report_copy_progress")
def report_progress(request: CopyPodRequest, body: CopyProgressIn) -> CopyProgressOut:
    """Say how far the calling pod's copy is."""
    return CopyProgressOut(next_packs=list(copies.report_progress(copy=request.copy, **body.model_dump())))


@router.post("/copy/damage", response={204: None}, operation_id="cache_report_copy_damage")
def report_damage(request: CopyPodRequest, body: schemas.DamagedPacksIn) -> Status[None]:
    """Say which packs the calling pod found damaged; the server reads them and decides."""
    copies.report_damage(copy=request.copy, packs=body.packs)
    return Status(204, None)
