"""Routes of the views of experiments that members save."""

from ninja import Router, Status

from accounts.api.auth import ApiRequest
from accounts.selectors import get_project
from core.pagination import Cursor, Limit, Page, paginate
from experiments.api import schemas
from experiments.models import SavedView
from experiments.selectors import saved_views as selectors
from experiments.services import saved_views

router = Router()


@router.get("/experiment-views", response=schemas.ViewPageOut, operation_id="experiments_list_views")
def list_views(
    request: ApiRequest, project: str | None = None, cursor: Cursor = None, limit: Limit = 50
) -> Page[SavedView]:
    """List the saved views of experiments, newest first."""
    return paginate(selectors.list_views(actor=request.actor, project=project), cursor=cursor, limit=limit)


@router.post("/experiment-views", response={201: schemas.ViewOut}, operation_id="experiments_save_view")
def save_view(request: ApiRequest, body: schemas.ViewIn) -> Status[SavedView]:
    """Keep a view under a name; one of your own of that name is replaced."""
    project = get_project(actor=request.actor, name=body.project)
    return Status(201, saved_views.save_view(actor=request.actor, project=project, name=body.name, query=body.query))


@router.patch("/experiment-views/{view_id}", response=schemas.ViewOut, operation_id="experiments_rename_view")
def rename_view(request: ApiRequest, view_id: str, body: schemas.ViewChangeIn) -> SavedView:
    """Give a view another name: your own, or as an admin of its project any."""
    view = selectors.get_view(actor=request.actor, view_id=view_id)
    return saved_views.rename_view(actor=request.actor, view=view, name=body.name)


@router.delete("/experiment-views/{view_id}", response={204: None}, operation_id="experiments_delete_view")
def delete_view(request: ApiRequest, view_id: str) -> Status[None]:
    """Delete a view: your own, or as an admin of its project any."""
    saved_views.delete_view(actor=request.actor, view=selectors.get_view(actor=request.actor, view_id=view_id))
    return Status(204, None)
