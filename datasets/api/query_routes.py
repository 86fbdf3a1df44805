"""Routes of saved queries: made, listed, asked, and made into commits that others read."""

from ninja import Router, Status

from accounts.api.auth import ApiRequest
from core.pagination import Cursor, Limit, paginate
from datasets.api import query_schemas as schemas
from datasets.api.schemas import CommitOut, FileOut, FilesOut
from datasets.models import Query
from datasets.selectors import commits as commit_reads
from datasets.selectors import datasets as dataset_reads
from datasets.selectors import queries as query_reads
from datasets.services import queries, selections

router = Router()

_QUERIES = "/datasets/{project}/{name}/queries"
_QUERY = f"{_QUERIES}/{{query}}"


@router.get(_QUERIES, response=schemas.QueriesOut, operation_id="datasets_list_queries")
def list_queries(
    request: ApiRequest, project: str, name: str, cursor: Cursor = None, limit: Limit = 100
) -> schemas.QueriesOut:
    """List the saved queries of a dataset, oldest first."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    queries = query_reads.list_queries(request.actor, dataset).select_related("created_by", "dataset__project")
    page = paginate(queries, cursor=cursor, limit=limit, newest_first=False)
    return schemas.QueriesOut(items=[schemas.QueryOut.of(row) for row in page.items], next_cursor=page.next_cursor)


@router.post(_QUERIES, response={201: schemas.QueryOut}, operation_id="datasets_create_query")
def create_query(request: ApiRequest, project: str, name: str, body: schemas.QueryIn) -> Status[schemas.QueryOut]:
    """Save a query. It never changes: to change it, delete it and save another one."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    query = queries.create_query(
        actor=request.actor, dataset=dataset, name=body.name, conditions=body.conditions(), ref=body.ref
    )
    return Status(201, schemas.QueryOut.of(query))


@router.get(_QUERY, response=schemas.QueryOut, operation_id="datasets_get_query")
def get_query(request: ApiRequest, project: str, name: str, query: str) -> schemas.QueryOut:
    """Return a saved query."""
    return schemas.QueryOut.of(_get(request, project, name, query))


@router.delete(_QUERY, response={204: None}, operation_id="datasets_delete_query")
def delete_query(request: ApiRequest, project: str, name: str, query: str) -> Status[None]:
    """Delete a saved query. Commits with what it selected stay."""
    queries.delete_query(actor=request.actor, query=_get(request, project, name, query))
    return Status(204, None)


@router.get(f"{_QUERY}/files", response=FilesOut, operation_id="datasets_list_query_files")
def list_query_files(
    request: ApiRequest,
    project: str,
    name: str,
    query: str,
    *,
    ref: str = "",
    cursor: Cursor = None,
    limit: Limit = 200,
) -> FilesOut:
    """List the files that a query selects, in the order of their paths. A page may be short and have a next one."""
    row = _get(request, project, name, query)
    source = query_reads.get_source(request.actor, row, ref)
    page = query_reads.list_query_files(request.actor, row, source, cursor=cursor, limit=limit)
    return FilesOut(path="", items=[FileOut.of(item) for item in page.items], next_cursor=page.next_cursor)


@router.post(f"{_QUERY}/select", response=CommitOut, operation_id="datasets_select")
def select(request: ApiRequest, project: str, name: str, query: str, body: schemas.SelectIn | None = None) -> CommitOut:
    """Return the commit that holds what a query selects; asked again, it is the same one.

    Its parent is the commit that was asked. It is on no branch, and can be read, cached and mounted like any other.
    """
    row = _get(request, project, name, query)
    source = query_reads.get_source(request.actor, row, body.ref if body else "")
    commit = selections.select(actor=request.actor, query=row, source=source)
    return CommitOut.of(commit_reads.view_commit(commit))


def _get(request: ApiRequest, project: str, name: str, query: str) -> Query:
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    return query_reads.get_query(request.actor, dataset, query)
