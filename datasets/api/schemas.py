"""What the routes of datasets take and answer."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from django.conf import settings
from ninja import Schema
from pydantic import Field, SkipValidation

from core import bounds
from core.bodies import BodySchema
from core.pagination import Page
from datasets.engine.browse import FolderItem
from datasets.engine.merges import Resolution
from datasets.engine.ports import PutProof, SignedRequest
from datasets.models import Branch, CommitSource, Dataset, Tag, UploadSession
from datasets.selectors.commits import CommitView
from datasets.selectors.damage import Damage
from datasets.selectors.differences import Counts, DiffPage
from datasets.selectors.files import kind_of
from datasets.selectors.last_changes import LastChange
from datasets.selectors.merges import MergePlan
from datasets.services.downloads import Download
from datasets.services.uploads import Answer, ObjectKind
from nearline.content.diff import Change, Conflict
from nearline.content.manifest import Entry, EntryKind
from nearline.content.packs import (
    AVERAGE_CHUNK_BYTES,
    MAX_CHUNK_BYTES,
    MIN_CHUNK_BYTES,
    TARGET_PACK_BYTES,
    THRESHOLD_BYTES,
)
from nearline.content.paths import to_text

_NAMED_FILES = 1000
_MOST_CHOICES = 50_000
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Label = Annotated[str, Field(min_length=1, max_length=100)]
Description = Annotated[str, Field(max_length=2000)]
DatasetKind = Annotated[str, Field(max_length=30)]
# A path may hold bytes that are no UTF-8. They travel as lone surrogates (\udc80 to \udcff in JSON), which pydantic
# would refuse; what we send was made from bytes, so there is nothing to validate.
PathText = SkipValidation[str]


class CachedOut(Schema):
    """A cached copy of a commit, in short."""

    site: str
    state: str
    percent: int


class CommitOut(Schema):
    """A version of a dataset. `added`, `removed` and `changed` count files against the parent.

    `merged` is the commit whose changes a merge brought in.
    """

    id: str
    short: str
    parent: str | None
    merged: str | None
    root: str
    message: str
    author: str
    source: str
    created_at: datetime
    files: int
    size_bytes: int
    added: int
    removed: int
    changed: int
    branches: list[str]
    tags: list[str]
    cached: list[CachedOut]

    @classmethod
    def of(cls, view: CommitView) -> "CommitOut":
        """Describe a commit with its names and copies."""
        row = view.commit
        return cls(
            id=row.id,
            short=row.short,
            parent=row.parent_id,
            merged=row.merged_id,
            root=row.root,
            message=row.message,
            author=row.author_name,
            source=row.source,
            created_at=row.created_at,
            files=row.files,
            size_bytes=row.size_bytes,
            added=row.added,
            removed=row.removed,
            changed=row.changed,
            branches=list(view.branches),
            tags=list(view.tags),
            cached=[CachedOut(site=copy.site.name, state=copy.state, percent=copy.percent) for copy in view.cached],
        )


class CommitsOut(Schema):
    """A page of commits, newest first."""

    items: list[CommitOut]
    next_cursor: str | None


class DatasetIn(BodySchema):
    """A new dataset."""

    project: bounds.Name
    name: bounds.Name
    description: Description = ""
    kind: DatasetKind = ""


class DatasetChangeIn(BodySchema):
    """What to change. `idle_days`: days unused after which a cached copy may go; 0: never; null: as the site says.

    With another `name` references by the old one lead nowhere; it takes an admin of the project.
    """

    name: bounds.Name | None = None
    description: Description | None = None
    kind: DatasetKind | None = None
    default_branch: bounds.Name | None = None
    idle_days: bounds.Days | None = None

    def changes(self) -> dict[str, object]:
        """Return what was sent; only `idle_days` may be set to null."""
        sent = self.model_dump(exclude_unset=True)
        return {name: value for name, value in sent.items() if value is not None or name == "idle_days"}


class DatasetOut(Schema):
    """A dataset. `files` and `size_bytes` are those of `newest_commit`, the head of the default branch."""

    id: str
    project: str
    name: str
    reference: str
    description: str
    kind: str
    files: int
    size_bytes: int
    default_branch: str
    idle_days: float | None
    newest_commit: CommitOut | None
    url: str
    created_at: datetime

    @classmethod
    def of(cls, row: Dataset, newest: CommitView | None) -> "DatasetOut":
        """Describe a dataset."""
        reference = f"{row.project.name}/{row.name}"
        return cls(
            id=row.id,
            project=row.project.name,
            name=row.name,
            reference=reference,
            description=row.description,
            kind=row.kind,
            files=newest.commit.files if newest else 0,
            size_bytes=newest.commit.size_bytes if newest else 0,
            default_branch=row.default_branch,
            idle_days=row.idle_days,
            newest_commit=CommitOut.of(newest) if newest else None,
            url=f"{settings.NEARLINE.url}/datasets/{reference}/",
            created_at=row.created_at,
        )


class DatasetsOut(Schema):
    """A page of datasets, newest first."""

    items: list[DatasetOut]
    next_cursor: str | None


class DatasetDeletionOut(Schema):
    """What the deletion of a dataset would mean."""

    restore_days: int = Field(description="Days that it can be restored; 0: it cannot.")


class DeletedOut(Schema):
    """A deleted dataset. `restore_ends_at` is null for one that was deleted for good."""

    id: str
    project: str
    name: str
    reference: str
    deleted_at: datetime
    deleted_by: str | None
    restore_ends_at: datetime | None

    @staticmethod
    def resolve_project(row: Dataset) -> str:
        """Return the name of its project."""
        return row.project.name

    @staticmethod
    def resolve_reference(row: Dataset) -> str:
        """Return what named it."""
        return f"{row.project.name}/{row.name}"

    @staticmethod
    def resolve_deleted_by(row: Dataset) -> str | None:
        """Return the name of the person, if they are still there."""
        return row.deleted_by.username if row.deleted_by else None


class RestorableOut(DeletedOut):
    """A deleted dataset that can be restored, and what it takes in the store."""

    restore_ends_at: datetime
    stored_bytes: int


class RestorablesOut(Schema):
    """A page of deleted datasets."""

    items: list[RestorableOut]
    next_cursor: str | None


class RestoreIn(BodySchema):
    """How to restore a dataset: by another name where `name` gives one."""

    name: bounds.Name = ""


class BranchIn(BodySchema):
    """A new branch, at a branch, a tag, a commit or `latest`."""

    name: Label
    at: bounds.Name = "latest"


class BranchOut(Schema):
    """A branch; `head` is null until its first commit."""

    name: str
    head: str | None
    updated_at: datetime

    @staticmethod
    def resolve_head(branch: Branch) -> str | None:
        """Return the id of the newest commit."""
        return branch.head_id


class BranchesOut(Schema):
    """A page of branches, oldest first."""

    items: list[BranchOut]
    next_cursor: str | None


class TagIn(BodySchema):
    """A new tag on a branch's head, a commit, or `latest`."""

    name: Label
    commit: bounds.Name = "latest"


