"""Reading trees, those of commits and those that are stored without one: verified, the latest kept decoded.

Trees never change, so what it costs something to make of one is kept in memory for the next reader, in one place for
all threads.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeAlias, TypeVar

from accounts.permissions import Actor, require
from datasets import permissions
from datasets.adapters.opening import open_manifests
from datasets.engine.browse import Listing, TreeView
from datasets.engine.globs import compile_glob
from datasets.engine.layout import range_key, root_key
from datasets.engine.range_names import join_names
from datasets.errors import ContentCorrupt, FileNotInCommit, TreeNotFound
from datasets.models import Commit, Dataset, StoredTree
from nearline.content.errors import ContentError
from nearline.content.manifest import Entry, RangeEntries, RootRange, decode_root, load_range, root_id
from nearline.content.paths import show_path
from nearline.content.range_deltas import KeepEntries, forget_entries
from nearline.content.retry import RetryPolicy

T = TypeVar("T")

# About 40 MB of ranges (an entry takes some 150 bytes, four times that once it was made), and a few MB of roots.
_CACHED_ENTRIES = 250_000
_MADE_WEIGHT = 4
_CACHED_ROOTS = 100
# The names of about two million files.
_CACHED_NAME_BYTES = 64 << 20
_CACHED_ITEMS = 20_000
# So many ranges are read from a store while the one before them is searched.
_READ_AHEAD = 8
_readers = ThreadPoolExecutor(_READ_AHEAD, thread_name_prefix="ranges")


class Kept(Generic[T]):
    """The values used last that never change, up to a total weight. One value heavier than that is not kept."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._weight = 0
        self._values: OrderedDict[tuple[str, ...], tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, ...]) -> T | None:
        """Return what is kept under a key; None when nothing is."""
        with self._lock:
            memo = self._values.get(key)
            if memo is None:
                return None
            self._values.move_to_end(key)
            return memo[0]

    def put(self, key: tuple[str, ...], value: T, *, weight: int = 1) -> None:
        """Keep a value, and drop those that were not asked for longest where there is no space."""
        with self._lock:
            if key in self._values or weight > self._capacity:
                return
            self._values[key] = (value, weight)
            self._weight += weight
            while self._weight > self._capacity:
                _, (_, dropped) = self._values.popitem(last=False)
                self._weight -= dropped

    def clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._values.clear()
            self._weight = 0


_roots: Kept[Sequence[RootRange]] = Kept(_CACHED_ROOTS)
_ranges: Kept[RangeEntries] = Kept(_CACHED_ENTRIES)
_pages: Kept[Listing] = Kept(_CACHED_ITEMS)
_names: Kept[bytes] = Kept(_CACHED_NAME_BYTES)


