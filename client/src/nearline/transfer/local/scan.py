"""A local folder against a tree: what is certainly the same is passed over, the rest is listed. Reads no content."""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, compress, count
from operator import ne
from pathlib import Path
from typing import NamedTuple, TypeAlias

from nearline.content import manifest
from nearline.content.entries import Entry, EntryKind
from nearline.content.hashing import file_id, new_hasher
from nearline.content.manifest import RangeEntries, RootRange
from nearline.content.range_entries import cut_ids
from nearline.transfer.local.packed_rows import PackedRows
from nearline.transfer.local.processes import share
from nearline.transfer.local.statcache import CachedFile, CachedRow, StatCache
from nearline.transfer.local.walk import IgnoreRules, LocalFile, Skipped, Walk, normal_mode
from nearline.transfer.progress import Meter

LoadEntries: TypeAlias = Callable[[str], RangeEntries]
_COUNTED_AT_ONCE = 64
# Parts get smaller, so that no process waits long for another; but each is at least a range.
_PARTS_PER_PROCESS = 4
# A file and its content id; None when only reading can tell.
_Known: TypeAlias = tuple[LocalFile, bytes | None]
# No file has its size.
_UNKNOWN: CachedRow = (b"", -1, 0, 0, 0, b"")


class Suspect(NamedTuple):
    """A file that differs from the tree, or may: `content_id` is None when only reading can tell."""

    file: LocalFile
    before: Entry | None
    content_id: bytes | None


class Stretch(NamedTuple):
    """The files behind the path `after`, up to `last_path`: how many there are, and the digest of their stats."""

    after: bytes
    last_path: bytes
    files: int
    digest: bytes


@dataclass
class Scan:
    """What a walk found. `removed` are entries of the tree that are neither here nor ignored.

    `stretches` are the files of each range of the tree. Who reads the suspects adds to `unsettled` the paths of those
    whose stats do not tell what was read: they left, changed meanwhile, or may change without a trace.
    """

    files: int
    size_bytes: int
    suspects: PackedRows[Suspect]
    removed: list[Entry]
    skipped: list[Skipped]
    stretches: list[Stretch] = field(default_factory=list)
    unsettled: set[bytes] = field(default_factory=set)

    def digests_of(self, tree: Sequence[RootRange]) -> dict[str, bytes]:
        """Return the digests of ranges whose files are as they list them, of a tree to which all changes went.

        No range has one that was cut anew, or holds what was not looked for.
        """
        unsettled = sorted(self.unsettled)
        stretches = {(stretch.after, stretch.last_path): stretch for stretch in self.stretches}
        digests: dict[str, bytes] = {}
        after = b""
        for row in tree:
            stretch = stretches.get((after, row.last_path))
            is_settled = bisect_right(unsettled, after) == bisect_right(unsettled, row.last_path)
            if stretch is not None and stretch.files == row.files and is_settled:
                digests[row.range_id] = stretch.digest
            after = row.last_path
        return digests


class Part(NamedTuple):
    """Consecutive ranges of a tree, and the files behind the path `after` up to their end; in the last part, all."""

    after: bytes
    ranges: Sequence[RootRange]
    is_last: bool


class Findings(NamedTuple):
    """What is in a part. `digests` are of ranges that are as listed; `stale_paths` are cached but not there."""

    files: int
    size_bytes: int
    suspects: PackedRows[Suspect]
    removed: list[Entry]
    skipped: list[Skipped]
    stretches: list[Stretch]
    digests: dict[str, bytes]
    stale_paths: list[bytes]


ScanPart: TypeAlias = Callable[[Part], Findings]


@dataclass(frozen=True)
class Sharing:
    """Among how many processes a scan is shared, the folder from which the others read ranges, and how."""

    processes: int
    ranges: Path
    share: Callable[[Sequence[Part], ScanPart, ScanPart, int], list[Findings]] = share


def scan_folder(
    root: bytes,
    rules: IgnoreRules,
    cache: StatCache | None,
    tree: Sequence[RootRange],
    load_range: LoadEntries,
    *,
    meter: Meter | None = None,
    sharing: Sharing | None = None,
) -> Scan:
    """Compare the files below `root` with a tree. Without a cache, every file is a suspect.

    Files that were found to be what a range lists are passed over as long as their stats have the same digest: neither
    the range nor the cache's rows of these files are read again.
    """
    digests = cache.list_digests() if cache else {}
    here = _Scanner(root, rules, cache, digests, load_range, meter)
    if cache is None or sharing is None:
        findings = [here.scan(Part(b"", tree, is_last=True))]
    else:
        elsewhere = _ScannerElsewhere(root, rules, cache.path, digests, sharing.ranges)
        findings = sharing.share(_cut(tree, sharing.processes), here.scan, elsewhere.scan, sharing.processes)
    all_files, sizes, suspects, removed, skipped, stretches, kept_parts, stale_paths = zip(*findings, strict=True)
    files = sum(all_files)
    all_suspects = PackedRows[Suspect]()
    for part in suspects:
        all_suspects.take_over(part)
    if meter is not None:
        meter.show(files=files, size_bytes=0)
    if cache is not None:
        cache.forget(chain.from_iterable(stale_paths))
        cache.keep_digests({range_id: digest for part in kept_parts for range_id, digest in part.items()})
    all_skipped = list(dict.fromkeys(chain.from_iterable(skipped)))
    rules.leave_alone(skip.path for skip in all_skipped if skip.is_unseen)
    # What is skipped or ignored was not looked for, so its absence says nothing.
    not_carried = {skip.path for skip in all_skipped}
    return Scan(
        files,
        sum(sizes),
        all_suspects,
        [
            entry
            for entry in chain.from_iterable(removed)
            if entry.path not in not_carried and not rules.covers(entry.path)
        ],
        all_skipped,
        list(chain.from_iterable(stretches)),
    )


