"""Routes of trees that are no commits, such as outputs of jobs: their files, and how clients fetch them."""

from django.http.response import HttpResponseBase
from ninja import Router, Status

from accounts.api.auth import ApiRequest
from core.pagination import Cursor, Limit
from datasets.api import schemas
from datasets.api.file_answers import answer_content, read_raw
from datasets.selectors import files, trees
from datasets.services import downloads
from datasets.services.downloads import Wanted

router = Router()

_TREE = "/trees/{tree_id}"


@router.get(f"{_TREE}/files", response=schemas.FilesOut, operation_id="datasets_list_tree_files")
def list_files(
    request: ApiRequest, tree_id: str, *, path: str = "", glob: str = "", cursor: Cursor = None, limit: Limit = 200
) -> schemas.FilesOut:
    """List what lies directly in a folder of a tree; with `glob`, all files whose path matches (`**/*.png`)."""
    tree = trees.get_tree_by_id(request.actor, tree_id)
    if glob:
        pattern = read_raw(request, "glob")
        page = files.list_matching(request.actor, tree, glob=pattern, cursor=cursor, limit=limit)
    else:
        page = files.list_folder(request.actor, tree, path=read_raw(request, "path"), cursor=cursor, limit=limit)
    items = [schemas.FileOut.of(item) for item in page.items]
    return schemas.FilesOut(path=path, items=items, next_cursor=page.next_cursor)


@router.get(f"{_TREE}/content", response={200: bytes, 206: bytes}, operation_id="datasets_get_tree_content")
def get_content(
    request: ApiRequest,
    tree_id: str,
    path: str,  # noqa: ARG001 (documents the parameter, whose exact bytes are read below)
) -> HttpResponseBase:
    """Return the bytes of one file of a tree, or of a part of it (`Range`), each piece verified before it is sent."""
    tree = trees.get_tree_by_id(request.actor, tree_id)
    return answer_content(request, files.open_file(request.actor, tree, path=read_raw(request, "path")))


@router.post(f"{_TREE}/downloads", response=schemas.DownloadsOut, operation_id="datasets_sign_tree_downloads")
def sign_downloads(request: ApiRequest, tree_id: str, body: schemas.DownloadsIn) -> schemas.DownloadsOut:
    """Return requests by which packs and manifests of a tree can be read straight from the store."""
    tree = trees.get_tree_by_id(request.actor, tree_id)
    objects = [Wanted(one.kind, one.id) for one in body.objects]
    signed = downloads.sign_downloads(actor=request.actor, dataset=tree.dataset, objects=objects)
    return schemas.DownloadsOut(items=[schemas.DownloadOut.of(one) for one in signed])


@router.post(f"{_TREE}/damage", response={204: None}, operation_id="datasets_report_tree_damage")
def report_damage(request: ApiRequest, tree_id: str, body: schemas.DamagedPacksIn) -> Status[None]:
    """Say which packs of a tree you found damaged; the server reads them and decides."""
    tree = trees.get_tree_by_id(request.actor, tree_id)
    downloads.report_packs(actor=request.actor, dataset=tree.dataset, names=body.packs)
    return Status(204, None)
