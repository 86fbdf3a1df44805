"""Looking into a tree: folders page by page, files by pattern, one file's bytes, and what differs between commits."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from types import MappingProxyType

from accounts.permissions import Actor, require
from core import tasks
from core.errors import InvalidInput
from core.pagination import MAX_LIMIT, Page, decode_path, encode_cursor
from datasets import permissions
from datasets.adapters.opening import open_dataset_store
from datasets.engine.browse import FolderItem, Listing, SelectedSum
from datasets.engine.layout import pack_key
from datasets.engine.ports import BlobStore
from datasets.engine.queries import CompiledQuery
from datasets.errors import BlobMissing, ContentCorrupt, FileNotInCommit
from datasets.models import Dataset
from datasets.selectors import trees
from datasets.selectors.trees import FileTree, open_tree
from nearline.content.diff import Change, diff_roots
from nearline.content.hashing import file_id, new_hasher
from nearline.content.manifest import BlobRef, Entry, EntryKind, LoadRange, RootRange
from nearline.content.paths import show_path
from nearline.content.patterns import MAX_LENGTH


class FileContent:
    """One file of a tree, to be read whole or in part; every blob is checked before a byte of it is handed on.

    A pack that is found damaged or missing is looked at in the background, so that good copies of it are taken.
    """

    def __init__(self, entry: Entry, dataset: Dataset, store: BlobStore) -> None:
        self.entry = entry
        self._dataset = dataset
        self._store = store

    @property
    def size_bytes(self) -> int:
        """The length of the whole file."""
        return self.entry.size

    def read(self, first: int = 0, size: int | None = None) -> Iterator[bytes]:
        """Yield `size` bytes from `first` on. The first blob is read at once, so most errors come before any answer."""
        last = self.size_bytes if size is None else min(first + size, self.size_bytes)
        if self.entry.kind is EntryKind.SYMLINK:
            return iter([self.entry.target[first:last]])
        chunks = self._read(first, last)
        return chain(list(islice(chunks, 1)), chunks)

    def _read(self, first: int, last: int) -> Iterator[bytes]:
        whole = new_hasher() if (first, last) == (0, self.size_bytes) and len(self.entry.blobs) > 1 else None
        start = 0
        for blob in self.entry.blobs:
            end = start + blob.size
            if start < last and end > first:
                data = self._read_blob(blob)
                if whole is not None:
                    whole.update(data)
                yield data[max(0, first - start) : last - start]
            start = end
        if whole is not None and whole.digest() != self.entry.content_id:
            raise _damaged(self.entry)

    def _read_blob(self, blob: BlobRef) -> bytes:
        pack = blob.pack.hex()
        try:
            data = self._store.get_range(pack_key(pack), blob.offset, blob.size)
            if file_id(data) == blob.content_id:
                return data
            raise _damaged(self.entry)
        except (BlobMissing, ContentCorrupt):
            tasks.enqueue("datasets.check_pack", dataset_id=self._dataset.pk, pack=pack)
            raise


def list_folder(
    actor: Actor, tree: FileTree, *, path: bytes, cursor: str | None, limit: int
) -> Page[FolderItem | Entry]:
    """Return what lies directly in a folder. Raises FileNotInCommit when there is no such folder."""
    require(actor, permissions.VIEW, tree.dataset.project_id)
    return _page(trees.list_folder(tree, path.strip(b"/"), resume_at=_position(cursor), limit=_bounded(limit)))


def sum_folder(actor: Actor, tree: FileTree, *, path: bytes) -> FolderItem:
    """Return how many files and bytes lie in a folder at any depth."""
    require(actor, permissions.VIEW, tree.dataset.project_id)
    return open_tree(tree).sum_folder(path.strip(b"/"))


def list_matching(
    actor: Actor, tree: FileTree, *, glob: bytes, cursor: str | None, limit: int
) -> Page[FolderItem | Entry]:
    """Return the files whose path matches. A page may be short, even empty, and have a next one all the same.

    Raises InvalidInput for a pattern that is longer than any path.
    """
    require(actor, permissions.VIEW, tree.dataset.project_id)
    if len(glob) > MAX_LENGTH:
        raise InvalidInput(f"A pattern has at most {MAX_LENGTH} characters; this one has {len(glob)}.")
    return _page(trees.list_matching(tree, glob, resume_at=_position(cursor), limit=_bounded(limit)))


def list_selected(
    actor: Actor, tree: FileTree, query: CompiledQuery, *, cursor: str | None, limit: int
) -> Page[FolderItem | Entry]:
    """Return the files that a query selects. A page may be short, even empty, and have a next one all the same."""
    require(actor, permissions.VIEW, tree.dataset.project_id)
    return _page(open_tree(tree).list_selected(query, resume_at=_position(cursor), limit=_bounded(limit)))


def sum_selected(actor: Actor, tree: FileTree, query: CompiledQuery) -> SelectedSum:
    """Return how much of a tree a query selects."""
    require(actor, permissions.VIEW, tree.dataset.project_id)
    return open_tree(tree).sum_selected(query)


def open_file(actor: Actor, tree: FileTree, *, path: bytes) -> FileContent:
    """Return one file to be read. Raises FileNotInCommit."""
    require(actor, permissions.VIEW, tree.dataset.project_id)
    entry = open_tree(tree).find(path)
    if entry is None:
        raise FileNotInCommit(f"The {tree.label} has no file '{show_path(path)}'.")
    return FileContent(entry, tree.dataset, open_dataset_store(tree.dataset))


def count_changes(
    base: Sequence[RootRange],
    other: Sequence[RootRange],
    load_range: LoadRange,
    known: Mapping[tuple[str, str], int] = MappingProxyType({}),
) -> tuple[int, int, int]:
    """Return how many files were added, removed and changed from `base` to `other`.

    `known` says of pairs of their ranges, each with the same paths, how many files differ; these are not read.
    """
    counts = {"added": 0, "removed": 0, "changed": sum(known.values())}
    counted = set(chain.from_iterable(known))
    before, after = ([row for row in tree if row.range_id not in counted] for tree in (base, other))
    for change in diff_roots(before, after, load_range):
        counts[kind_of(change)] += 1
    return counts["added"], counts["removed"], counts["changed"]


def kind_of(change: Change) -> str:
    """Return `added`, `removed` or `changed`."""
    if change.before is None:
        return "added"
    return "removed" if change.after is None else "changed"


def _damaged(entry: Entry) -> ContentCorrupt:
    name = show_path(entry.path)
    return ContentCorrupt(f"The store's copy of '{name}' is damaged.", path=name)


def _page(listing: Listing) -> Page[FolderItem | Entry]:
    return Page(listing.items, None if listing.resume_at is None else _cursor(listing.resume_at))


def _cursor(path: bytes) -> str:
    return encode_cursor(path.hex())


def _position(cursor: str | None) -> bytes | None:
    if not cursor:
        return None
    return decode_path(cursor)


def _bounded(limit: int) -> int:
    return max(1, min(limit, MAX_LIMIT))