def _cut(tree: Sequence[RootRange], processes: int) -> list[Part]:
    """Return the parts of a tree that is not empty."""
    parts: list[Part] = []
    after, taken = b"", 0
    while taken < len(tree):
        end = taken + max(1, (len(tree) - taken) // (_PARTS_PER_PROCESS * processes))
        parts.append(Part(after, tree[taken:end], is_last=end == len(tree)))
        after, taken = tree[end - 1].last_path, end
    return parts


@dataclass
class _Scanner:
    """Scans parts of a folder."""

    root: bytes
    rules: IgnoreRules
    cache: StatCache | None
    digests: Mapping[str, bytes]
    load_range: LoadEntries
    meter: Meter | None = None
    _walk: Walk = field(init=False)
    _after: bytes = field(init=False, default=b"")

    def __post_init__(self) -> None:
        self._walk = Walk(self.root, self.rules)

    def scan(self, part: Part) -> Findings:
        """Compare the files of a part with the ranges."""
        if part.after < self._after:
            self._walk = Walk(self.root, self.rules)
        cache, walk = self.cache, self._walk
        count = _Count(self.meter)
        findings = Findings(0, 0, PackedRows(), [], [], [], {}, [])
        _, _, suspects, removed, skipped, stretches, digests, stale_paths = findings
        after = part.after
        for row in part.ranges:
            files = list(count.each_of(walk.between(after, row.last_path, skipped)))
            digest = _digest(files)
            stretches.append(Stretch(after, row.last_path, len(files), digest))
            differing = len(suspects) + len(removed)
            if digest != self.digests.get(row.range_id):
                cached: Sequence[CachedRow] = cache.list_rows(after, row.last_path) if cache else ()
                open_files, cached, entries = _leave_out_same(files, cached, self.load_range(row.range_id))
                known = _with_known_ids(open_files, map(CachedFile._make, cached), stale_paths)
                _compare(known, entries, suspects, removed)
            if len(suspects) + len(removed) == differing:
                digests[row.range_id] = digest
            after = row.last_path
        if part.is_last:
            rest = count.each_of(walk.between(after, None, skipped))
            cached_rest = cache.list_files(after) if cache else iter(())
            _compare(_with_known_ids(rest, cached_rest, stale_paths), (), suspects, removed)
        self._after = after
        return findings._replace(files=count.files, size_bytes=count.size_bytes)


@dataclass
class _ScannerElsewhere:
    """Scans parts of a folder in another process."""

    root: bytes
    rules: IgnoreRules
    cache: Path
    digests: Mapping[str, bytes]
    ranges: Path

    def scan(self, part: Part) -> Findings:
        """Compare the files of a part with the ranges. Raises OSError where a range is not kept here."""
        return self._scanner.scan(part)

    @cached_property
    def _scanner(self) -> _Scanner:
        cache = StatCache(self.cache, is_read_only=True)
        return _Scanner(self.root, self.rules, cache, self.digests, partial(load_kept_range, self.ranges))


def load_kept_range(folder: Path, range_id: str) -> RangeEntries:
    """Return the entries of a range in the folder of a workspace's manifests.

    Raises OSError where it is not there, and ContentError where it is damaged.
    """
    # It was checked when it came here, or made here: its id says that it still is what it was then.
    return manifest.load_range(range_id, lambda name: (folder / name).read_bytes(), is_verified=True, most_deltas=0)


def is_same(file: LocalFile, content_id: bytes, entry: Entry) -> bool:
    """Return whether a local file of this content is the entry; of the mode only what is carried counts."""
    if file.kind is not entry.kind or content_id != entry.content_id:
        return False
    return file.kind is EntryKind.SYMLINK or file.mode == normal_mode(entry.mode)


class _Count:
    """Counts the files of a walk, and their bytes."""

    def __init__(self, meter: Meter | None) -> None:
        self.files = 0
        self.size_bytes = 0
        self._meter = meter

    def each_of(self, walk: Iterable[LocalFile]) -> Iterator[LocalFile]:
        """Yield every file."""
        for file in walk:
            yield file
            self.files += 1
            self.size_bytes += file.size
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
    files: Iterable[LocalFile], cached_files: Iterator[CachedFile], stale_paths: list[bytes]
) -> Iterator[_Known]:
    """Yield every file with its content id, which is None when only reading can tell.

    Both are sorted by path. The paths of cached files that are not there are appended to `stale_paths`.
    """
    cached = next(cached_files, None)
    for file in files:
        while cached is not None and cached.path < file.path:
            stale_paths.append(cached.path)
            cached = next(cached_files, None)
        yield file, _content_id(file, cached)
        if cached is not None and cached.path == file.path:
            cached = next(cached_files, None)
    if cached is not None:
        stale_paths.extend(late.path for late in chain((cached,), cached_files))


def _compare(
    files: Iterable[_Known], entries: Iterable[Entry], suspects: PackedRows[Suspect], removed: list[Entry]
) -> None:
    rest = iter(entries)
    entry = next(rest, None)
    for file, content_id in files:
        while entry is not None and entry.path < file.path:
            removed.append(entry)
            entry = next(rest, None)
        before = entry if entry is not None and entry.path == file.path else None
        if before is None or content_id is None or not is_same(file, content_id, before):
            suspects.append(Suspect(file, before, content_id))
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


def _content_id(file: LocalFile, cached: CachedFile | None) -> bytes | None:
    if file.kind is EntryKind.SYMLINK:
        return file_id(file.target)
    if cached is not None and cached.path == file.path and cached.is_still(file):
        return cached.content_id
    return None
