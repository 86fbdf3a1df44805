"""A local folder against a tree: what is certainly the same is passed over, the rest is listed. Reads no content."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, compress, count
from operator import ne
from typing import NamedTuple, TypeAlias

from nearline.content.entries import Entry, EntryKind
from nearline.content.hashing import file_id, new_hasher
from nearline.content.manifest import RangeEntries, RootRange
from nearline.content.range_entries import cut_ids
from nearline.transfer.local.ignore import IgnoreRules
from nearline.transfer.local.statcache import CachedFile, CachedRow, StatCache
from nearline.transfer.local.walk import LocalFile, Skipped, normal_mode, walk
from nearline.transfer.progress import Meter

LoadEntries: TypeAlias = Callable[[str], RangeEntries]
_COUNTED_AT_ONCE = 64
# A file and its content id; None when only reading can tell.
_Known: TypeAlias = tuple[LocalFile, bytes | None]
# No file has its size.
_UNKNOWN: CachedRow = (b"", -1, 0, 0, 0, b"")


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

    Files that were found to be what a range lists are passed over as long as their stats have the same digest: neither
    the range nor the cache's rows of these files are read again.
    """
    count = _Count(meter)
    skipped: list[Skipped] = []
    suspects: list[Suspect] = []
    removed: list[Entry] = []
    digests = cache.list_digests() if cache else {}
    kept: dict[str, bytes] = {}
    files = count.each_of(walk(root, rules, skipped))
    waiting = next(files, None)
    after = b""
    for row in tree:
        here: list[LocalFile] = []
        while waiting is not None and waiting.path <= row.last_path:
            here.append(waiting)
            waiting = next(files, None)
        digest = _digest(here)
        differing = len(suspects) + len(removed)
        if digest != digests.get(row.range_id):
            cached: Sequence[CachedRow] = cache.list_rows(after, row.last_path) if cache else ()
            open_files, cached, entries = _leave_out_same(here, cached, load_range(row.range_id))
            known = _with_known_ids(open_files, map(CachedFile._make, cached), cache)
            _compare(known, entries, suspects, removed)
        if len(suspects) + len(removed) == differing:
            kept[row.range_id] = digest
        after = row.last_path
    rest = files if waiting is None else chain((waiting,), files)
    cached_rest = cache.list_files(after) if cache else iter(())
    _compare(_with_known_ids(rest, cached_rest, cache), (), suspects, removed)
    if cache is not None and kept != digests:
        cache.keep_digests(kept)
    # What is skipped or ignored was not looked for, so its absence says nothing.
    not_carried = {skip.path for skip in skipped}
    removed = [entry for entry in removed if entry.path not in not_carried and not rules.covers(entry.path)]
    return Scan(count.files, count.size_bytes, suspects, removed, skipped)


def is_same(found: LocalFile, content_id: bytes, entry: Entry) -> bool:
    """Return whether a local file of this content is the entry; of the mode only what is carried counts."""
    if found.kind is not entry.kind or content_id != entry.content_id:
        return False
    return found.kind is EntryKind.SYMLINK or found.mode == normal_mode(entry.mode)


class _Count:
    """Counts the files of a walk, and their bytes."""

    def __init__(self, meter: Meter | None) -> None:
        self.files = 0
        self.size_bytes = 0
        self._meter = meter

    def each_of(self, walk: Iterable[LocalFile]) -> Iterator[LocalFile]:
        """Yield every file."""
        for found in walk:
            yield found
            self.files += 1
            self.size_bytes += found.size
            if self._meter is not None and self.files % _COUNTED_AT_ONCE == 0:
                self._meter.add(files=_COUNTED_AT_ONCE)
        if self._meter is not None:
            self._meter.add(files=self.files % _COUNTED_AT_ONCE)


def _leave_out_same(
    files: Sequence[LocalFile], cached: Sequence[CachedRow], entries: RangeEntries
) -> tuple[Sequence[LocalFile], Sequence[CachedRow], Sequence[Entry]]:
    """Return what has to be compared file by file: without what columns show to be the same, where they can."""
    if not files or not entries.is_plain:
        return files, cached, entries
    paths, kinds, modes, *stats, _ = map(list, zip(*files, strict=True))
    if paths != entries.paths or kinds.count(EntryKind.FILE) != len(kinds):
        return files, cached, entries
    stale: Iterable[CachedRow] = ()
    if [row[0] for row in cached] != paths:
        rows = {row[0]: row for row in cached}
        cached = [rows.pop(path, _UNKNOWN) for path in paths]
        stale = rows.values()
    _, *known_stats, content_ids = map(list, zip(*cached, strict=True))
    columns = [(modes, list(entries.columns.modes)), *zip(stats, known_stats, strict=True)]
    if b"".join(content_ids) != entries.content_ids:
        columns.append((content_ids, cut_ids(entries.content_ids)))
    differing: set[int] = set()
    for one, other in columns:
        if one != other:
            differing.update(compress(count(), map(ne, one, other)))
    places = sorted(differing)
    rest = [cached[place] for place in places if cached[place] is not _UNKNOWN]
    return [files[place] for place in places], sorted([*rest, *stale]), [entries[place] for place in places]


def _with_known_ids(
    files: Iterable[LocalFile], cached_files: Iterator[CachedFile], cache: StatCache | None
) -> Iterator[_Known]:
    """Yield every file with its content id, which is None when only reading can tell.

    Both are sorted by path. What the cache knows of other files is dropped from it.
    """
    cached = next(cached_files, None)
    stale: list[bytes] = []
    for found in files:
        while cached is not None and cached.path < found.path:
            stale.append(cached.path)
            cached = next(cached_files, None)
        yield found, _content_id(found, cached)
        if cached is not None and cached.path == found.path:
            cached = next(cached_files, None)
    if cached is not None:
        stale.extend(late.path for late in chain((cached,), cached_files))
    if cache is not None and stale:
        cache.forget(stale)


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


def _digest(files: Sequence[LocalFile]) -> bytes:
    """Return a hash that changes when one of the files may have changed."""
    hasher = new_hasher()
    if files:
        paths, _, modes, sizes, mtimes, ctimes, inodes, targets = zip(*files, strict=True)
        stats = (array("H", modes), array("Q", sizes), array("q", mtimes), array("q", ctimes), array("Q", inodes))
        for part in (b"\0".join(paths), *(column.tobytes() for column in stats), b"\0".join(targets)):
            hasher.update(len(part).to_bytes(8, "little"))
            hasher.update(part)
    return hasher.digest()


def _content_id(found: LocalFile, cached: CachedFile | None) -> bytes | None:
    if found.kind is EntryKind.SYMLINK:
        return file_id(found.target)
    if cached is not None and cached.path == found.path and cached.is_still(found):
        return cached.content_id
    return None
