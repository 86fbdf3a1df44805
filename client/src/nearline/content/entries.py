"""What a manifest lists: one entry per file or symbolic link, and where the bytes of a file lie.

Links are carried when relative and provably inside the tree, and refused with the name otherwise.
"""

from collections.abc import Sequence
from enum import StrEnum
from itertools import chain, islice, pairwise
from operator import add, ge
from typing import NamedTuple

from nearline.content import paths
from nearline.content.errors import BadManifest, BadPath
from nearline.content.hashing import EMPTY_ID, ID_BYTES, file_id
from nearline.content.packs import MAX_BLOB_BYTES, MAX_PACK_BYTES
from nearline.content.paths import MAX_PATH_BYTES, show_path

MAX_MODE = 0o777
# Times are carried as 64 bits hold them.
LIMIT_NS = 1 << 63


class EntryKind(StrEnum):
    """What an entry is. Folders exist by the files in them; nothing else is carried."""

    FILE = "file"
    SYMLINK = "symlink"


class BlobRef(NamedTuple):
    """A blob and its place: `pack` is the pack's SHA-256 in binary."""

    content_id: bytes
    pack: bytes
    offset: int
    size: int


class Entry(NamedTuple):
    """One file of a tree. `content_id` is that of the whole content (of a link: of its target)."""

    path: bytes
    mode: int
    size: int
    mtime_ns: int
    content_id: bytes
    kind: EntryKind = EntryKind.FILE
    blobs: tuple[BlobRef, ...] = ()
    target: bytes = b""

    @property
    def identity(self) -> tuple[bytes, int, EntryKind]:
        """Return what makes two entries the same version of a file: neither its time nor where its bytes lie."""
        return self.content_id, self.mode, self.kind


def check_target(path: bytes, target: bytes) -> None:
    """Raise BadPath unless the link at `path` to `target` stays in the tree whatever else the tree contains.

    `..` may only lead: the folders above a link are real folders, so leading steps up are what they seem, but
    after a name that may itself be a link, a step up can lead anywhere.
    """
    if not target or len(target) > MAX_PATH_BYTES or b"\0" in target:
        raise BadPath(path, "is a symbolic link whose target is no legal path")
    shown = show_path(target)
    if target.startswith(b"/"):
        raise BadPath(path, f"is a symbolic link to the absolute path '{shown}'")
    depth = path.count(b"/")
    may_step_up = True
    for component in target.split(b"/"):
        if component == b"..":
            depth -= 1
            if depth < 0:
                raise BadPath(path, f"is a symbolic link that leads out of the dataset, to '{shown}'")
            if not may_step_up:
                raise BadPath(path, f"is a symbolic link with '..' after a name, to '{shown}'")
        elif component not in {b"", b"."}:
            may_step_up = False


def new_symlink(path: bytes, target: bytes, mtime_ns: int) -> Entry:
    """Return the entry of a symbolic link; its target travels in the manifest."""
    return Entry(path, MAX_MODE, len(target), mtime_ns, file_id(target), EntryKind.SYMLINK, (), target)


def carried_ns(mtime_ns: int) -> int:
    """Return when a file was changed: beyond the years 1677 and 2262 the nearest time that 64 bits hold.

    Windows shares and broken clocks leave such times.
    """
    return max(-LIMIT_NS, min(mtime_ns, LIMIT_NS - 1))


def check_entries(entries: Sequence[Entry]) -> None:
    """Raise BadPath or BadManifest unless these consecutive entries of one tree are sound, sorted and distinct."""
    check_names([entry.path for entry in entries])
    if not _are_sound(entries):
        for entry in entries:
            _check_entry(entry)


def check_names(names: Sequence[bytes]) -> None:
    """Raise BadPath or BadManifest unless these paths may stand in one range in this order."""
    paths.check_paths(names)
    if any(map(ge, names, islice(names, 1, None))):
        unsorted = next(after for before, after in pairwise(names) if before >= after)
        raise BadManifest(f"The entries are not sorted at '{show_path(unsorted)}'.")
    # Looked for only when there is one: finding the pair takes far longer than seeing that there is none.
    for clash in paths.find_clashes(names) if paths.has_clash(names) else ():
        file, path = clash.names
        raise BadManifest(f"'{show_path(file)}' is both a file and a folder of '{show_path(path)}'.")


def _are_sound(entries: Sequence[Entry]) -> bool:
    """Check all entries column by column, which takes a quarter of the time; `_check_entry` then finds the culprit."""
    if not entries:
        return True
    _, modes, _, times, content_ids, _, blob_lists, _ = zip(*entries, strict=True)
    if min(modes) < 0 or max(modes) > MAX_MODE or min(times) < -LIMIT_NS or max(times) >= LIMIT_NS:
        return False
    if set(map(len, content_ids)) != {ID_BYTES}:
        return False
    simple: Sequence[Entry] = entries
    if set(map(len, blob_lists)) != {1}:
        simple = [entry for entry in entries if len(entry.blobs) == 1]
        for entry in entries:
            if len(entry.blobs) != 1:
                _check_entry(entry)
        if not simple:
            return True
    _, _, sizes, _, ids, kinds, blobs, targets = zip(*simple, strict=True)
    blob_ids, packs, offsets, blob_sizes = zip(*chain.from_iterable(blobs), strict=True)
    return (
        ids == blob_ids
        and sizes == blob_sizes
        # Counting compares by identity; a set would call the enum's hash, which is Python, for every entry.
        and kinds.count(EntryKind.FILE) == len(kinds)
        and not any(targets)
        and set(map(len, packs)) == {ID_BYTES}
        and min(sizes) > 0
        and max(sizes) <= MAX_BLOB_BYTES
        and min(offsets) >= 0
        and max(map(add, offsets, sizes)) <= MAX_PACK_BYTES
    )


def _check_entry(entry: Entry) -> None:
    shown = show_path(entry.path)
    if not 0 <= entry.mode <= MAX_MODE or not -LIMIT_NS <= entry.mtime_ns < LIMIT_NS:
        raise BadManifest(f"The entry '{shown}' has an impossible mode or time.")
    if len(entry.content_id) != ID_BYTES:
        raise BadManifest(f"The entry '{shown}' has no proper content id.")
    if entry.kind is EntryKind.SYMLINK:
        check_target(entry.path, entry.target)
        if entry.blobs or entry.size != len(entry.target) or entry.content_id != file_id(entry.target):
            raise BadManifest(f"The link '{shown}' contradicts itself.")
    else:
        _check_file(entry)


def _check_file(entry: Entry) -> None:
    shown = show_path(entry.path)
    if entry.target:
        raise BadManifest(f"The file '{shown}' has a link target.")
    if sum(blob.size for blob in entry.blobs) != entry.size:
        raise BadManifest(f"The blobs of '{shown}' do not add up to its size.")
    if entry.size == 0 and (entry.blobs or entry.content_id != EMPTY_ID):
        raise BadManifest(f"The empty file '{shown}' has content.")
    if len(entry.blobs) == 1 and entry.blobs[0].content_id != entry.content_id:
        raise BadManifest(f"The only blob of '{shown}' is not its content.")
    for blob in entry.blobs:
        is_placed = 0 < blob.size <= MAX_BLOB_BYTES and 0 <= blob.offset <= MAX_PACK_BYTES - blob.size
        if not is_placed or len(blob.pack) != ID_BYTES or len(blob.content_id) != ID_BYTES:
            raise BadManifest(f"A blob of '{shown}' cannot lie where the manifest says.")