class TreeReader:
    """Loads what manifests say. Everything is checked against the hash that it was asked for by.

    A store that is away is waited for as `policy` says. Raises ContentCorrupt, BlobMissing and StoreUnreachable.
    """

    def __init__(self, dataset: Dataset, *, policy: RetryPolicy | None = None) -> None:
        self._dataset_id = dataset.id
        self._store = open_manifests(dataset)
        self._policy = policy
        self._latest: tuple[str, RangeEntries] | None = None
        self._order: Sequence[str] = ()
        self._ahead: dict[str, Future[RangeEntries]] = {}

    def read_root(self, root: str) -> Sequence[RootRange]:
        """Return the ranges of a tree."""
        key = (self._dataset_id, root)
        memo = _roots.get(key)
        if memo is None:
            data = self._get(root_key(root))
            if root_id(data) != root:
                raise ContentCorrupt(f"The store's copy of the root {root[:12]} is damaged.", root=root)
            memo = _decode_root(data, root)
            _roots.put(key, memo, weight=1)
        self._order = [row.range_id for row in memo]
        return memo

    def load_range(self, range_id: str) -> RangeEntries:
        """Return the entries of a range."""
        key = (self._dataset_id, range_id)
        memo = _ranges.get(key)
        if memo is None:
            memo = self._read_once(range_id, keep=lambda id_, entries, _: self.keep_range(id_, entries))
            self.keep_range(range_id, memo)
        return memo

    def load_names(self, range_id: str) -> bytes:
        """Return the paths of a range in one piece. Whoever asks for one after the other gets them read ahead."""
        key = (self._dataset_id, range_id)
        memo = _names.get(key)
        if memo is None:
            # The ranges that are kept stay: a search goes through all of a tree, and needs only these of it.
            entries = _ranges.get(key)
            if entries is None:
                self._read_ahead(range_id)
                entries = self._read_once(range_id)
            memo = self.keep_names(range_id, entries)
        return memo

    def keep_names(self, range_id: str, entries: RangeEntries) -> bytes:
        """Remember the paths of a range that was just read, and return them in one piece."""
        names = join_names(entries.paths)
        _names.put((self._dataset_id, range_id), names, weight=len(names))
        return names

    def find_kept(self, range_id: str) -> RangeEntries | None:
        """Return the entries of a range that is remembered."""
        return _ranges.get((self._dataset_id, range_id))

    def keep_range(self, range_id: str, entries: RangeEntries) -> None:
        """Remember a range that was just read and verified by other means."""
        weight = len(entries) * (1 if entries.is_plain else _MADE_WEIGHT)
        _ranges.put((self._dataset_id, range_id), entries, weight=weight)

    def list_entries(self, root: str) -> Iterator[Entry]:
        """Yield every entry of a tree in order, holding one range at a time."""
        for row in self.read_root(root):
            yield from _ranges.get((self._dataset_id, row.range_id)) or self._read_range(row.range_id)

    def _get(self, key: str) -> bytes:
        if self._policy is None:
            return self._store.get(key)
        return self._policy.repeat(lambda: self._store.get(key))

    def _read_once(self, range_id: str, keep: KeepEntries = forget_entries) -> RangeEntries:
        """Read a range; the one that was read last is at hand, for what is found by its names is asked for next."""
        if self._latest is None or self._latest[0] != range_id:
            future = self._ahead.pop(range_id, None)
            self._latest = range_id, self._read_range(range_id, keep) if future is None else future.result()
        return self._latest[1]

    def _read_ahead(self, range_id: str) -> None:
        """Have the ranges behind one read too, where the one before it was the last that was read."""
        before = self._latest[0] if self._latest is not None else None
        place = self._order.index(range_id) if range_id in self._order else 0
        if not place or self._order[place - 1] != before:
            return
        for later in self._order[place + 1 : place + 1 + _READ_AHEAD]:
            key = (self._dataset_id, later)
            if later not in self._ahead and _ranges.get(key) is None and _names.get(key) is None:
                self._ahead[later] = _readers.submit(self._read_range, later)

    def _read_range(self, range_id: str, keep: KeepEntries = forget_entries) -> RangeEntries:
        def get(name: str) -> bytes:
            return self._get(range_key(name))

        try:
            # Every range of a commit was checked before the commit was made.
            return load_range(range_id, get, find=self.find_kept, keep=keep, is_verified=True)
        except ContentError as error:
            raise ContentCorrupt(
                f"The store's copy of the range {range_id[:12]} is damaged: {error}", range=range_id
            ) from error


FileTree: TypeAlias = Commit | StoredTree
"""What has files to be looked into: `dataset` and its store should be loaded."""


def get_tree(actor: Actor, dataset_id: str, root: str) -> StoredTree:
    """Return a stored tree. Raises TreeNotFound, also to those who are not members of its project."""
    return _get_stored(actor, dataset=dataset_id, root=root)


def get_tree_by_id(actor: Actor, tree_id: str) -> StoredTree:
    """Return a stored tree. Raises TreeNotFound as `get_tree` does."""
    return _get_stored(actor, pk=tree_id)


