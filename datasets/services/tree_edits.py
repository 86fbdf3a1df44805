"""Commits whose tree is put together here: files that came part by part, and files that are removed or renamed."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accounts.permissions import Actor, require
from core.errors import InvalidInput
from core.units import count_of
from datasets import permissions
from datasets.engine.browse import TreeView
from datasets.errors import FileNotInCommit, ManifestRejected, StaleParent
from datasets.models import Commit, CommitSource, Dataset, UploadSession, UploadState
from datasets.selectors.commits import head_of
from datasets.selectors.trees import TreeReader
from datasets.services import commits, manifests, upload_parts, uploads
from nearline.content.diff import Change, patch_tree
from nearline.content.errors import BadPath, ContentError
from nearline.content.manifest import Entry, EntryKind, RootRange
from nearline.content.paths import check_path, show_path


@dataclass(frozen=True)
class _Tree:
    """The tree to build on."""

    ranges: Sequence[RootRange]
    reader: TreeReader

    @property
    def view(self) -> TreeView:
        return TreeView(self.ranges, self.reader.load_range, self.reader.load_names)

    def list_below(self, path: bytes) -> Iterator[Entry]:
        """Yield the file at a path, or the files in the folder there."""
        start, end = path + b"/", path + b"0"
        for row in self.ranges:
            if row.last_path < path or row.first_path >= end:
                continue
            for entry in self.reader.load_range(row.range_id):
                if entry.path == path or start <= entry.path < end:
                    yield entry


_ListChanges = Callable[[_Tree], Sequence[Change]]


def commit_parts(*, actor: Actor, upload: UploadSession, expected_head: str | None, message: str) -> Commit:
    """Commit the files that came in an upload's parts, on top of what the branch holds; asked again, the same commit.

    What others committed meanwhile stays, except for the same paths. A commit that would change nothing is not made:
    the branch's head is returned. Raises StaleParent when the branch is not at `expected_head` (nothing is lost: ask
    again with `details.head`), InvalidInput while a part is incomplete, and what `commits.commit_upload` raises.
    """
    require(actor, permissions.COMMIT, upload.dataset.project_id)
    if upload.state == UploadState.COMMITTED and upload.commit is not None:
        return upload.commit
    if incomplete := upload.parts.filter(is_complete=False).count():
        raise InvalidInput(f"Not whole yet: {count_of(incomplete, 'file')}.")
    entries: dict[bytes, Entry] = {}
    for part in upload_parts.list_arrived(actor=actor, upload=upload):
        entries.update((entry.path, entry) for entry in part.entries)
    if not entries:
        raise InvalidInput("No file has come yet.")

    def additions(tree: _Tree) -> list[Change]:
        changes = (_put(tree.view, entries[path]) for path in sorted(entries))
        return [change for change in changes if change is not None]

    return _commit(actor, upload, expected_head, message, additions)


def commit_entries(
    *, actor: Actor, upload: UploadSession, expected_head: str | None, message: str, entries: Mapping[bytes, Entry]
) -> Commit:
    """Commit entries whose packs are at hand, on top of what the branch holds, as an import.

    An equal file whose content lies in another pack now is changed too: its old pack may be damaged. A commit that
    would change nothing is not made: the branch's head is returned. Raises what `commit_parts` raises.
    """

    def additions(tree: _Tree) -> list[Change]:
        view = tree.view
        changes = ((path, view.find(path), entries[path]) for path in sorted(entries))
        return [
            Change(path, before, after)
            for path, before, after in changes
            if before is None or (before.identity, before.blobs) != (after.identity, after.blobs)
        ]

    return _commit(actor, upload, expected_head, message, additions, source=CommitSource.IMPORT)


def remove_paths(
    *, actor: Actor, dataset: Dataset, branch: str, paths: Collection[bytes], expected_head: str, message: str = ""
) -> Commit:
    """Commit the removal of files, and of folders with all that is in them. Raises FileNotInCommit and StaleParent."""

    def removals(tree: _Tree) -> list[Change]:
        gone = {entry.path: entry for path in paths for entry in _found(tree, path)}
        return [Change(path, gone[path], None) for path in sorted(gone)]

    named = show_path(min(paths)) if len(paths) == 1 else f"{len(paths)} paths"
    upload = _start(actor, dataset, branch)
    return _commit(actor, upload, expected_head, message or f"Remove {named}", removals)


def rename_path(
    *, actor: Actor, dataset: Dataset, branch: str, path: bytes, to: bytes, expected_head: str | None, message: str = ""
) -> Commit:
    """Commit another name for a file, or for a folder with all that is in it; no byte moves.

    Raises InvalidInput when something has the new name, BadPath's reason for a name that cannot be carried,
    FileNotInCommit and StaleParent.
    """
    try:
        check_path(to)
    except BadPath as error:
        raise InvalidInput(str(error)) from error
    if to == path:
        raise InvalidInput(f"'{show_path(path)}' is its path already.")
    if to.startswith(path + b"/"):
        raise InvalidInput(f"'{show_path(path)}' cannot be moved into itself.")

    def moves(tree: _Tree) -> list[Change]:
        moved = _found(tree, path)
        if any(True for _ in tree.list_below(to)):
            raise InvalidInput(f"There is a '{show_path(to)}' already.")
        changes: dict[bytes, Change] = {}
        for entry in moved:
            there = to + entry.path[len(path) :]
            changes[entry.path] = Change(entry.path, entry, None)
            changes[there] = Change(there, None, entry._replace(path=there))
        return [changes[at] for at in sorted(changes)]

    upload = _start(actor, dataset, branch)
    return _commit(actor, upload, expected_head, message or f"Rename {show_path(path)} to {show_path(to)}", moves)


def _start(actor: Actor, dataset: Dataset, branch: str) -> UploadSession:
    return uploads.start_upload(actor=actor, dataset=dataset, branch=branch, client_id="browser").upload


def _commit(
    actor: Actor,
    upload: UploadSession,
    expected_head: str | None,
    message: str,
    list_changes: _ListChanges,
    *,
    source: CommitSource = CommitSource.WEB,
) -> Commit:
    dataset = upload.dataset
    head = head_of(actor=actor, upload=upload)
    if (head.id if head is not None else None) != expected_head:
        raise StaleParent(
            f"'{upload.branch}' has moved on since you read it.",
            head=head.id if head is not None else None,
            branch=upload.branch,
        )
    reader = TreeReader(dataset)
    tree = _Tree(reader.read_root(head.root) if head is not None else (), reader)
    changes = list_changes(tree)
    if not changes and head is not None:
        uploads.cancel_upload(actor=actor, upload=upload)
        return head
    try:
        patched = patch_tree(tree.ranges, changes, reader.load_range)
        manifests.put_tree(dataset, patched)
    except ContentError as error:
        raise ManifestRejected(str(error)) from error
    return commits.commit_upload(
        actor=actor,
        upload=upload,
        root=patched.root_id,
        expected_head=expected_head,
        message=message,
        source=source,
        idempotency_key=upload.id,
    )


def _put(view: TreeView, entry: Entry) -> Change | None:
    before = view.find(entry.path)
    if before is not None and before.kind is EntryKind.FILE:
        entry = entry._replace(mode=before.mode)
    return Change(entry.path, before, entry) if before is None or before.identity != entry.identity else None


def _found(tree: _Tree, path: bytes) -> list[Entry]:
    entries = list(tree.list_below(path))
    if not entries:
        raise FileNotInCommit(f"The branch holds no '{show_path(path)}' any more.")
    return entries
