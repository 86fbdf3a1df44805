"""A linked folder with all that a transfer needs of it, open under its lock."""

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from nearline.content.diff import Change
from nearline.content.diff import Conflict as TreeConflict
from nearline.content.entries import Entry
from nearline.content.manifest import RootRange
from nearline.content.paths import collision_details, describe_collisions, find_collisions, to_text
from nearline.errors import Conflict
from nearline.transfer.local.applying import Applied, FolderUpdate
from nearline.transfer.local.processes import count_useful
from nearline.transfer.local.scan import Scan, Sharing, scan_folder
from nearline.transfer.local.statcache import StatCache, opened
from nearline.transfer.local.target import TargetFolder
from nearline.transfer.local.walk import IgnoreRules, read_rules
from nearline.transfer.local.workspace import State, Workspace
from nearline.transfer.progress import Meter
from nearline.transfer.remote.manifests import Manifests
from nearline.transfer.remote.objects import SignedPacks
from nearline.transfer.remote.server import Storage
from nearline.transfer.sync import local_changes
from nearline.transfer.sync.local_changes import Changes, Sending
from nearline.transfer.sync.options import Options

_RARELY = (200_000, 20, 100)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Let the collector of garbage run rarely; it runs at its usual pace again afterwards.

    Entries come by the million and never refer to each other in circles, yet it would walk through all of them again
    and again: a third of the time of a large sync.
    """
    usual = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@dataclass(frozen=True)
class LinkedFolder:
    """The folder, what holds the content of its dataset, and what is known about both."""

    workspace: Workspace
    storage: Storage
    options: Options
    cache: StatCache
    manifests: Manifests
    root: bytes
    # Folders that scans left out as a whole.
    unseen_folders: set[bytes] = field(default_factory=set)

    @classmethod
    @contextmanager
    def open(cls, workspace: Workspace, storage: Storage, options: Options) -> Iterator[Self]:
        """Open a folder for one transfer. Raises Conflict when another one is under way."""
        with collecting_rarely(), workspace.lock(), opened(workspace.cache_path) as cache:
            manifests = Manifests(storage, workspace.manifests, policy=options.policy)
            yield cls(workspace, storage, options, cache, manifests, os.fsencode(workspace.root))

    @property
    def rules(self) -> IgnoreRules:
        """Return what the folder keeps to itself, as its files say now."""
        return read_rules(self.root, self.unseen_folders)

    def load_trees(self, base: str | None, other: str | None) -> tuple[list[RootRange], list[RootRange]]:
        """Return two trees, with the ranges in which they differ fetched ahead."""
        base_tree = self.manifests.load_root(base)
        if base == other:
            return base_tree, base_tree
        tree = self.manifests.load_root(other)
        common = {row.range_id for row in base_tree} & {row.range_id for row in tree}
        self.manifests.fetch_ahead(row for row in (*base_tree, *tree) if row.range_id not in common)
        return base_tree, tree

    def list_entries(self, tree: Sequence[RootRange]) -> Iterator[Entry]:
        """Yield the entries of a tree in order."""
        for row in tree:
            yield from self.manifests.load_range(row.range_id)

    def scan(self, tree: Sequence[RootRange], *, is_trusting: bool = True) -> Scan:
        """Compare the folder with a tree; without trust, every file counts as unknown."""
        meter = Meter(self.options.on_progress, "Looking at")
        cache = self.cache if is_trusting else None
        processes = count_useful(sum(row.files for row in tree))
        sharing = Sharing(processes, self.workspace.manifests) if processes > 1 else None
        load = self.manifests.load_range
        scan = scan_folder(self.root, self.rules, cache, tree, load, meter=meter, sharing=sharing)
        meter.finish()
        self.unseen_folders.update(skip.path for skip in scan.skipped if skip.is_unseen)
        # People were told of these when they were written.
        conflicts = self.cache.list_conflicts()
        self.cache.forget_conflicts(conflicts.difference(skip.path for skip in scan.skipped))
        return replace(scan, skipped=[skip for skip in scan.skipped if skip.path not in conflicts])

    def index_copies(self) -> Callable[[bytes, Entry | None], list[Path]]:
        """Return a function that says where in this folder a content may be: at the entry's path, or under any name."""
        known = {file.content_id: file.path for file in self.cache.list_files()}

        def find(content_id: bytes, entry: Entry | None) -> list[Path]:
            paths = [entry.path] if entry is not None else []
            if content_id in known:
                paths.append(known[content_id])
            return [self.workspace.root / to_text(path) for path in paths]

        return find

    def meter(self, scan: Scan, phase: str) -> Meter:
        """Return a meter for reading what a scan suspects."""
        size = sum(suspect.file.size for suspect in scan.suspects)
        return Meter(self.options.on_progress, phase, files_total=len(scan.suspects), bytes_total=size)

    def find_changes(
        self, scan: Scan, phase: str, *, sending: Sending | None = None, meter: Meter | None = None
    ) -> Changes:
        """Return what really changed, sending it where `sending` says."""
        meter = meter or self.meter(scan, phase)
        threads = self.options.threads
        is_shown = bool(scan.suspects)
        changes = local_changes.find_changes(self.root, scan, self.cache, threads=threads, meter=meter, sending=sending)
        if is_shown:
            meter.finish()
        return changes

    def apply(self, changes: Sequence[Change], conflicts: Sequence[TreeConflict], tree: Sequence[RootRange]) -> Applied:
        """Bring changes of a tree into the folder. Raises Conflict when the file system cannot hold its names."""
        self.options.check(change.after for change in changes if change.after is not None)
        target = TargetFolder(self.root, os.fsencode(self.workspace.temporary))
        if any(change.before is None for change in changes) and target.folds_names():
            self._check_names(tree)
        update = FolderUpdate(self.root, target, self.cache, self.rules)
        options = self.options
        return update.apply(
            SignedPacks(self.storage, options.policy),
            changes,
            conflicts,
            threads=options.threads,
            policy=options.policy,
            on_progress=options.on_progress,
            donor=options.donor,
        )

    def _check_names(self, tree: Sequence[RootRange]) -> None:
        if collisions := list(find_collisions(entry.path for entry in self.list_entries(tree))):
            raise Conflict(
                f"The file system of this folder cannot hold this commit. {describe_collisions(collisions)}",
                code="client.name_collision",
                hint="Use a file system that keeps such names apart, or rename the files in the dataset.",
                details=collision_details(collisions),
            )

    def finish(self, state: State, scan: Scan | None = None) -> None:
        """Note the version that the folder has now, and keep its manifests only.

        With `scan`, that version is the scanned tree with all that the scan found, and the next scan relies on that.
        """
        if state != self.workspace.state:
            self.workspace.write_state(state)
            self.manifests.keep_only([state.root] if state.root else [])
        if scan is not None:
            self.cache.keep_digests(scan.digests_of(self.manifests.load_root(state.root)))
