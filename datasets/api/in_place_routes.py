"""Routes of imports in place: the sources of files, and what datasets refer to in them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from ninja import Router, Schema, Status
from pydantic import Field

from accounts.api.auth import ApiRequest
from accounts.selectors import get_project
from core.bodies import BodySchema
from core.bounds import Name, Text
from core.pagination import Cursor, Limit, paginate
from datasets.models import FileSource, InPlaceImport
from datasets.selectors import datasets as dataset_reads
from datasets.selectors import in_place as reads
from datasets.selectors import sources as source_reads
from datasets.services import in_place, sources

router = Router()

_SOURCE = "/sources/{name}"
_IMPORTS = "/datasets/{project}/{name}/imports"
_IMPORT = "/imports/{import_id}"
_Path = Annotated[str, Field(max_length=4096)]


class SourceIn(BodySchema):
    """A source. Of one that is there, what is left out stays."""

    location: Annotated[str, Field(max_length=1000)] = Field(
        default="",
        description="A folder of the server's machine, s3://bucket/prefix?endpoint=…&region=…, or site://NAME.",
    )
    access_key: Name = Field(default="", description="The key of the bucket; empty: that of the store in it.")
    secret_key: Name = Field(default="", description="Its secret. Kept encrypted, and never told.")
    projects: Annotated[list[Name], Field(max_length=1000)] | None = Field(
        default=None, description="The projects that may import from it."
    )


class SourceOut(Schema):
    """A folder or a part of a bucket that files may be imported from in place. What is used of it, site admins see."""

    name: str
    kind: str = Field(description="`folder`, `s3` or `site`.")
    location: str = Field(description="Where it lies; empty to all but site admins.")
    projects: list[str] = Field(description="Those of your projects that may import from it; to site admins, all.")

    datasets: list[str] = Field(default=[], description="Those that read from it, as project/name.")
    referenced_bytes: int | None = Field(
        default=None, description="Bytes of theirs that lie in it, and not in a store."
    )
    changed_files: int | None = Field(default=None, description="Files that are not as they were imported.")
    read_at: datetime | None = Field(default=None, description="When it was last compared with what was imported.")

    @staticmethod
    def of(row: FileSource, request: ApiRequest) -> "SourceOut":
        """Return what the caller may see of a source."""
        return SourceOut.of_each([row], request)[0]

    @staticmethod
    def of_each(rows: Sequence[FileSource], request: ApiRequest) -> "list[SourceOut]":
        """Return what the caller may see of sources."""
        uses = source_reads.measure_uses(rows) if request.actor.is_site_admin else {}
        return [SourceOut._of(row, request, uses.get(row.pk)) for row in rows]

    @staticmethod
    def _of(row: FileSource, request: ApiRequest, use: source_reads.SourceUse | None) -> "SourceOut":
        actor = request.actor
        projects = [one.name for one in row.projects.all() if actor.level_in(one.pk) is not None]
        location = row.location if actor.is_site_admin else ""
        out = SourceOut(name=row.name, kind=row.kind, location=location, projects=sorted(projects))
        if use is not None:
            out.datasets = [f"{dataset.project.name}/{dataset.name}" for dataset in use.datasets]
            out.referenced_bytes, out.changed_files, out.read_at = use.referenced_bytes, use.changed_files, use.read_at
        return out


class SourcesOut(Schema):
    """A page of sources."""

    items: list[SourceOut]
    next_cursor: str | None


class PreviewOut(Schema):
    """What a folder of a source holds."""

    files: int
    size_bytes: int
    skipped: list[str] = Field(description="Files that no dataset can carry, with the reason.")
    is_complete: bool = Field(description="False where it holds more than was counted or looked at.")


class ImportIn(BodySchema):
    """What to import in place."""

    source: Name = Field(description="The name of a source.")
    prefix: _Path = Field(default="", description="A folder in it; empty: all of it.")
    directory: _Path = Field(default="", description="The folder in the dataset that it becomes.")
    branch: Name = Field(default="", description="The branch to commit to; empty: the default one.")
    message: Text = Field(default="", description="The message of the commit.")


class ImportOut(Schema):
    """An import in place."""

    id: str
    source: str
    prefix: str = Field(description="The folder in the source; empty: all of it.")
    directory: str = Field(description="The folder in the dataset that it became; empty: the dataset itself.")
    branch: str
    state: str = Field(
        description="`queued`, `running`, `referenced`, `promoting`, `promoted`, `failed`, `cancelling`, `cancelled`."
    )
    commit: str | None = Field(description="The commit that it made, or that held all of it already.")
    files: int
    size_bytes: int = Field(description="Bytes of its files.")
    referenced_bytes: int = Field(description="Bytes that lie in the source, and not in the store.")
    read_bytes: int = Field(description="Bytes of files that were read, each once, to hash them.")
    written_bytes: int = Field(description="Bytes that were written of their content: the maps of packs.")
    work_bytes: int = Field(
        description="Bytes of the work that began last: to be read, or to be copied into the store."
    )
    done_bytes: int = Field(description="How many of these are done.")
    eta_s: float | None = Field(description="Seconds until that work is done at its present rate, if it can be told.")
    skipped: list[str] = Field(description="Files that no dataset can carry, with the reason; the first hundred.")
    changed_files: int = Field(description="Files that are not in the source as they were, when it was checked last.")
    changed: list[str] = Field(description="The first hundred of these.")
    checked_at: datetime | None = Field(description="When the files were last compared with those of the source.")
    waits_for: str = Field(description="What the pod of a cluster that reads the files waits for.")
    error: str = Field(description="Why it failed, or why it could not be promoted.")
    error_code: str
    created_at: datetime

    @staticmethod
    def of(view: reads.ImportView) -> "ImportOut":
        """Return an import as the API tells it."""
        row = view.row
        names = ("id", "prefix", "directory", "branch", "state", "files", "size_bytes", "read_bytes", "written_bytes")
        more = (
            "work_bytes",
            "waits_for",
            "skipped",
            "changed_files",
            "changed",
            "checked_at",
            "error",
            "error_code",
            "created_at",
        )
        return ImportOut(
            source=row.source.name,
            commit=row.commit_id,
            referenced_bytes=view.referenced_bytes,
            done_bytes=view.done_bytes,
            eta_s=view.eta_s,
            **{name: getattr(row, name) for name in (*names, *more)},
        )


class ImportsOut(Schema):
    """A page of imports."""

    items: list[ImportOut]
    next_cursor: str | None


@router.get("/sources", response=SourcesOut, operation_id="datasets_list_sources")
def list_sources(request: ApiRequest, cursor: Cursor = None, limit: Limit = 100) -> SourcesOut:
    """List the sources that your projects may import from, oldest first."""
    sources = source_reads.list_sources(actor=request.actor)
    page = paginate(sources, cursor=cursor, limit=limit, newest_first=False)
    return SourcesOut(items=SourceOut.of_each(page.items, request), next_cursor=page.next_cursor)


@router.put(_SOURCE, response=SourceOut, operation_id="datasets_set_source")
def set_source(request: ApiRequest, name: str, body: SourceIn) -> SourceOut:
    """Let projects import from a folder or a part of a bucket, or change that. For site admins."""
    named = body.projects
    projects = None if named is None else [get_project(actor=request.actor, name=one) for one in named]
    facts = body.model_dump(exclude={"projects"})
    return SourceOut.of(sources.set_source(actor=request.actor, name=name, projects=projects, **facts), request)


@router.delete(_SOURCE, response={204: None}, operation_id="datasets_remove_source")
def remove_source(request: ApiRequest, name: str) -> Status[None]:
    """Forget a source that no dataset needs. Its files are not touched. For site admins."""
    sources.remove_source(actor=request.actor, name=name)
    return Status(204, None)


@router.post(f"{_SOURCE}/check", response={202: SourceOut}, operation_id="datasets_check_source")
def check_source(request: ApiRequest, name: str) -> Status[SourceOut]:
    """See whether a source can be read, and have what was imported compared with it. For site admins.

    `read_at` tells when that is done.
    """
    sources.check_source(actor=request.actor, name=name)
    return Status(202, SourceOut.of(source_reads.get_source(actor=request.actor, name=name), request))


@router.get("/projects/{project}/sources/{name}/files", response=PreviewOut, operation_id="datasets_preview_import")
def preview_import(request: ApiRequest, project: str, name: str, prefix: _Path = "") -> in_place.Preview:
    """Count the first ten thousand files of a folder of a source; none is read."""
    row = get_project(actor=request.actor, name=project)
    return in_place.preview_import(actor=request.actor, project=row, source=name, prefix=prefix)


@router.post(_IMPORTS, response={202: ImportOut}, operation_id="datasets_import_in_place")
def import_in_place(request: ApiRequest, project: str, name: str, body: ImportIn) -> Status[ImportOut]:
    """Have files of a source imported where they lie: each is read once, and none is copied."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    row = in_place.request_import(actor=request.actor, dataset=dataset, **body.model_dump())
    return Status(202, _describe([row])[0])


