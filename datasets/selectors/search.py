"""What the search box finds in datasets: commits by id and message, files of newest commits by a part of their path.

The work of one search is bounded. Of files it says which datasets it has not read to their end.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import F, QuerySet

from accounts.permissions import Actor
from datasets.engine.names import may_be_commit
from datasets.errors import BlobMissing, ContentCorrupt, StoreUnreachable
from datasets.models import Branch, Commit, Dataset
from datasets.selectors import datasets
from datasets.selectors.trees import open_tree

MOST_MESSAGES = 2_000
MOST_DATASETS = 20
MOST_FILES = 1_000_000
SHORTEST_FILE_NAME = 2


@dataclass(frozen=True)
class FilesFound:
    """Files of one dataset's newest commit. `is_complete`: all of its files were looked at."""

    dataset: Dataset
    paths: Sequence[bytes]
    is_complete: bool


def find_commits(*, actor: Actor, text: str, limit: int) -> list[Commit]:
    """Return commits whose id begins with the text or, of the newest, whose message holds it."""
    seen = datasets.list_datasets(actor=actor).order_by().values("pk")
    rows = Commit.objects.filter(dataset__in=seen).select_related("dataset__project").order_by("-created_at", "pk")
    if may_be_commit(text.lower()):
        # Ids are hexadecimal, so all that begin with the text sort before the text with a `g`. An index finds them.
        by_id = list(rows.filter(pk__gte=text.lower(), pk__lt=f"{text.lower()}g")[:limit])
        if by_id:
            return by_id
    newest = rows.values("pk")[:MOST_MESSAGES]
    return list(rows.filter(pk__in=newest, message__icontains=text)[:limit])


def find_files(*, actor: Actor, text: str, limit: int) -> list[FilesFound]:
    """Return files whose path holds the text, in any case, in the newest commits of the datasets that changed last."""
    if len(text) < SHORTEST_FILE_NAME:
        return []
    part, files_left, matches = text.encode("utf-8", "surrogateescape"), MOST_FILES, []
    for branch in _changed_last(actor)[:MOST_DATASETS]:
        commit = branch.head
        assert commit is not None  # noqa: S101 (the query asks for it)
        commit.dataset = branch.dataset
        try:
            hits = open_tree(commit).find_names(part, limit=limit, most_files=files_left)
        except (BlobMissing, ContentCorrupt, StoreUnreachable):
            # One store that does not answer must not hide what lies in the others.
            matches.append(FilesFound(branch.dataset, [], is_complete=False))
            continue
        files_left, limit = files_left - hits.files_read, limit - len(hits.paths)
        if hits.paths or not hits.is_complete:
            matches.append(FilesFound(branch.dataset, hits.paths, hits.is_complete))
        if limit <= 0:
            break
    return matches


def _changed_last(actor: Actor) -> QuerySet[Branch]:
    """Return the default branches of the datasets that the actor may see, the one that moved last first."""
    seen = datasets.list_datasets(actor=actor).order_by().values("pk")
    heads = Branch.objects.filter(dataset__in=seen, name=F("dataset__default_branch"), head__isnull=False)
    return heads.select_related("head", "dataset__project", "dataset__store").order_by("-updated_at", "-pk")
