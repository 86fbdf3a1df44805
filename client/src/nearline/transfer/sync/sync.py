"""Bringing a linked folder and its dataset together: fetch, merge, apply, upload, at most one commit.

The order makes a kill at any moment harmless. Content is stored before a commit names it; the folder's state moves to
the fetched commit only after its changes are in the folder, and to the new commit only after that is made. A sync that
starts again finds what was done by comparing, and does the rest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from nearline.content.diff import Change, diff_roots, merge_changes
from nearline.content.diff import Conflict as TreeConflict
from nearline.content.entries import Entry
from nearline.content.manifest import RootRange
from nearline.content.paths import show_path, to_text
from nearline.errors import Conflict, NearlineError
from nearline.models import Commit
from nearline.transfer.local.applying import Applied
from nearline.transfer.local.scan import Scan
from nearline.transfer.local.walk import Skipped
from nearline.transfer.local.workspace import State, Workspace
from nearline.transfer.remote.server import Server, Storage
from nearline.transfer.sync import local_changes
from nearline.transfer.sync.folder import LinkedFolder
from nearline.transfer.sync.local_changes import Changes
from nearline.transfer.sync.options import Options
from nearline.transfer.sync.upload import Head, Publisher, check_names, find_head, is_stale, missing_packs, names_of

_LIMIT_REACHED = "datasets.storage_limit_reached"
"""Its hint, which is the server's, says what stays."""

# So often others may be faster, or the store may have lost packs, before a sync gives up.
_RACES = 20
_RESENDS = 3


@dataclass(frozen=True)
class Outcome:
    """What a transfer did. `commit` is the one that it made; bytes are those of file content that really moved.

    `files_removed` are gone from the folder because others removed them. `skipped` lists what cannot be carried, with
    the reason. `packs_healed` packs were damaged in the store and are whole again; `damaged` are files that stay so,
    because no good copy of them is here. `shared` counts the files that came from a cached copy on this machine by how
    they did (reflink, hard link, copy); `bytes_downloaded` counts these too. Paths are text, maybe with escaped bytes.
    """

    commit: Commit | None = None
    files_uploaded: int = 0
    bytes_uploaded: int = 0
    files_downloaded: int = 0
    bytes_downloaded: int = 0
    files_removed: int = 0
    conflicts: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    packs_healed: int = 0
    damaged: tuple[str, ...] = ()
    shared: Mapping[str, int] = field(default_factory=dict)

    @property
    def commit_id(self) -> str | None:
        """Return the id of the commit that was made."""
        return self.commit.id if self.commit else None

    @property
    def is_up_to_date(self) -> bool:
        """Return whether there was nothing to do."""
        changes = self.files_downloaded or self.files_removed or self.conflicts or self.packs_healed
        return self.commit is None and not changes

    def to_json(self) -> Mapping[str, Any]:
        """Return the outcome in the form in which the command line prints it."""
        return {
            "commit": self.commit.to_json() if self.commit else None,
            "commit_id": self.commit_id,
            "is_up_to_date": self.is_up_to_date,
            "files_uploaded": self.files_uploaded,
            "bytes_uploaded": self.bytes_uploaded,
            "files_downloaded": self.files_downloaded,
            "bytes_downloaded": self.bytes_downloaded,
            "files_removed": self.files_removed,
            "conflicts": list(self.conflicts),
            "packs_healed": self.packs_healed,
            "damaged": list(self.damaged),
            "shared": dict(self.shared),
            "skipped": [{"path": path, "why": why} for path, why in self.skipped],
        }


def sync_folder(
    workspace: Workspace, server: Server, *, message: str = "", force: bool = False, options: Options | None = None
) -> Outcome:
    """Fetch what others committed, merge, and commit what is new here.

    With `force` nothing is fetched: the dataset becomes what the folder is. Raises Conflict when another sync runs in
    the folder, or when names cannot stand beside each other.
    """
    with LinkedFolder.open(workspace, server, options or Options()) as folder, _telling_what_stays(folder):
        return _repeat(
            lambda lost: _Sync(folder, server, message, lost, fetch=not force, force=force).run(), force=force
        )


def upload_folder(
    workspace: Workspace, server: Server, *, message: str = "", force: bool = False, options: Options | None = None
) -> Outcome:
    """Commit what is new here without touching the folder.

    What others committed meanwhile stays: where it touches other files both are merged, else Conflict
    (`datasets.stale_parent`) is raised and nothing changes.
    """
    with LinkedFolder.open(workspace, server, options or Options()) as folder, _telling_what_stays(folder):
        return _repeat(lambda lost: _Sync(folder, server, message, lost, fetch=False, force=force).run(), force=force)