@router.get(_IMPORTS, response=ImportsOut, operation_id="datasets_list_imports")
def list_imports(request: ApiRequest, project: str, name: str, cursor: Cursor = None, limit: Limit = 100) -> ImportsOut:
    """List the imports in place into a dataset, newest first."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    page = paginate(reads.list_imports(actor=request.actor, dataset=dataset), cursor=cursor, limit=limit)
    return ImportsOut(items=_describe(page.items), next_cursor=page.next_cursor)


@router.get(_IMPORT, response=ImportOut, operation_id="datasets_get_import")
def get_import(request: ApiRequest, import_id: str) -> ImportOut:
    """Return an import in place."""
    return _describe([reads.get_import(actor=request.actor, import_id=import_id)])[0]


@router.post(f"{_IMPORT}/promote", response={202: ImportOut}, operation_id="datasets_promote_import")
def promote(request: ApiRequest, import_id: str) -> Status[ImportOut]:
    """Have the content of an import copied into the store. Then nothing needs its source any more."""
    row = reads.get_import(actor=request.actor, import_id=import_id)
    return Status(202, _describe([in_place.promote(actor=request.actor, row=row)])[0])


@router.post(f"{_IMPORT}/cancel", response={202: ImportOut}, operation_id="datasets_cancel_import")
def cancel(request: ApiRequest, import_id: str) -> Status[ImportOut]:
    """Have an import stopped that is under way, or the promotion of one; it ends as `cancelled`, or `referenced`."""
    row = reads.get_import(actor=request.actor, import_id=import_id)
    return Status(202, _describe([in_place.cancel(actor=request.actor, row=row)])[0])


@router.post(f"{_IMPORT}/check", response={202: ImportOut}, operation_id="datasets_check_import")
def check_import(request: ApiRequest, import_id: str) -> Status[ImportOut]:
    """Have the files of an import compared with what they were; `checked_at` tells when that is done."""
    row = reads.get_import(actor=request.actor, import_id=import_id)
    return Status(202, _describe([in_place.request_check(actor=request.actor, row=row)])[0])


def _describe(rows: Sequence[InPlaceImport]) -> list[ImportOut]:
    return [ImportOut.of(view) for view in reads.view_imports(rows)]
