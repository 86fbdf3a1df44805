"""Bringing a folder to a merged tree: removals, then files, each only where the folder is still what the merge saw."""

import os
import threading
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from nearline.content.diff import Change, Conflict
from nearline.content.entries import Entry
from nearline.content.paths import MAX_COMPONENT_BYTES
from nearline.content.retry import RetryPolicy
from nearline.transfer.local import reading
from nearline.transfer.local.ignore import IgnoreRules
from nearline.transfer.local.scan import is_same
from nearline.transfer.local.statcache import StatCache
from nearline.transfer.local.target import TargetFolder
from nearline.transfer.local.walk import Found
from nearline.transfer.progress import Meter, OnProgress
from nearline.transfer.remote import download
from nearline.transfer.remote.download import Fetched, Wanted
from nearline.transfer.remote.server import Server

_CONFLICT = b".conflict"


class Applied(NamedTuple):
    """What was done. `conflicts` are the paths whose local file was kept beside, or instead of, the server's."""

    files: int
    size_bytes: int
    conflicts: list[bytes]
    removed: int = 0


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

    def apply(
        self,
        server: Server,
        changes: Sequence[Change],
        conflicts: Sequence[Conflict] = (),
        *,
        threads: int,
        policy: RetryPolicy,
        on_progress: OnProgress,
    ) -> Applied:
        """Remove and write what the changes say; of conflicts, write theirs beside ours."""
        changes = [change for change in changes if not self._rules.covers(change.path)]
        removed = sum(self._remove(change) for change in reversed(changes) if change.after is None)
        wanted = [
            Wanted(change.after, partial(self._choose_path, change.after, change.before))
            for change in changes
            if change.after is not None
        ]
        kept = [conflict for conflict in conflicts if not self._rules.covers(conflict.path)]
        wanted += [
            Wanted(conflict.theirs, partial(self._conflict_path, conflict.path))
            for conflict in kept
            if conflict.theirs is not None
        ]
        meter = Meter(
            on_progress,
            "Downloading",
            files_total=len(wanted),
            bytes_total=sum(item.entry.size for item in wanted if item.entry.blobs),
        )
        fetched: list[Fetched] = []

        def note(group: list[Fetched]) -> None:
            with self._lock:
                fetched.extend(group)
            if self._cache is not None:
                mine = [(item.found, item.entry.content_id) for item in group if item.found.path == item.entry.path]
                self._cache.remember(mine)

        if wanted:
            download.fetch_files(
                server, self._target, wanted, threads=threads, policy=policy, meter=meter, on_fetched=note
            )
            meter.finish()
        size = sum(item.entry.size for item in fetched if item.entry.blobs)
        paths = sorted({*(conflict.path for conflict in kept), *self._late})
        return Applied(len(fetched), size, paths, removed)

    def _remove(self, change: Change) -> bool:
        if not self._is_as_expected(change.path, change.before):
            self._late.append(change.path)
            return False
        return self._target.remove(change.path)

    def _choose_path(self, entry: Entry, before: Entry | None) -> bytes | None:
        found = self._target.find(entry.path)
        if found is not None and not self._is_as_expected(entry.path, before):
            if self._is_content_of(found, entry):
                return None
            with self._lock:
                self._late.append(entry.path)
            return self._conflict_path(entry.path)
        return entry.path

    def _is_as_expected(self, path: bytes, expected: Entry | None) -> bool:
        """Return whether a path holds what the merge took it for; nothing at all is fine too."""
        found = self._target.find(path)
        return found is None or (expected is not None and self._is_content_of(found, expected))

    def _is_content_of(self, found: Found, entry: Entry) -> bool:
        if found.target:
            return found.target == entry.target
        cached = self._cache.find(found.path) if self._cache else None
        if cached is not None and cached.is_still(found):
            return is_same(found, cached.content_id, entry)
        if found.size != entry.size:
            return False
        content = reading.hash_file(self._root, found)
        return content is not None and is_same(content.found, content.content_id, entry)

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