def download_folder(
    workspace: Workspace, server: Server, *, ref: str | None = None, options: Options | None = None
) -> Outcome:
    """Bring the branch's newest commit here, or that of `ref`, which also brings back what is missing here.

    What was changed here stays, with the dataset's version beside it.
    """
    with LinkedFolder.open(workspace, server, options or Options()) as folder:
        state = workspace.state
        if ref is None:
            head = find_head(server, workspace.link.branch, Head(state.commit, state.root))
        else:
            commit = server.get_commit(ref)
            head = Head(commit.id, commit.root)
        return _bring(folder, head, is_restoring=ref is not None)


def download_tree(workspace: Workspace, storage: Storage, root: str, *, options: Options | None = None) -> Outcome:
    """Bring the files of a tree into a folder that follows no branch; what is there already is not read again."""
    with LinkedFolder.open(workspace, storage, options or Options()) as folder:
        return _bring(folder, Head(None, root), is_restoring=True)


def _bring(folder: LinkedFolder, head: Head, *, is_restoring: bool) -> Outcome:
    base, target = folder.load_trees(folder.workspace.state.root, head.root)
    scan = folder.scan(base)
    ours: Iterable[Change] = folder.find_changes(scan, "Checking")
    theirs = list(diff_roots(base, target, folder.manifests.load_range))
    if is_restoring:
        ours, theirs = changes_to_restore(ours, theirs)
    merged = merge_changes(ours, theirs)
    applied = folder.apply(merged.changes, merged.conflicts, target)
    folder.finish(State(head.commit, head.root))
    return Outcome(
        files_downloaded=applied.files,
        bytes_downloaded=applied.size_bytes,
        files_removed=applied.removed,
        conflicts=show_paths(applied.conflicts),
        skipped=show_skipped((*scan.skipped, *applied.skipped)),
    )


@contextmanager
def _telling_what_stays(folder: LinkedFolder) -> Iterator[None]:
    """Have an error say what was sent and stays, so that the next sync need not send it again.

    The upload is not given up: its packs would leave the store before that.
    """
    try:
        yield
    except NearlineError as error:
        sent = sum(blob.size for blob in folder.cache.list_stored())
        if sent and error.code != _LIMIT_REACHED:
            size = f"{sent / 1e6:,.1f} MB" if sent >= 1e5 else f"{sent:,} B"  # noqa: PLR2004 (0.1 MB)
            stays = f"{size} that were sent stay in the store for a day: the next sync does not send them again."
            error.hint = f"{error.hint} {stays}".lstrip()
        raise


def _repeat(attempt: Callable[[set[bytes]], Outcome], *, force: bool) -> Outcome:
    """Begin anew when the server turns out to miss packs, or when a forced tree was overtaken."""
    lost: set[bytes] = set()
    for _ in range(_RESENDS):
        try:
            return attempt(lost)
        except NearlineError as error:
            missing = missing_packs(error)
            if not missing and not (force and is_stale(error)):
                raise
            lost |= missing
    return attempt(lost)