def _get_stored(actor: Actor, **which: str) -> StoredTree:
    tree = StoredTree.objects.filter(due_at=None, **which).select_related("dataset__store", "dataset__project").first()
    if tree is None or actor.level_in(tree.dataset.project_id) is None:
        raise TreeNotFound("There are no such files any more, or you are not a member of their project.")
    require(actor, permissions.VIEW, tree.dataset.project_id)
    return tree


def get_mounted(actor: Actor, dataset_id: str, root: str) -> FileTree:
    """Return what a job mounts: a commit or a stored tree with these files. Raises TreeNotFound as `get_tree` does."""
    commits = Commit.objects.filter(dataset=dataset_id, dataset__deleted_at=None, root=root)
    commit = commits.select_related("dataset__store").first()
    if commit is None or actor.level_in(commit.dataset.project_id) is None:
        return get_tree(actor, dataset_id, root)
    require(actor, permissions.VIEW, commit.dataset.project_id)
    return commit


def get_tree_of(actor: Actor, project_id: str, root: str) -> StoredTree:
    """Return a stored tree of a project. Raises TreeNotFound."""
    require(actor, permissions.VIEW, project_id)
    rows = StoredTree.objects.filter(dataset__project=project_id, dataset__is_internal=True, root=root, due_at=None)
    tree = rows.select_related("dataset__store", "dataset__project").first()
    if tree is None:
        raise TreeNotFound("The store does not hold these files any more.")
    return tree


def list_trees(actor: Actor, roots: Collection[str]) -> Sequence[StoredTree]:
    """Return the stored trees with these roots in all projects that the actor may see."""
    rows = StoredTree.objects.filter(root__in=roots, dataset__is_internal=True, due_at=None)
    if not actor.sees_everything:
        rows = rows.filter(dataset__project__in=actor.project_ids)
    return list(rows.select_related("dataset__store", "dataset__project").order_by("pk"))


def open_tree(tree: FileTree) -> TreeView:
    """Return a tree, to be looked into."""
    reader = TreeReader(tree.dataset)
    return TreeView(reader.read_root(tree.root), reader.load_range, reader.load_names)


def list_entries(tree: FileTree) -> Iterator[Entry]:
    """Yield every entry of a tree in the order of paths. For the platform itself."""
    return TreeReader(tree.dataset).list_entries(tree.root)


def list_folder(of: FileTree, folder: bytes, *, resume_at: bytes | None, limit: int) -> Listing:
    """Return a page of a folder. Raises FileNotInCommit when there is no such folder."""

    def make_page(tree: TreeView) -> Listing:
        if not tree.has_folder(folder):
            shown = show_path(folder)
            raise FileNotInCommit(f"The {of.label} has no folder '{shown}'.")
        return tree.list_folder(folder, resume_at=resume_at, limit=limit)

    return _find_page(of, make_page, "folder", folder, resume_at, limit)


def list_matching(of: FileTree, pattern: bytes, *, resume_at: bytes | None, limit: int) -> Listing:
    """Return a page of the files whose path matches."""

    def make_page(tree: TreeView) -> Listing:
        return tree.list_matching(compile_glob(pattern), resume_at=resume_at, limit=limit)

    return _find_page(of, make_page, "glob", pattern, resume_at, limit)


def _find_page(of: FileTree, make_page: Callable[[TreeView], Listing], *asked: object) -> Listing:
    """Return the page for what is asked. Trees never change, so one that was made once is kept."""
    key = (of.dataset_id, of.root, repr(asked))
    memo = _pages.get(key)
    if memo is None:
        memo = make_page(open_tree(of))
        _pages.put(key, memo, weight=len(memo.items) + 1)
    return memo


def forget() -> None:
    """Drop what is kept, so that the next reader goes to the store."""
    _roots.clear()
    _ranges.clear()
    _pages.clear()
    _names.clear()


def _decode_root(data: bytes, root: str) -> Sequence[RootRange]:
    try:
        return decode_root(data)
    except ContentError as error:
        raise ContentCorrupt(f"The root {root[:12]} cannot be read: {error}", root=root) from error
