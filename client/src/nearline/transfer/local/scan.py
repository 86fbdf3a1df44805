"""A local folder against a tree: what is certainly the same is passed over, the rest is listed. Reads no content."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

from nearline.content.entries import Entry, EntryKind
from nearline.content.hashing import file_id, new_hasher
from nearline.content.manifest import RangeEntries, RootRange
from nearline.transfer.local.ignore import IgnoreRules
from nearline.transfer.local.statcache import CachedFile, StatCache
from nearline.transfer.local.walk import LocalFile, Skipped, normal_mode, walk
from nearline.transfer.progress import Meter

LoadEntries: TypeAlias = Callable[[str], RangeEntries]
_COUNTED_AT_ONCE = 64
# A file and its content id; None when only reading can tell.
_Known: TypeAlias = tuple[LocalFile, bytes | None]


class Suspect(NamedTuple):
    """A file that differs from the tree, or may: `content_id` is None when only reading can tell."""

    found: LocalFile
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
    root: bytes,
    rules: IgnoreRules,
    cache: StatCache | None,
    tree: Sequence[RootRange],
    load_range: LoadEntries,
    *,
    meter: Meter | None = None,
) -> Scan:
    """Compare the files below `root` with a tree. Without a cache, every file is a suspect.

    A range is read once; after that, its digest tells whether the files in its place are what it lists.
    """
    walked = _Walk(cache, meter)
    skipped: list[Skipped] = []
    suspects: list[Suspect] = []
    removed: list[Entry] = []
    digests = cache.list_digests() if cache else {}
    kept: dict[str, bytes] = {}
    files = walked.with_known_ids(walk(root, rules, skipped))
    waiting = next(files, None)
    for row in tree:
        here: list[_Known] = []
        while waiting is not None and waiting[0].path <= row.last_path:
            here.append(waiting)
            waiting = next(files, None)
        digest = digests.get(row.range_id)
        if digest is None or _digest_of_files(here) != digest:
            entries = load_range(row.range_id)
            digest = digest or _digest(entries.paths, entries.content_ids, entries.forms)
            _compare(here, entries, suspects, removed)
        kept[row.range_id] = digest
    _compare(files if waiting is None else chain((waiting,), files), (), suspects, removed)
    if cache is not None:
        cache.forget(walked.stale_paths)
        if kept != digests:
            cache.keep_digests(kept)
    # What is skipped or ignored was not looked for, so its absence says nothing.
    not_carried = {skip.path for skip in skipped}
    removed = [entry for entry in removed if entry.path not in not_carried and not rules.covers(entry.path)]
    return Scan(walked.files, walked.size_bytes, suspects, removed, skipped)


def is_same(found: LocalFile, content_id: bytes, entry: Entry) -> bool:
    """Return whether a local file of this content is the entry; of the mode only what is carried counts."""
    if found.kind is not entry.kind or content_id != entry.content_id:
        return False
    return found.kind is EntryKind.SYMLINK or found.mode == normal_mode(entry.mode)


class _Walk:
    """Counts the files of a walk and adds what the cache knows. `stale_paths` are cached paths that no longer exist."""

    def __init__(self, cache: StatCache | None, meter: Meter | None) -> None:
        self.files = 0
        self.size_bytes = 0
        self.stale_paths: list[bytes] = []
        self._cache = cache
        self._meter = meter

    def with_known_ids(self, walk: Iterable[LocalFile]) -> Iterator[_Known]:
        """Yield every file with its content id, which is None when only reading can tell."""
        cached_files = self._cache.list_files() if self._cache else iter(())
        cached = next(cached_files, None)
        for found in walk:
            while cached is not None and cached.path < found.path:
                self.stale_paths.append(cached.path)
                cached = next(cached_files, None)
            yield found, _content_id(found, cached)
            self.files += 1
            self.size_bytes += found.size
            if self._meter is not None and self.files % _COUNTED_AT_ONCE == 0:
                self._meter.add(files=_COUNTED_AT_ONCE)
            if cached is not None and cached.path == found.path:
                cached = next(cached_files, None)
        if self._meter is not None:
            self._meter.add(files=self.files % _COUNTED_AT_ONCE)
        if cached is not None:
            self.stale_paths.extend(late.path for late in chain((cached,), cached_files))


def _compare(files: Iterable[_Known], entries: Iterable[Entry], suspects: list[Suspect], removed: list[Entry]) -> None:
    rest = iter(entries)
    entry = next(rest, None)
    for found, content_id in files:
        while entry is not None and entry.path < found.path:
            removed.append(entry)
            entry = next(rest, None)
        before = entry if entry is not None and entry.path == found.path else None
        if before is None or content_id is None or not is_same(found, content_id, before):
            suspects.append(Suspect(found, before, content_id))
        if before is not None:
            entry = next(rest, None)
    if entry is not None:
        removed.append(entry)
        removed.extend(rest)


def _digest_of_files(files: Sequence[_Known]) -> bytes | None:
    ids = [content_id for _, content_id in files if content_id is not None]
    if len(ids) < len(files):
        return None
    forms = bytes(2 if found.kind is EntryKind.SYMLINK else found.mode >> 6 & 1 for found, _ in files)
    return _digest([found.path for found, _ in files], b"".join(ids), forms)


def _digest(paths: Sequence[bytes], content_ids: bytes, forms: bytes) -> bytes:
    hasher = new_hasher()
    for part in (b"\0".join(paths), content_ids, forms):
        hasher.update(len(part).to_bytes(8, "little"))
        hasher.update(part)
    return hasher.digest()


def _content_id(found: LocalFile, cached: CachedFile | None) -> bytes | None:
    if found.kind is EntryKind.SYMLINK:
        return file_id(found.target)
    if cached is not None and cached.path == found.path and cached.is_still(found):
        return cached.content_id
    return None
