"""Routes by which a browser brings files: bytes through the web process, packed by the server."""

from ninja import Router, Status

from accounts.api.auth import ApiRequest
from core import bounds
from core.bodies import raw_body
from core.pagination import Cursor
from datasets.api import part_schemas as schemas
from datasets.api.schemas import CommitOut
from datasets.selectors import commits as commit_reads
from datasets.services import tree_edits, upload_parts, uploads

router = Router()

_UPLOAD = "/uploads/{upload_id}"


@router.put(
    f"{_UPLOAD}/parts/{{int:number}}",
    response=schemas.PartOut,
    operation_id="datasets_put_part",
    openapi_extra=raw_body("application/octet-stream"),
)
def put_part(request: ApiRequest, upload_id: str, number: bounds.Count) -> schemas.PartOut:
    """Send a part of the files; sending it again is harmless.

    The body: four bytes of length (big-endian), so much JSON `{files: [{path, size_bytes, mtime_ms}], offset}`, then
    the content of the files one after the other, or what of one large file lies at `offset`.
    """
    upload = commit_reads.get_upload(actor=request.actor, upload_id=upload_id)
    part = upload_parts.receive_part(actor=request.actor, upload=upload, number=number, read=request.read)
    return schemas.PartOut.of(part)


@router.get(f"{_UPLOAD}/parts", response=schemas.ArrivedOut, operation_id="datasets_list_parts")
def list_parts(request: ApiRequest, upload_id: str, cursor: Cursor = None) -> schemas.ArrivedOut:
    """Return a page of the files that have come, so that an upload can go on after the browser was closed."""
    upload = commit_reads.get_upload(actor=request.actor, upload_id=upload_id)
    parts = upload_parts.list_arrived(
        actor=request.actor, upload=upload, after=schemas.read_cursor(cursor), limit=schemas.PARTS_IN_A_PAGE + 1
    )
    return schemas.ArrivedOut.of(list(parts))


@router.post(f"{_UPLOAD}/parts/commit", response={201: CommitOut}, operation_id="datasets_commit_parts")
def commit_parts(request: ApiRequest, upload_id: str, body: schemas.PartsCommitIn) -> Status[CommitOut]:
    """Make one commit of all files that came; asked again, the same commit."""
    upload = commit_reads.get_upload(actor=request.actor, upload_id=upload_id)
    commit = tree_edits.commit_parts(
        actor=request.actor, upload=upload, expected_head=body.expected_head, message=body.message
    )
    return Status(201, CommitOut.of(commit_reads.view_commit(commit)))


@router.delete(_UPLOAD, response={204: None}, operation_id="datasets_cancel_upload")
def cancel_upload(request: ApiRequest, upload_id: str) -> Status[None]:
    """Give an upload up."""
    upload = commit_reads.get_upload(actor=request.actor, upload_id=upload_id)
    uploads.cancel_upload(actor=request.actor, upload=upload)
    return Status(204, None)
