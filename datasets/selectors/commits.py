"""Reads about history: what a name or the beginning of an id means, and the line of commits behind it.

An upload is a commit in the making.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection
from django.db.models import QuerySet

from accounts.permissions import Actor, require
from core.pagination import MAX_LIMIT, Page, decode_cursor, encode_cursor
from datasets import permissions
from datasets.engine.cache_states import CURRENT
from datasets.engine.names import COMMIT_ID_LENGTH, LATEST, may_be_commit
from datasets.errors import AmbiguousReference, EmptyBranch, ReferenceNotFound, UploadNotFound
from datasets.models import Branch, CachedCommit, Commit, Dataset, Tag, UploadSession


@dataclass(frozen=True)
class CommitView:
    """A commit with everything that names it and every place that holds it."""

    commit: Commit
    branches: Sequence[str]
    tags: Sequence[str]
    cached: Sequence[CachedCommit]


def get_commit(actor: Actor, dataset: Dataset, ref: str) -> Commit:
    """Return the commit that a branch, a tag, a commit id, its beginning or `latest` names.

    A name goes before an id. Raises ReferenceNotFound, AmbiguousReference and EmptyBranch.
    """
    require(actor, permissions.VIEW, dataset.project_id)
    commit = _find_by_name(dataset, dataset.default_branch if ref == LATEST else ref) or _find_by_id(dataset, ref)
    if commit is None:
        raise ReferenceNotFound(f"{dataset.name} has no branch, tag or commit called '{ref}'.")
    # The caller has the dataset with its store and project at hand; the commit need not fetch them again.
    commit.dataset = dataset
    return commit


def list_by_id(commit_ids: Sequence[str]) -> list[Commit]:
    """Return these commits in their order, without those that are gone. For apps that have checked who may know."""
    rows = Commit.objects.filter(pk__in=commit_ids).select_related("dataset__project").in_bulk()
    return [rows[id_] for id_ in commit_ids if id_ in rows]


def list_commits(actor: Actor, dataset: Dataset, *, ref: str, cursor: str | None, limit: int) -> Page[Commit]:
    """Return the commits behind `ref` along first parents, newest first. An empty branch has none."""
    require(actor, permissions.VIEW, dataset.project_id)
    limit = max(1, min(limit, MAX_LIMIT))
    try:
        start = decode_cursor(cursor, str) if cursor else get_commit(actor, dataset, ref).id
    except EmptyBranch:
        return Page([], None)
    ids = _line_of_parents(dataset, start, limit + 1)
    rows = Commit.objects.in_bulk(ids[:limit])
    return Page([rows[commit_id] for commit_id in ids[:limit]], encode_cursor(ids[limit]) if ids[limit:] else None)


def view_commits(commits: Sequence[Commit]) -> list[CommitView]:
    """Return the commits with their names and cached copies, in three queries for all of them."""
    ids = [commit.id for commit in commits]
    branches: defaultdict[str | None, list[str]] = defaultdict(list)
    tags: defaultdict[str, list[str]] = defaultdict(list)
    cached: defaultdict[str, list[CachedCommit]] = defaultdict(list)
    for head_id, name in Branch.objects.filter(head__in=ids).order_by("name").values_list("head_id", "name"):
        branches[head_id].append(name)
    for commit_id, name in Tag.objects.filter(commit__in=ids).order_by("name").values_list("commit_id", "name"):
        tags[commit_id].append(name)
    copies = CachedCommit.objects.filter(commit__in=ids, state__in=CURRENT).select_related("site")
    for copy in copies.order_by("site__name", "pk"):
        cached[copy.commit_id].append(copy)
    return [CommitView(row, branches[row.id], tags[row.id], cached[row.id]) for row in commits]


def view_commit(commit: Commit) -> CommitView:
    """Return one commit with its names and cached copies."""
    return view_commits([commit])[0]


def list_branches(actor: Actor, dataset: Dataset) -> QuerySet[Branch]:
    """Return the branches of a dataset."""
    require(actor, permissions.VIEW, dataset.project_id)
    return Branch.objects.filter(dataset=dataset).order_by("pk")


def list_tags(actor: Actor, dataset: Dataset) -> QuerySet[Tag]:
    """Return the tags of a dataset."""
    require(actor, permissions.VIEW, dataset.project_id)
    return Tag.objects.filter(dataset=dataset).order_by("pk")


def get_branch(actor: Actor, dataset: Dataset, name: str) -> Branch:
    """Return a branch, with its head. Raises ReferenceNotFound."""
    require(actor, permissions.VIEW, dataset.project_id)
    branch = Branch.objects.filter(dataset=dataset, name=name).select_related("head").first()
    if branch is None:
        raise ReferenceNotFound(f"{dataset.name} has no branch called '{name}'.")
    # The caller has the dataset with its store at hand; the branch need not fetch them again.
    branch.dataset = dataset
    return branch


def get_upload(*, actor: Actor, upload_id: str) -> UploadSession:
    """Return a session of the actor's own. Raises UploadNotFound."""
    uploads = UploadSession.objects.select_related("dataset__store", "dataset__project")
    upload = uploads.filter(pk=upload_id, dataset__deleted_at=None).first()
    is_own = upload is not None and (upload.user_id == actor.user_id or actor.is_site_admin)
    if upload is None or not is_own:
        raise UploadNotFound("There is no such upload, or it is someone else's.")
    require(actor, permissions.COMMIT, upload.dataset.project_id)
    return upload


def head_of(*, actor: Actor, upload: UploadSession) -> Commit | None:
    """Return the commit that the session's branch is at now; None for an empty branch."""
    return get_branch(actor, upload.dataset, upload.branch).head


def _find_by_name(dataset: Dataset, name: str) -> Commit | None:
    branch = Branch.objects.filter(dataset=dataset, name=name).select_related("head").first()
    if branch is not None:
        if branch.head is None:
            raise EmptyBranch(f"The branch '{name}' of {dataset.name} has no commit yet.")
        return branch.head
    tag = Tag.objects.filter(dataset=dataset, name=name).select_related("commit").first()
    return tag.commit if tag is not None else None


def _find_by_id(dataset: Dataset, ref: str) -> Commit | None:
    if not may_be_commit(ref):
        return None
    if len(ref) == COMMIT_ID_LENGTH:
        return Commit.objects.filter(dataset=dataset, pk=ref).first()
    matches = list(Commit.objects.filter(dataset=dataset, pk__startswith=ref).order_by("pk")[:2])
    if len(matches) > 1:
        raise AmbiguousReference(f"Several commits of {dataset.name} begin with '{ref}'.")
    return matches[0] if matches else None


def _line_of_parents(dataset: Dataset, start: str, count: int) -> list[str]:
    table = Commit._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH RECURSIVE line(id, parent_id, age) AS ("  # noqa: S608 (the table's name is our own)
            f" SELECT id, parent_id, 1 FROM {table} WHERE id = %s AND dataset_id = %s"
            f" UNION ALL SELECT c.id, c.parent_id, line.age + 1 FROM {table} c JOIN line ON c.id = line.parent_id"
            f" WHERE line.age < %s) SELECT id FROM line ORDER BY age",
            [start, dataset.id, count],
        )
        return [row[0] for row in cursor.fetchall()]
