"""Routes behind the flow editor: drafts, keeping what was written, places for nodes, and the library of steps."""

from typing import Any

from ninja import Router, Status

from accounts.api.auth import ApiRequest
from accounts.selectors import get_project
from flows.api import editor_schemas as schemas
from flows.engine import layout
from flows.errors import FlowNotFound
from flows.models import FlowDraft
from flows.selectors import examples
from flows.selectors import flows as flow_selectors
from flows.services import drafts
from flows.services.drafts import Writing

router = Router()


@router.get("/flows/drafts", response=schemas.DraftOut, operation_id="flows_get_draft")
def get_draft(request: ApiRequest, project: str, key: str) -> FlowDraft:
    """Return one's own draft of a flow."""
    owner = get_project(actor=request.actor, name=project)
    draft = flow_selectors.find_draft(actor=request.actor, project=owner, key=key)
    if draft is None:
        raise FlowNotFound(f"You have no draft of {key}.")
    return draft


@router.put("/flows/drafts", response=schemas.KeptOut, operation_id="flows_keep_draft")
def keep_draft(request: ApiRequest, body: schemas.DraftIn) -> dict[str, Any]:
    """Keep a draft over the one with that revision; a draft that moved in between is a conflict."""
    project = get_project(actor=request.actor, name=body.project)
    draft = drafts.keep_draft(
        actor=request.actor, project=project, key=body.key, writing=_writing(body), revision=body.revision
    )
    newest = flow_selectors.newest_number(actor=request.actor, project=project, name=body.key)
    return {"revision": draft.revision, "updated_at": draft.updated_at, "newest_version": newest}


@router.delete("/flows/drafts", response={204: None}, operation_id="flows_discard_draft")
def discard_draft(request: ApiRequest, project: str, key: str) -> Status[None]:
    """Throw one's own draft away."""
    owner = get_project(actor=request.actor, name=project)
    drafts.discard_draft(actor=request.actor, project=owner, key=key)
    return Status(204, None)


@router.post("/flows/publish", response={201: schemas.PublishedOut}, operation_id="flows_publish")
def publish(request: ApiRequest, body: schemas.WritingIn) -> Status[dict[str, Any]]:
    """Keep what was written as a version, unless somebody kept another one since `base_version`. The draft goes."""
    project = get_project(actor=request.actor, name=body.project)
    version = drafts.publish(actor=request.actor, project=project, key=body.key, writing=_writing(body))
    name = version.flow.name
    newest = flow_selectors.newest_number(actor=request.actor, project=project, name=name)
    return Status(201, {"flow": name, "number": version.number, "hash": version.hash, "newest_version": newest})


@router.post("/flows/layout", response=schemas.PlacesOut, operation_id="flows_lay_out")
def lay_out(request: ApiRequest, body: schemas.GraphIn) -> dict[str, Any]:  # noqa: ARG001 (the same for everybody)
    """Return where the nodes of a graph are best drawn: columns by longest path, few crossings."""
    return {"places": layout.arrange(body.parents)}


@router.get("/flows/library", response=schemas.LibraryOut, operation_id="flows_list_library")
def list_library(request: ApiRequest, project: str) -> dict[str, Any]:
    """Return steps to take over into a flow."""
    owner = get_project(actor=request.actor, name=project)
    shelves: list[dict[str, Any]] = [
        {
            "flow": shelf.flow,
            "title": shelf.title,
            "is_example": False,
            "needs_code": shelf.needs_code,
            "steps": shelf.steps,
        }
        for shelf in examples.list_library(actor=request.actor, project=owner)
    ]
    for example in examples.list_examples():
        steps = example.spec.model_dump(mode="json", exclude_defaults=True)["steps"]
        title = example.spec.title
        shelves.append({"flow": example.name, "title": title, "is_example": True, "needs_code": True, "steps": steps})
    return {"shelves": shelves}


def _writing(body: schemas.WritingIn) -> Writing:
    return Writing(text=body.text, layout=body.layout, base_version=body.base_version, example=body.example)
