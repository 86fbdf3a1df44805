"""Bringing a folder to a merged tree: removals, then files, each only where the folder is still what the merge saw."""

import errno
import os
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from nearline.content.diff import Change, Conflict
from nearline.content.entries import Entry, EntryKind
from nearline.content.hashing import Buffer
from nearline.content.paths import MAX_COMPONENT_BYTES
from nearline.content.retry import RetryPolicy
from nearline.hydrate.engine import hydrate
from nearline.hydrate.ports import HydrationProgress, PackSource
from nearline.transfer.local import reading
from nearline.transfer.local.scan import is_same
from nearline.transfer.local.sharing import Donor
from nearline.transfer.local.statcache import StatCache
from nearline.transfer.local.target import TargetFolder
from nearline.transfer.local.walk import OWN_NAME, IgnoreRules, LocalFile, Skipped, cannot, has_own_name, longest_path
from nearline.transfer.progress import Meter, OnProgress

_CONFLICT = b".conflict"


class Applied(NamedTuple):
    """What was done. `conflicts` are the paths whose local file was kept beside, or instead of, the server's.

    `skipped` was not brought here.
    """

    files: int
    size_bytes: int
    conflicts: list[bytes]
    removed: int = 0
    skipped: tuple[Skipped, ...] = ()


class FolderUpdate:
    """One update of a folder. What appears or changes in it meanwhile is kept, as if the merge had seen it."""

    def __init__(
        self,
        root: bytes,
        target: TargetFolder,
        cache: StatCache | None,
        rules: IgnoreRules,
    ) -> None:
        self._root = root
        self._target = target
        self._cache = cache
        self._rules = rules
        self._lock = threading.Lock()
        self._late: list[bytes] = []
        # What the merge took each path of a change for.
        self._before: dict[bytes, Entry | None] = {}

    def apply(
        self,
        source: PackSource,
        changes: Sequence[Change],
        conflicts: Sequence[Conflict] = (),
        *,
        threads: int,
        policy: RetryPolicy,
        on_progress: OnProgress,
        donor: Donor | None = None,
    ) -> Applied:
        """Remove and write what the changes say; of conflicts, write theirs beside ours.

        What a donor has is not read from `source`. Raises Failed for a path that is too long for this folder, once
        all other files are there.
        """
        longest = longest_path(self._root)
        own = (path for path, _, after in changes if after is not None and has_own_name(path))
        skipped = tuple(Skipped(path, OWN_NAME) for path in own)
        changes = [change for change in changes if not self._rules.covers(change.path)]
        too_long = [path for path, _, after in changes if after is not None and len(path) > longest]
        changes = [change for change in changes if len(change.path) <= longest]
        removed = sum(self._remove(change) for change in reversed(changes) if change.after is None)
        conflicts = [conflict for conflict in conflicts if not self._rules.covers(conflict.path)]
        files = _MergedFiles(self._target, self._cache, self._choose_path, donor)
        entries = [change.after for change in changes if change.after is not None]
        entries += [conflict.theirs for conflict in conflicts if conflict.theirs is not None]
        self._before = {change.path: change.before for change in changes}
        if entries:
            size = sum(entry.size for entry in entries)
            meter = Meter(on_progress, "Downloading", files_total=len(entries), bytes_total=size)

            def note(progress: HydrationProgress) -> None:
                files.remember()
                meter.show(files=progress.files, size_bytes=progress.size_bytes)

            done = hydrate(source, files, entries, policy=policy, threads=threads, on_progress=note)
            note(done)
            meter.finish()
        if too_long:
            raise cannot("write", too_long[0], OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG)))
        paths = sorted({*(conflict.path for conflict in conflicts), *self._late})
        return Applied(files.count, files.size_bytes, paths, removed, skipped)

    def _remove(self, change: Change) -> bool:
        if not self._is_as_expected(change.path, change.before):
            self._late.append(change.path)
            return False
        return self._target.remove(change.path)

    def _choose_path(self, entry: Entry) -> bytes | None:
        if entry.path not in self._before:
            return self._conflict_path(entry.path)
        present = self._target.find(entry.path)
        if present is not None and not self._is_as_expected(entry.path, self._before[entry.path]):
            if self._is_content_of(present, entry):
                return None
            with self._lock:
                self._late.append(entry.path)
            return self._conflict_path(entry.path)
        return entry.path

    def _is_as_expected(self, path: bytes, expected: Entry | None) -> bool:
        """Return whether a path holds what the merge took it for; nothing at all is fine too."""
        present = self._target.find(path)
        return present is None or (expected is not None and self._is_content_of(present, expected))

    def _is_content_of(self, file: LocalFile, entry: Entry) -> bool:
        if file.target:
            return file.target == entry.target
        cached = self._cache.find(file.path) if self._cache else None
        if cached is not None and cached.is_still(file):
            return is_same(file, cached.content_id, entry)
        if file.size != entry.size:
            return False
        content = reading.hash_file(self._root, file)
        return content is not None and is_same(content.file, content.content_id, entry)

    def _conflict_path(self, path: bytes) -> bytes:
        """Return where the server's version goes: beside ours, or beside our file where it needs a folder."""
        parts = path.split(b"/")
        for index in range(len(parts)):
            here = b"/".join(parts[: index + 1])
            full = self._root + b"/" + here
            is_blocked = os.path.lexists(full) and (os.path.islink(full) or not os.path.isdir(full))
            if is_blocked or index == len(parts) - 1:
                parts[index] = parts[index][: MAX_COMPONENT_BYTES - len(_CONFLICT)] + _CONFLICT
                break
        return b"/".join(parts)


