"""Routes of what projects store, and of its limits."""

from datetime import datetime

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

    name: str = Field(description="The dataset's name, or what else it is.")
    stored_bytes: int = Field(description="Bytes of its packs in the store.")
    is_deleted: bool = Field(description="Whether it is a deleted dataset that can be restored.")
    is_dataset: bool = Field(description="Whether it is a dataset, not the outputs and code of jobs.")


class ProjectStorageOut(Schema):
    """What a project stores."""

    project: str = Field(description="The project's name.")
    used_bytes: int = Field(description="Bytes of the packs that count against the limit.")
    unused_bytes: int = Field(description="Bytes of these that are of uploads which no commit uses.")
    freed_at: datetime | None = Field(
        description="By when those leave, unless a commit comes to use them; null: there are none."
    )
    leaving_bytes: int = Field(description="Bytes of packs that nothing needs; they leave by themselves.")
    limit_bytes: int | None = Field(description="The most that it may store; null: it has no limit.")
    parts: list[StoragePartOut] = Field(description="What takes most, the largest first.")

    @staticmethod
    def resolve_project(storage: ProjectStorage) -> str:
        """Return the name of the project."""
        return storage.project_name


class StorageLimitIn(BodySchema):
    """A limit on what a project stores."""

    limit_bytes: Bytes | None = Field(description="The most bytes that it may store; null lifts the limit.")


@router.get("/projects/{project}/storage", response=ProjectStorageOut, operation_id="datasets_get_storage")
def get_storage(request: ApiRequest, project: str) -> ProjectStorage:
    """Return what a project stores, its limit, and what takes most."""
    return storage.measure_project(actor=request.actor, project=get_project(actor=request.actor, name=project))


@router.patch("/projects/{project}/storage", response=ProjectStorageOut, operation_id="datasets_set_storage_limit")
def set_storage_limit(request: ApiRequest, project: str, body: StorageLimitIn) -> ProjectStorage:
    """Limit what a project stores. For site admins."""
    record = get_project(actor=request.actor, name=project)
    storage_limits.set_limit(actor=request.actor, project=record, limit_bytes=body.limit_bytes)
    return storage.measure_project(actor=request.actor, project=record)