class TagOut(Schema):
    """A tag."""

    name: str
    commit: str
    created_at: datetime

    @staticmethod
    def resolve_commit(tag: Tag) -> str:
        """Return the id of the commit."""
        return tag.commit_id


class TagsOut(Schema):
    """A page of tags, oldest first."""

    items: list[TagOut]
    next_cursor: str | None


class LastChangeOut(Schema):
    """The commit that changed a file, or something in a folder, last."""

    id: str
    short: str
    message: str
    author: str
    created_at: datetime

    @classmethod
    def of(cls, change: LastChange) -> "LastChangeOut":
        """Describe the commit."""
        return cls(
            id=change.commit_id,
            short=change.short,
            message=change.message,
            author=change.author,
            created_at=change.created_at,
        )


class FileOut(Schema):
    """A file, a link or a folder. `files` is for folders; `mtime` and `content_id` for files; `target` for links.

    `changed_in` is there where it was asked for, unless that commit lies too far back.
    """

    name: PathText
    path: PathText
    kind: str
    size_bytes: int
    files: int | None = None
    mtime: datetime | None = None
    content_id: str | None = None
    target: PathText | None = None
    changed_in: LastChangeOut | None = None

    @classmethod
    def of(cls, item: FolderItem | Entry, change: LastChange | None = None) -> "FileOut":
        """Describe an item of a listing."""
        path = to_text(item.path)
        name = path.rpartition("/")[2]
        changed_in = LastChangeOut.of(change) if change else None
        if isinstance(item, FolderItem):
            return cls(
                name=name,
                path=path,
                kind="folder",
                size_bytes=item.size_bytes,
                files=item.files,
                changed_in=changed_in,
            )
        is_link = item.kind is EntryKind.SYMLINK
        return cls(
            name=name,
            path=path,
            kind="symlink" if is_link else "file",
            size_bytes=item.size,
            mtime=_moment(item.mtime_ns),
            content_id=item.content_id.hex(),
            target=to_text(item.target) if is_link else None,
            changed_in=changed_in,
        )


