"""Routes of what projects store, and of its limits."""

from ninja import Router, Schema
from pydantic import Field

from accounts.api.auth import ApiRequest
from accounts.selectors import get_project
from core.bodies import BodySchema
from core.bounds import Bytes
from datasets.selectors import storage
from datasets.selectors.storage import ProjectStorage
from datasets.services import storage_limits

router = Router()


class StoragePartOut(Schema):
    """What one dataset stores, or the outputs and code of jobs."""

    name: str
    stored_bytes: int
    is_dataset: bool


class ProjectStorageOut(Schema):
    """What a project stores. `limit_bytes` null: it has no limit. `leaving_bytes` is not counted: nothing needs it."""

    project: str = Field(alias="project_name")
    used_bytes: int
    leaving_bytes: int
    limit_bytes: int | None
    parts: list[StoragePartOut]


class StorageLimitIn(BodySchema):
    """The most bytes that a project may store; null lifts the limit."""

    limit_bytes: Bytes | None


@router.get("/projects/{project}/storage", response=ProjectStorageOut, operation_id="datasets_get_storage")
def get_storage(request: ApiRequest, project: str) -> ProjectStorage:
    """Return what a project stores, its limit, and what takes most."""
    return storage.measure_project(actor=request.actor, project=get_project(actor=request.actor, name=project))


@router.patch("/projects/{project}/storage", response=ProjectStorageOut, operation_id="datasets_set_storage_limit")
def set_storage_limit(request: ApiRequest, project: str, body: StorageLimitIn) -> ProjectStorage:
    """Limit what a project stores. For site admins."""
    found = get_project(actor=request.actor, name=project)
    storage_limits.set_limit(actor=request.actor, project=found, limit_bytes=body.limit_bytes)
    return storage.measure_project(actor=request.actor, project=found)