class _Sync:
    def __init__(
        self, folder: LinkedFolder, server: Server, message: str, lost: set[bytes], *, fetch: bool, force: bool
    ) -> None:
        self._folder = folder
        self._server = server
        self._message = message
        self._fetch = fetch
        self._force = force
        self._branch = folder.workspace.link.branch
        self._publisher = Publisher(server, self._branch, folder.manifests, folder.options, frozenset(lost))
        self._applied = Applied(0, 0, [])
        self._bytes_sent = 0
        folder.cache.forget_stored(lost)

    def run(self) -> Outcome:
        folder = self._folder
        state = folder.workspace.state
        head = find_head(self._server, self._branch, Head(state.commit, state.root))
        base = head if self._force else Head(state.commit, state.root)
        base_tree, head_tree = folder.load_trees(base.root, head.root)
        scanned, scan = base, folder.scan(base_tree)
        # Before anything is sent: it would be a pity to learn of it afterwards.
        self._check_names(
            head_tree,
            {suspect.file.path for suspect in scan.suspects if suspect.before is None},
            {entry.path for entry in scan.removed},
        )
        self._publisher.heal(head_tree, folder.index_copies)
        ours: Changes | list[Change] = self._send_changes(scan, [base_tree, head_tree])
        for _ in range(_RACES):
            theirs = list(diff_roots(base_tree, head_tree, folder.manifests.load_range))
            merged = merge_changes(ours, theirs)
            mine = changes_to_commit(ours, theirs, merged.conflicts) if theirs else ours
            if self._fetch and base != head:
                applied = folder.apply(merged.changes, merged.conflicts, head_tree)
                self._note(applied)
                folder.finish(State(head.commit, head.root))
                base, base_tree, ours = head, head_tree, mine
            elif merged.conflicts:
                raise _overtaken(merged.conflicts[0].path, head)
            if not mine:
                return self._outcome(scan, None)
            try:
                commit = self._publisher.publish(head, head_tree, mine, self._message)
            except Conflict as error:
                if self._force or not is_stale(error):
                    raise
                head = find_head(self._server, self._branch)
                _, head_tree = folder.load_trees(base.root, head.root)
                self._check_names(head_tree, *names_of(ours))
                continue
            if base == head:
                folder.finish(State(commit.id, commit.root), scan if base == scanned else None)
            folder.cache.forget_stored()
            return self._outcome(scan, commit)
        raise Conflict("Others commit faster than this sync can follow.", code="client.overtaken", hint="Try again.")

    def _check_names(self, tree: Sequence[RootRange], added: set[bytes], removed: set[bytes]) -> None:
        # A file where others need a folder is for the merge to settle.
        kinds = () if self._folder.options.allow_collisions else ("fold",)
        check_names(tree, added, removed, self._folder.manifests, kinds=kinds)

    def _send_changes(self, scan: Scan, trees: Sequence[Sequence[RootRange]]) -> Changes:
        """Store the content of what changed here and return the changes, which say where it lies."""
        folder = self._folder
        if not any(map(local_changes.needs_reading, scan.suspects)):
            return folder.find_changes(scan, "Uploading")
        meter = folder.meter(scan, "Uploading")
        with self._publisher.sending(trees, meter, folder.cache) as sending:
            changes = folder.find_changes(scan, "Uploading", sending=sending, meter=meter)
            self._bytes_sent = sending.sender.bytes_sent
        return changes

    def _note(self, applied: Applied) -> None:
        before = self._applied
        self._applied = Applied(
            before.files + applied.files,
            before.size_bytes + applied.size_bytes,
            sorted({*before.conflicts, *applied.conflicts}),
            before.removed + applied.removed,
            before.skipped + applied.skipped,
        )

    def _outcome(self, scan: Scan, commit: Commit | None) -> Outcome:
        return Outcome(
            commit=commit,
            files_uploaded=commit.added + commit.changed if commit else 0,
            bytes_uploaded=self._bytes_sent,
            packs_healed=self._publisher.healing.healed,
            damaged=show_paths(self._publisher.healing.files),
            files_downloaded=self._applied.files,
            bytes_downloaded=self._applied.size_bytes,
            files_removed=self._applied.removed,
            conflicts=show_paths(self._applied.conflicts),
            skipped=show_skipped((*scan.skipped, *self._applied.skipped)),
        )


def _overtaken(path: bytes, head: Head) -> Conflict:
    name = show_path(path)
    return Conflict(
        f"Others committed meanwhile and changed '{name}', which you changed too.",
        code="datasets.stale_parent",
        hint="Run `nearline data sync`: it brings both together.",
        details={"head": head.commit, "path": name},
    )


def changes_to_commit(
    ours: Iterable[Change], theirs: Iterable[Change], conflicts: Iterable[TreeConflict]
) -> list[Change]:
    """Return what turns their tree into the merged one: our changes, of which those in conflict win."""
    their_changes = {change.path: change for change in theirs}
    our_paths = set()
    result = []
    for change in ours:
        our_paths.add(change.path)
        their = their_changes.get(change.path)
        there = their.after if their is not None else change.before
        if not _is_same_file(there, change.after):
            result.append(Change(change.path, there, change.after))
    # Where our file stands in the place of their folder, or the other way round, theirs has to leave the tree.
    result += [
        Change(conflict.path, conflict.theirs, None)
        for conflict in conflicts
        if conflict.theirs is not None and conflict.path not in our_paths
    ]
    return sorted(result, key=lambda change: change.path)


def changes_to_restore(ours: Iterable[Change], theirs: Sequence[Change]) -> tuple[list[Change], list[Change]]:
    """Return both sides so that what is missing here counts as something to fetch, not as something removed."""
    remaining = [change for change in ours if change.after is not None]
    their_paths = {change.path for change in theirs}
    restored = [
        Change(change.path, None, change.before)
        for change in ours
        if change.after is None and change.path not in their_paths
    ]
    return remaining, sorted([*theirs, *restored], key=lambda change: change.path)


def _is_same_file(one: Entry | None, other: Entry | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.identity == other.identity


def show_paths(paths: Iterable[bytes]) -> tuple[str, ...]:
    """Return paths as text."""
    return tuple(map(to_text, paths))


def show_skipped(skipped: Iterable[Skipped]) -> tuple[tuple[str, str], ...]:
    """Return what was skipped as text."""
    return tuple((to_text(skip.path), skip.why) for skip in skipped)