class FilesOut(Schema):
    """What lies in one folder, or the files that match; `path` is the folder."""

    path: PathText
    items: list[FileOut]
    next_cursor: str | None


class ChangeOut(Schema):
    """A file that differs."""

    path: PathText
    change: str
    size_before: int | None
    size_after: int | None

    @classmethod
    def of(cls, change: Change) -> "ChangeOut":
        """Describe a change."""
        before, after = change.before, change.after
        return cls(
            path=to_text(change.path),
            change=kind_of(change),
            size_before=before.size if before else None,
            size_after=after.size if after else None,
        )


class DiffOut(Schema):
    """What differs between two commits: counts of all of it, and a page of paths."""

    added: int
    removed: int
    changed: int
    items: list[ChangeOut]
    next_cursor: str | None

    @classmethod
    def of(cls, page: DiffPage) -> "DiffOut":
        """Describe a page of differences."""
        return cls(
            added=page.added,
            removed=page.removed,
            changed=page.changed,
            items=[ChangeOut.of(change) for change in page.page.items],
            next_cursor=page.page.next_cursor,
        )


class VersionOut(Schema):
    """A file on one side of a merge."""

    content_id: str
    size_bytes: int
    mode: int

    @classmethod
    def of(cls, entry: Entry | None) -> "VersionOut | None":
        """Describe it; None: that side has no such file."""
        return entry and cls(content_id=entry.content_id.hex(), size_bytes=entry.size, mode=entry.mode)


class ConflictOut(Schema):
    """A file that both sides changed. `id` is the path's bytes in hexadecimal.

    Without `ours` either we deleted the file, or we have a file where theirs needs a folder, or the other way round.
    """

    id: str
    path: PathText
    base: VersionOut | None
    ours: VersionOut | None
    theirs: VersionOut | None

    @classmethod
    def of(cls, conflict: Conflict) -> "ConflictOut":
        """Describe a conflict."""
        return cls(
            id=conflict.path.hex(),
            path=to_text(conflict.path),
            base=VersionOut.of(conflict.base),
            ours=VersionOut.of(conflict.ours),
            theirs=VersionOut.of(conflict.theirs),
        )