class _MergedFiles:
    """Files on their way into a linked folder. Implements `nearline.hydrate.ports.Target`.

    `choose_path` is asked just before a file becomes visible; None leaves it out.
    """

    def __init__(
        self,
        folder: TargetFolder,
        cache: StatCache | None,
        choose_path: Callable[[Entry], bytes | None],
        donor: Donor | None,
    ) -> None:
        self.count = self.size_bytes = 0
        self._folder = folder
        self._cache = cache
        self._choose_path = choose_path
        self._donor = donor
        self._lock = threading.Lock()
        self._written: list[tuple[LocalFile, bytes]] = []
        self._beside: list[bytes] = []

    def prepare(self, _entries: Sequence[Entry]) -> None:
        """Make nothing yet: folders are made for the files that are not left out."""

    def is_in_place(self, entry: Entry) -> bool:
        """Return whether the donor had the file: the merge lists only what is not there."""
        if self._donor is None or entry.kind is EntryKind.SYMLINK or not entry.size:
            return False
        path = self._choose_path(entry)
        shared = self._folder.share_file(path, entry, self._donor) if path is not None else None
        if shared is not None:
            self._note(entry, shared)
        return shared is not None

    def write_file(self, entry: Entry, content: Buffer) -> None:
        """Make a small file visible."""
        path = self._choose_path(entry)
        if path is not None:
            self._note(entry, self._folder.write_file(path, entry, content))

    def write_piece(self, entry: Entry, offset: int, content: Buffer) -> None:
        """Write a piece of a hidden file."""
        self._folder.write_piece(entry, offset, content)

    def publish(self, entry: Entry) -> bool:
        """Make a large file visible if it is whole."""
        if not self._folder.is_whole(entry):
            return False
        path = self._choose_path(entry)
        if path is not None:
            self._note(entry, self._folder.publish(path, entry))
        else:
            self._folder.discard(entry)
        return True

    def discard(self, entry: Entry) -> None:
        """Remove a hidden file."""
        self._folder.discard(entry)

    def write_link(self, entry: Entry) -> None:
        """Make a link visible."""
        path = self._choose_path(entry)
        if path is not None:
            self._note(entry, self._folder.write_link(path, entry))

    def finish(self) -> None:
        """End with nothing left to do."""

    def remember(self) -> None:
        """Note in the cache what was written since."""
        with self._lock:
            written, self._written = self._written, []
            beside, self._beside = self._beside, []
        if self._cache is not None:
            self._cache.remember(written)
            self._cache.note_conflicts(beside)

    def _note(self, entry: Entry, file: LocalFile) -> None:
        with self._lock:
            self.count += 1
            self.size_bytes += entry.size if entry.blobs else 0
            if file.path == entry.path:
                self._written.append((file, entry.content_id))
            else:
                # The folder, where there is one: it is what a walk finds.
                name, ending, _ = file.path.partition(_CONFLICT + b"/")
                self._beside.append(name + ending.rstrip(b"/"))
