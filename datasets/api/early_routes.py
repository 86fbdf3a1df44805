"""Routes for jobs that read a cached commit while it is being filled. A token of a person opens none of them."""

from django.http import HttpRequest
from ninja import Field, Router, Schema, Status

from core.bodies import BodySchema
from datasets.api import schemas
from datasets.engine.cache_states import CacheState
from datasets.models import CachedCommit
from datasets.selectors.commits import CommitView
from datasets.services.downloads import Wanted
from datasets.workers import early_reading


class EarlyRequest(HttpRequest):
    """A request of a job that reads a copy early."""

    copy: CachedCommit


def authenticate_reader(request: HttpRequest) -> CachedCommit:
    """Return the copy that the calling job reads and note it on the request. Raises NotSignedIn."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    copy = early_reading.authenticate(secret.strip() if scheme.lower() == "bearer" else "")
    request.copy = copy  # type: ignore[attr-defined]
    return copy


router = Router(auth=authenticate_reader)


class EarlyCopyOut(Schema):
    """A cached commit that is read while it is being filled."""

    commit: schemas.CommitOut
    is_complete: bool = Field(description="Whether all its files are in place.")
    error: str = Field(description="Why it could not be filled; empty: it was, or is being filled.")


class NextPacksIn(BodySchema):
    """What a job reads next."""

    packs: list[schemas.Hash] = Field(max_length=64, description="In the order in which they are needed.")


@router.get("/copy/early", response=EarlyCopyOut, operation_id="cache_get_early_copy")
def get_early_copy(request: EarlyRequest) -> EarlyCopyOut:
    """Return the commit that the calling job reads, and whether its copy is complete, or why it cannot be."""
    copy = request.copy
    commit = schemas.CommitOut.of(CommitView(copy.commit, (), (), ()))
    error = (copy.error or "It could not be cached.") if copy.state == CacheState.FAILED else ""
    return EarlyCopyOut(commit=commit, is_complete=copy.state == CacheState.READY, error=error)


@router.post("/copy/early/downloads", response=schemas.DownloadsOut, operation_id="cache_sign_early_downloads")
def sign_downloads(request: EarlyRequest, body: schemas.DownloadsIn) -> schemas.DownloadsOut:
    """Return requests by which objects of the copy's dataset can be read straight from the store."""
    signed = early_reading.sign_downloads(copy=request.copy, objects=[Wanted(one.kind, one.id) for one in body.objects])
    return schemas.DownloadsOut(items=[schemas.DownloadOut.of(one) for one in signed])


@router.post("/copy/early/wanted", response={204: None}, operation_id="cache_want_packs")
def request_packs(request: EarlyRequest, body: NextPacksIn) -> Status[None]:
    """Say which packs the calling job needs next: they are fetched before the others."""
    early_reading.request_packs(copy=request.copy, packs=body.packs)
    return Status(204, None)