class MergePlanOut(Schema):
    """What a merge would do: commits, how many files come without a question, and a page of those that both changed."""

    ours: str
    theirs: str
    base: str | None
    added: int
    removed: int
    changed: int
    conflicts: int
    items: list[ConflictOut]
    next_cursor: str | None

    @classmethod
    def of(cls, plan: MergePlan, counts: Counts, page: Page[Conflict]) -> "MergePlanOut":
        """Describe a plan and a page of its conflicts."""
        return cls(
            ours=plan.ours.pk,
            theirs=plan.theirs.pk,
            base=plan.base.pk if plan.base else None,
            added=counts.added,
            removed=counts.removed,
            changed=counts.changed,
            conflicts=len(plan.conflicts),
            items=[ConflictOut.of(conflict) for conflict in page.items],
            next_cursor=page.next_cursor,
        )


class ChoiceIn(BodySchema):
    """Whose version of a file stays; `id` is the path's bytes in hexadecimal."""

    id: Annotated[str, Field(pattern=r"^([0-9a-f]{2}){1,4096}$")]
    keep: Resolution


class MergeIn(BodySchema):
    """What to merge into which branch. `otherwise` goes for each file that both changed and `choices` does not name.

    `expected_source` and `expected_head` are the commits that the caller looked at.
    """

    source: bounds.Name
    into: bounds.Name
    expected_source: Hash | None = None
    expected_head: Hash | None = None
    choices: list[ChoiceIn] = Field(default_factory=list, max_length=_MOST_CHOICES)
    otherwise: Resolution | None = None
    message: bounds.Text = ""
    allow_collisions: bool = False

    def wishes(self) -> dict[str, Any]:
        """Return what the service takes."""
        choices = {bytes.fromhex(choice.id): choice.keep for choice in self.choices}
        return self.model_dump() | {"choices": choices}


class SignedRequestOut(Schema):
    """A request to be made exactly as written, once or more until `expires_at`."""

    method: str
    url: str
    headers: Mapping[str, str]
    expires_at: datetime

    @classmethod
    def of(cls, request: SignedRequest) -> "SignedRequestOut":
        """Describe a signed request."""
        return cls(method=request.method, url=request.url, headers=dict(request.headers), expires_at=request.expires_at)


class UploadIn(BodySchema):
    """The beginning of an upload. `client_id` is a name that the client gives itself."""

    branch: bounds.Name
    client_id: str = Field(default="", max_length=200)


class ChunkingOut(Schema):
    """How large files are cut: sizes in bytes; a file up to `threshold` is one piece."""

    min: int = MIN_CHUNK_BYTES
    avg: int = AVERAGE_CHUNK_BYTES
    max: int = MAX_CHUNK_BYTES
    threshold: int = THRESHOLD_BYTES


class UploadOut(Schema):
    """An upload session. `head` is the commit to build on, `root` its tree; both null on an empty branch.

    With the proof `content-md5` the store takes nothing but a body's MD5 as proof, so packs are announced with theirs.
    With `takes_deltas` a range may be sent as what it changes of one that the dataset has.
    """

    id: str
    branch: str
    head: str | None
    root: str | None
    expires_at: datetime
    pack_size_bytes: int
    chunking: ChunkingOut
    put_proof: PutProof
    takes_deltas: bool

    @classmethod
    def of(cls, upload: UploadSession, branch: Branch) -> "UploadOut":
        """Describe a session that begins."""
        return cls(
            id=upload.id,
            branch=upload.branch,
            head=branch.head_id,
            root=branch.head.root if branch.head else None,
            expires_at=upload.expires_at,
            pack_size_bytes=TARGET_PACK_BYTES,
            chunking=ChunkingOut(),
            put_proof=PutProof(upload.dataset.store.put_proof),
            takes_deltas=True,
        )


class PackIn(BodySchema):
    """A pack that the client has. `md5` (base64) is of use only where the session's `put_proof` is `content-md5`."""

    sha256: Hash
    size_bytes: bounds.Bytes = Field(gt=0)
    md5: str | None = Field(default=None, max_length=24)


class PacksIn(BodySchema):
    """Packs that the client has."""

    packs: list[PackIn] = Field(min_length=1, max_length=32)


