"""A local folder against a tree: what is certainly the same is passed over, the rest is listed. Reads no content."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from nearline.content.entries import Entry, EntryKind
from nearline.content.hashing import file_id
from nearline.transfer.ignore import IgnoreRules
from nearline.transfer.progress import Meter
from nearline.transfer.statcache import CachedFile, StatCache
from nearline.transfer.walk import Found, Skipped, normal_mode, walk


class Suspect(NamedTuple):
    """A file that differs from the tree, or may: `content_id` is None when only reading can tell."""

    found: Found
    before: Entry | None
    content_id: bytes | None


class Scan(NamedTuple):
    """What a walk found. `removed` are entries of the tree that are neither here nor ignored."""

    files: int
    size_bytes: int
    suspects: list[Suspect]
    removed: list[Entry]
    skipped: list[Skipped]


def scan_folder(
    root: bytes, rules: IgnoreRules, cache: StatCache | None, tree: Iterable[Entry], meter: Meter | None = None
) -> Scan:
    """Compare the files below `root` with the sorted entries of a tree. Without a cache, every file is a suspect."""
    skipped: list[Skipped] = []
    suspects: list[Suspect] = []
    removed: list[Entry] = []
    gone: list[bytes] = []
    entries, cached_files = iter(tree), cache.list_files() if cache else iter(())
    entry, cached = next(entries, None), next(cached_files, None)
    files = size_bytes = 0
    for found in walk(root, rules, skipped):
        path = found.path
        while entry is not None and entry.path < path:
            removed.append(entry)
            entry = next(entries, None)
        while cached is not None and cached.path < path:
            gone.append(cached.path)
            cached = next(cached_files, None)
        content_id = _content_id(found, cached)
        if cached is not None and cached.path == path:
            cached = next(cached_files, None)
        before = entry if entry is not None and entry.path == path else None
        if before is None or content_id is None or not is_same(found, content_id, before):
            suspects.append(Suspect(found, before, content_id))
        if before is not None:
            entry = next(entries, None)
        files += 1
        size_bytes += found.size
        if meter is not None:
            meter.add(files=1)
    while entry is not None:
        removed.append(entry)
        entry = next(entries, None)
    gone.extend(_paths_of(cached, cached_files))
    if cache is not None and gone:
        cache.forget(gone)
    # What is skipped or ignored was not looked for, so its absence says nothing.
    not_carried = {skip.path for skip in skipped}
    removed = [entry for entry in removed if entry.path not in not_carried and not rules.covers(entry.path)]
    return Scan(files, size_bytes, suspects, removed, skipped)


def is_same(found: Found, content_id: bytes, entry: Entry) -> bool:
    """Return whether a local file of this content is the entry; of the mode only what is carried counts."""
    if found.kind is not entry.kind or content_id != entry.content_id:
        return False
    return found.kind is EntryKind.SYMLINK or found.mode == normal_mode(entry.mode)


def _content_id(found: Found, cached: CachedFile | None) -> bytes | None:
    if found.kind is EntryKind.SYMLINK:
        return file_id(found.target)
    if cached is not None and cached.path == found.path and cached.is_still(found):
        return cached.content_id
    return None


def _paths_of(first: CachedFile | None, rest: Iterator[CachedFile]) -> Iterator[bytes]:
    if first is not None:
        yield first.path
    for cached in rest:
        yield cached.path
