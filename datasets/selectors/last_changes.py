"""For the rows of a folder listing: the newest commit that changed each. History never changes, so answers are kept."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from accounts.permissions import Actor, require
from datasets import permissions
from datasets.engine.browse import FolderItem
from datasets.engine.last_changes import BoundedLoad, OutOfBudget, Step, find_changed
from datasets.models import Commit
from datasets.selectors import commits
from datasets.selectors.trees import Kept, TreeReader
from nearline.content.manifest import Entry

# So far is looked back for one page: this many commits, and this many ranges that are not in two neighbours.
_COMMITS = 50
_RANGES = 60
_KEPT_ANSWERS = 20_000


@dataclass(frozen=True)
class LastChange:
    """The commit that changed a path last."""

    commit_id: str
    message: str
    author: str
    created_at: datetime

    @property
    def short(self) -> str:
        """The first eight digits of the commit's id, for people."""
        return self.commit_id[:8]


@dataclass(frozen=True)
class _Answer:
    change: LastChange | None


def find_last_changes(
    actor: Actor, commit: Commit, items: Sequence[FolderItem | Entry]
) -> Mapping[bytes, LastChange | None]:
    """Return, by path, the newest commit up to `commit` that changed each item; None when it lies too far back.

    The items are those of a listing of that commit. A folder is changed by whatever changes in it.
    """
    require(actor, permissions.VIEW, commit.dataset.project_id)
    names = {_name_of(item): item.path for item in items}
    answers: dict[bytes, _Answer] = {}
    load = BoundedLoad(TreeReader(commit.dataset).load_range, _RANGES)
    for step in _walk_back(actor, commit) if names else ():
        for name in names.keys() - answers.keys():
            if memo := _answers.get(_key(step.commit, name)):
                answers[name] = memo
        try:
            changed = find_changed(names.keys() - answers.keys(), step, load)
        except OutOfBudget:
            break
        answer = _Answer(_describe(step.commit))
        answers.update(dict.fromkeys(changed, answer))
        if len(answers) == len(names):
            break
    for name in names:
        _answers.put(_key(commit, name), answers.setdefault(name, _Answer(None)))
    return {path: answers[name].change for name, path in names.items()}


def forget() -> None:
    """Drop what is kept."""
    _answers.clear()


def _walk_back(actor: Actor, commit: Commit) -> Iterator[Step[Commit]]:
    reader = TreeReader(commit.dataset)
    page = commits.list_commits(actor, commit.dataset, ref=commit.id, cursor=None, limit=_COMMITS + 1)
    for row, parent in pairwise(page.items):
        yield Step(row, reader.read_root(row.root), reader.read_root(parent.root))
    oldest = page.items[-1]
    if oldest.parent_id is None:
        yield Step(oldest, reader.read_root(oldest.root), ())


def _name_of(item: FolderItem | Entry) -> bytes:
    return item.path + b"/" if isinstance(item, FolderItem) else item.path


def _key(commit: Commit, name: bytes) -> tuple[str, ...]:
    return commit.id, name.hex()


def _describe(commit: Commit) -> LastChange:
    return LastChange(commit.id, commit.message, commit.author_name, commit.created_at)


_answers: Kept[_Answer] = Kept(_KEPT_ANSWERS)