class PackOut(Schema):
    """`complete`: the store has it. `wanted`: make the request."""

    sha256: str
    state: str
    request: SignedRequestOut | None

    @classmethod
    def of(cls, answer: Answer) -> "PackOut":
        """Describe the answer about a pack."""
        request = SignedRequestOut.of(answer.request) if answer.request else None
        return cls(sha256=answer.id, state=answer.state, request=request)


class PacksOut(Schema):
    """One answer for each pack, in the order of the question."""

    items: list[PackOut]


class PackNamesIn(BodySchema):
    """Packs that were sent."""

    packs: list[Hash] = Field(min_length=1, max_length=1000)


class DamagedPacksIn(BodySchema):
    """Packs whose content was not what their name says. Each is read whole, so a few at a time."""

    packs: list[Hash] = Field(min_length=1, max_length=8)


class ManifestIn(BodySchema):
    """A range or a root that the client has."""

    kind: Literal[ObjectKind.RANGE, ObjectKind.ROOT]
    id: Hash
    size_bytes: bounds.Bytes = Field(gt=0)
    sha256: Hash
    md5: str | None = Field(default=None, max_length=24)


class ManifestsIn(BodySchema):
    """Ranges and roots that the client has."""

    objects: list[ManifestIn] = Field(min_length=1, max_length=64)


class ObjectOut(Schema):
    """`complete`: the store has it. `wanted`: make the request."""

    kind: ObjectKind
    id: str
    state: str
    request: SignedRequestOut | None

    @classmethod
    def of(cls, answer: Answer) -> "ObjectOut":
        """Describe the answer about a manifest."""
        request = SignedRequestOut.of(answer.request) if answer.request else None
        return cls(kind=answer.kind, id=answer.id, state=answer.state, request=request)


class ManifestsOut(Schema):
    """One answer for each object, in the order of the question."""

    items: list[ObjectOut]


class CommitIn(BodySchema):
    """The end of an upload: the tree to commit, and the commit that the branch is expected to be at."""

    root: Hash
    expected_head: Hash | None
    message: bounds.Text = ""
    source: CommitSource = CommitSource.CLI
    idempotency_key: str = Field(default="", max_length=100)
    allow_collisions: bool = False


class WantedIn(BodySchema):
    """An object to be read."""

    kind: ObjectKind
    id: Hash


class DownloadsIn(BodySchema):
    """Objects to be read."""

    objects: list[WantedIn] = Field(min_length=1, max_length=64)


class DownloadOut(Schema):
    """An object and the request that reads it."""

    kind: ObjectKind
    id: str
    request: SignedRequestOut

    @classmethod
    def of(cls, download: Download) -> "DownloadOut":
        """Describe a download."""
        return cls(kind=download.kind, id=download.id, request=SignedRequestOut.of(download.request))


class DamagedPackOut(Schema):
    """A pack whose bytes in the store are not those of its name, or are gone."""

    sha256: str
    size_bytes: int


class DamageOut(Schema):
    """Damaged packs of a dataset, and the files of the commit that was asked for which need them: the first 1,000."""

    packs: list[DamagedPackOut]
    files: list[PathText]
    files_total: int

    @classmethod
    def of(cls, damage: Damage) -> "DamageOut":
        """Describe what is damaged."""
        return cls(
            packs=[DamagedPackOut(sha256=pack.sha256, size_bytes=pack.size_bytes) for pack in damage.packs],
            files=[to_text(path) for path in damage.files[:_NAMED_FILES]],
            files_total=len(damage.files),
        )


class DownloadsOut(Schema):
    """One request for each object, in the order of the question."""

    items: list[DownloadOut]


class RevertIn(BodySchema):
    """Which version shall be the newest one of which branch again."""

    commit: bounds.Name
    branch: bounds.Name
    message: bounds.Text = ""


def _moment(nanoseconds: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(nanoseconds / 1e9, tz=UTC)
    except (OverflowError, ValueError):
        return None  # a time that no calendar has
