"""Saved queries: what there are, and which files of a commit they select."""

from django.db.models import QuerySet

from accounts.permissions import Actor, require
from core.pagination import Page
from datasets import permissions
from datasets.engine.browse import FolderItem, SelectedSum
from datasets.engine.file_tags import USUAL_PLACES, BadTagList, check_size, find_tagged
from datasets.engine.names import LATEST
from datasets.engine.queries import BadQuery, CompiledQuery, Conditions
from datasets.errors import FileNotInCommit, InvalidQuery, QueryNotFound
from datasets.models import Commit, Dataset, Query, Selection
from datasets.selectors import commits, files
from datasets.selectors.trees import Kept
from nearline.content.expressions import TooCostly
from nearline.content.manifest import Entry, EntryKind
from nearline.content.paths import to_bytes, to_text

# The names of about a million files.
_KEPT_NAMES = 1_000_000
_KEPT_SUMS = 10_000


def list_queries(actor: Actor, dataset: Dataset) -> QuerySet[Query]:
    """Return the queries of a dataset."""
    require(actor, permissions.VIEW, dataset.project_id)
    return Query.objects.filter(dataset=dataset).select_related("created_by").order_by("pk")


def get_query(actor: Actor, dataset: Dataset, name: str) -> Query:
    """Return a query. Raises QueryNotFound."""
    query = list_queries(actor, dataset).filter(name=name).first()
    if query is None:
        raise QueryNotFound(f"{dataset.name} has no query called '{name}'.")
    # The caller has the dataset with its store at hand; the query need not fetch them again.
    query.dataset = dataset
    return query


def get_source(actor: Actor, query: Query, ref: str = "") -> Commit:
    """Return the commit that a query is asked of: what `ref` names, else what the query names."""
    return commits.get_commit(actor, query.dataset, ref or query.ref or LATEST)


def list_query_files(
    actor: Actor, query: Query, source: Commit, *, cursor: str | None, limit: int
) -> Page[FolderItem | Entry]:
    """Return the files of a commit that a query selects. A page may be short, even empty, and have a next one.

    Raises InvalidQuery.
    """
    compiled = compile_query(actor, query.asked, source)
    try:
        return files.list_selected(actor, source, compiled, cursor=cursor, limit=limit)
    except TooCostly as error:
        raise InvalidQuery(str(error)) from error


def sum_query_files(actor: Actor, query: Query, source: Commit) -> SelectedSum:
    """Return how much of a commit a query selects. Raises InvalidQuery."""
    key = (source.dataset_id, source.root, query.asked.hash)
    memo = _sums.get(key)
    if memo is None:
        compiled = compile_query(actor, query.asked, source)
        try:
            memo = files.sum_selected(actor, source, compiled)
        except TooCostly as error:
            raise InvalidQuery(str(error)) from error
        _sums.put(key, memo)
    return memo


def find_selection(query: Query, source: Commit) -> Commit | None:
    """Return the commit with what a query selects of another one, if it was made already."""
    row = Selection.objects.filter(source=source, conditions_hash=query.asked.hash).select_related("commit").first()
    return row.commit if row else None


def compile_query(actor: Actor, conditions: Conditions, source: Commit) -> CompiledQuery:
    """Make conditions ready to be asked of a commit, with its list of tags where they need it. Raises InvalidQuery."""
    try:
        tagged = _find_tagged(actor, conditions, source) if conditions.file_tags else None
        return CompiledQuery(conditions, tagged)
    except (BadQuery, BadTagList) as error:
        raise InvalidQuery(str(error)) from error


def _find_tagged(actor: Actor, conditions: Conditions, source: Commit) -> frozenset[bytes]:
    path, content = _open_tag_list(actor, conditions, source)
    key = (source.dataset_id, content.entry.content_id.hex(), to_text(path), *conditions.file_tags)
    memo = _tagged.get(key)
    if memo is None:
        if content.entry.kind is not EntryKind.FILE:
            raise BadTagList(f"'{to_text(path)}' is a link.")
        try:
            check_size(path, content.size_bytes)
            memo = find_tagged(path, b"".join(content.read()), conditions.file_tags)
        except BadTagList as error:
            raise BadTagList(f"'{to_text(path)}' cannot be read as a list of tags. {error}") from error
        _tagged.put(key, memo, weight=len(memo) + 1)
    return memo


def _open_tag_list(actor: Actor, conditions: Conditions, source: Commit) -> tuple[bytes, files.FileContent]:
    places = (to_bytes(conditions.tags_file),) if conditions.tags_file else USUAL_PLACES
    for path in places:
        try:
            return path, files.open_file(actor, source, path=path)
        except FileNotInCommit:
            continue
    names = ", ".join(map(to_text, places))
    raise BadTagList(f"The {source.label} has no list of tags: there is no {names}.")


_sums: Kept[SelectedSum] = Kept(_KEPT_SUMS)
_tagged: Kept[frozenset[bytes]] = Kept(_KEPT_NAMES)
