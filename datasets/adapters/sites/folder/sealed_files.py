"""Files and folders of cached copies: how one is written, shared, recognised as untouched, compared, and removed.

A sealed file is read-only and bears one fixed time. Whoever writes to it gives it another time, which a glance sees.
"""

import contextlib
import errno
import fcntl
import json
import os
import stat
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from datasets.engine.cache_ports import EARLY_FOLDER, Damage, DamageKind, Sharing
from datasets.errors import CacheSiteFull, CacheSiteUnavailable, StagingLost
from nearline.content.hashing import Buffer, new_hasher
from nearline.content.manifest import Entry, EntryKind

# 2 January 1980: the earliest day that archive formats can hold in every time zone.
SEALED_TIME_NS = 315_619_200 * 10**9
SEALED_FOLDER_MODE = 0o555
OPEN_FOLDER_MODE = 0o755
_READ_BYTES = 1 << 20
_PROBE_LIFE_NS = 60 * 10**9

# From linux/fs.h and linux/fiemap.h.
_FICLONE = 0x40049409
_FIEMAP = 0xC020660B
_FIEMAP_HEADER = struct.Struct("=QQLLLL")
_FIEMAP_EXTENT_BYTES = 56
_FIEMAP_FLAGS_AT = 40
_FIEMAP_EXTENTS = 16
_EXTENT_SHARED = 0x2000


def as_platform_error(error: OSError) -> CacheSiteUnavailable:
    """Say in our words what the disk said."""
    where = f" at {os.fsdecode(error.filename)}" if error.filename else ""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return CacheSiteFull(f"The disk of the cache site is full{where}.")
    return CacheSiteUnavailable(f"The folder of the cache site does not work: {error.strerror}{where}.")


@contextlib.contextmanager
def disk_errors() -> Iterator[None]:
    """Turn what the disk says inside into CacheSiteFull or CacheSiteUnavailable."""
    try:
        yield
    except OSError as error:
        raise as_platform_error(error) from error


@contextlib.contextmanager
def staging_errors(folder: Path) -> Iterator[None]:
    """Like `disk_errors`, and StagingLost when the staging folder itself is no longer there."""
    try:
        yield
    except FileNotFoundError as error:
        if not folder.is_dir():
            raise StagingLost("Another worker has taken over the making of this copy.") from error
        raise as_platform_error(error) from error
    except OSError as error:
        raise as_platform_error(error) from error


def sealed_mode(entry: Entry) -> int:
    """Return the mode of the entry's file in a copy: readable by all, writable by none."""
    return 0o555 if entry.mode & 0o111 else 0o444


def looks_untouched(status: os.stat_result, entry: Entry) -> bool:
    """Say whether nobody seems to have written to the file since it was sealed."""
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_size == entry.size
        and status.st_mtime_ns == SEALED_TIME_NS
        and stat.S_IMODE(status.st_mode) == sealed_mode(entry)
    )


def seal_file(path: bytes, entry: Entry) -> None:
    """Make a complete file read-only and give it the fixed time."""
    os.chmod(path, sealed_mode(entry))
    os.utime(path, ns=(SEALED_TIME_NS, SEALED_TIME_NS))


def write_file(path: bytes, entry: Entry, parts: Iterable[Buffer]) -> None:
    """Make the entry's file or link under a name that is free, or whose holder may go."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    if entry.kind is EntryKind.SYMLINK:
        os.symlink(entry.target, path)
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    try:
        for part in parts:
            rest = memoryview(part)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        os.fchmod(descriptor, sealed_mode(entry))
        os.utime(descriptor, ns=(SEALED_TIME_NS, SEALED_TIME_NS))
    finally:
        os.close(descriptor)


def share_file(source: bytes, target: bytes, entry: Entry, sharing: Sharing) -> bool:
    """Make `target` out of `source` without copying bytes; False when that cannot be done here."""
    try:
        if entry.kind is EntryKind.SYMLINK:
            os.symlink(entry.target, target)
        elif sharing is Sharing.HARD_LINK:
            os.link(source, target, follow_symlinks=False)
        elif sharing is Sharing.REFLINK:
            _clone(source, target, entry)
        else:
            return False
    except OSError as error:
        if error.errno in {errno.EMLINK, errno.EXDEV, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM, errno.ENOENT}:
            return False
        raise
    return True


def copy_file(source: bytes, target: bytes, entry: Entry) -> None:
    """Make `target` an independent copy of a sealed file."""
    with open(source, "rb") as file:
        write_file(target, entry, iter(lambda: file.read(_READ_BYTES), b""))


class _OtherContent(Exception):
    """What was read is not what the entry says."""


def copy_verified(source: bytes, target: bytes, entry: Entry) -> bool:
    """Make `target` an independent, sealed copy of a file; False, and no target, when the entry's content is not read.

    Neither a link nor a clone: what copies of two sites had in common would be freed by the end of neither.
    """
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # whatever it is: only what fails at the target is the target's fault
        return False
    hasher = new_hasher()

    def read() -> bytes:
        try:
            return file.read(_READ_BYTES)
        except OSError as error:
            raise _OtherContent from error

    def parts() -> Iterator[bytes]:
        while data := read():
            hasher.update(data)
            yield data
        if hasher.digest() != entry.content_id:
            raise _OtherContent  # before the file is sealed: a sealed one counts as right

    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != entry.size:
            return False
        try:
            write_file(target, entry, parts())
        except _OtherContent:
            os.unlink(target)
            return False
    return True


def has_content(path: bytes, entry: Entry) -> bool:
    """Read what is at `path` and say whether it is exactly the entry's content."""
    try:
        if entry.kind is EntryKind.SYMLINK:
            return os.readlink(path) == entry.target
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EINVAL}:
            return False
        raise
    hasher = new_hasher()
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        while data := file.read(_READ_BYTES):
            hasher.update(data)
    return hasher.digest() == entry.content_id


def early_name(root: Path, copy_id: str) -> Path:
    """Return the link under which a copy is read also before it is complete, wherever it lies then."""
    return root / EARLY_FOLDER / copy_id


def point_early_name(root: Path, copy_id: str, folder: Path) -> None:
    """Let the link of a copy lead to its folder from now on."""
    link = early_name(root, copy_id)
    draft = link.with_name(f"{copy_id}.{folder.name}")
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    draft.symlink_to(os.path.relpath(folder, link.parent))
    draft.replace(link)


def is_early_name_of_published(root: Path, copy_id: str) -> bool:
    """Say whether the link of a copy leads to where it was published."""
    link = early_name(root, copy_id)
    return link.is_dir() and link.resolve().parent != (root / ".staging").resolve()


def walk_files(top: bytes) -> Iterator[os.DirEntry[bytes]]:
    """Yield everything below `top` that is not a folder; what vanishes meanwhile is passed over."""
    folders = [top]
    while folders:
        for item in _list_folder(folders.pop()):
            if item.is_dir(follow_symlinks=False):
                folders.append(item.path)
            else:
                yield item


def seal_tree(top: bytes) -> int:
    """Give every file below `top` the fixed time, close every folder but `top`, and return the number of files."""
    files, folders = 0, [top]
    while folders:
        for item in _list_folder(folders.pop()):
            if item.is_dir(follow_symlinks=False):
                os.chmod(item.path, SEALED_FOLDER_MODE)
                folders.append(item.path)
                continue
            files += 1
            if item.is_file(follow_symlinks=False) and item.stat(follow_symlinks=False).st_mtime_ns != SEALED_TIME_NS:
                os.utime(item.path, ns=(SEALED_TIME_NS, SEALED_TIME_NS))
    return files


def own_bytes(item: os.DirEntry[bytes], sharing: Sharing) -> int:
    """Return how many bytes go when this file goes: none while others share them."""
    status = item.stat(follow_symlinks=False)
    is_shared = status.st_nlink > 1 or (sharing is Sharing.REFLINK and _has_shared_blocks(item.path, status))
    return 0 if is_shared else status.st_size


def move_folder(source: Path, target: Path) -> None:
    """Rename a folder; one that moves to another parent must itself be writable for that."""
    os.chmod(source, OPEN_FOLDER_MODE)
    os.rename(source, target)


@contextlib.contextmanager
def writable_folder(top: bytes, folder: bytes) -> Iterator[None]:
    """Open a sealed folder for changes, making it and those above it up to `top` where they are missing."""
    missing = []
    step = folder
    while not os.path.isdir(step) and step != top:
        missing.append(step)
        step = os.path.dirname(step)
    opened = [step, *reversed(missing)]
    try:
        os.chmod(step, OPEN_FOLDER_MODE)
        for path in reversed(missing):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            os.mkdir(path, OPEN_FOLDER_MODE)
        yield
    finally:
        for path in reversed(opened):
            with contextlib.suppress(FileNotFoundError):
                os.chmod(path, SEALED_FOLDER_MODE)


def write_marker(root: Path, path: str, copy_id: str) -> None:
    """Note durably that the complete copy `copy_id` lies, or is about to lie, at `path`."""
    marker = root / ".ready" / path
    marker.parent.mkdir(parents=True, exist_ok=True)
    beside = marker.with_name(f".{marker.name}.{copy_id}")
    with beside.open("w") as file:
        json.dump({"copy": copy_id}, file)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(marker)


def read_marker(root: Path, path: str) -> str | None:
    """Return which copy lies at `path`; None when no complete one does."""
    try:
        marker = json.loads((root / ".ready" / path).read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise as_platform_error(error) from error
    return str(marker["copy"])


def drop_marker(root: Path, path: str) -> None:
    """Forget that a copy lies at `path`."""
    (root / ".ready" / path).unlink(missing_ok=True)


def probe_sharing(folder: Path) -> Sharing:
    """Find out by trying what the file system of `folder` can do."""
    entry = Entry(b"probe", 0o644, 1, 0, b"")
    source, target = (os.fsencode(folder / f".probe-{os.getpid()}-{name}") for name in ("a", "b"))
    try:
        with disk_errors():
            write_file(source, entry, [b"x"])
            _drop_old_probes(folder, since_ns=os.stat(source).st_ctime_ns - _PROBE_LIFE_NS)
            for sharing in (Sharing.REFLINK, Sharing.HARD_LINK):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(target)
                if share_file(source, target, entry, sharing):
                    return sharing
        return Sharing.NONE
    finally:
        for path in (source, target):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def _drop_old_probes(folder: Path, *, since_ns: int) -> None:
    """Remove what processes that were killed while they tried left."""
    for path in folder.glob(".probe-*"):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ctime_ns < since_ns:
                path.unlink()


def _clone(source: bytes, target: bytes, entry: Entry) -> None:
    with open(source, "rb") as origin:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.ioctl(descriptor, _FICLONE, origin.fileno())
            os.fchmod(descriptor, sealed_mode(entry))
            os.utime(descriptor, ns=(SEALED_TIME_NS, SEALED_TIME_NS))
        except OSError:
            os.unlink(target)
            raise
        finally:
            os.close(descriptor)


def _has_shared_blocks(path: bytes, status: os.stat_result) -> bool:
    """Ask the file system whether other files use blocks of this one."""
    if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
        return False
    request = bytearray(_FIEMAP_HEADER.size + _FIEMAP_EXTENTS * _FIEMAP_EXTENT_BYTES)
    _FIEMAP_HEADER.pack_into(request, 0, 0, status.st_size, 0, 0, _FIEMAP_EXTENTS, 0)
    try:
        with open(path, "rb") as file:
            fcntl.ioctl(file, _FIEMAP, request)
    except OSError:
        return False
    count = _FIEMAP_HEADER.unpack_from(request)[3]
    flags = (
        struct.unpack_from("=L", request, _FIEMAP_HEADER.size + number * _FIEMAP_EXTENT_BYTES + _FIEMAP_FLAGS_AT)[0]
        for number in range(count)
    )
    return any(flag & _EXTENT_SHARED for flag in flags)


def _list_folder(folder: bytes) -> list[os.DirEntry[bytes]]:
    try:
        with os.scandir(folder) as items:
            return list(items)
    except FileNotFoundError:
        return []


def inspect_tree(
    top: bytes, entries: Iterable[Entry], *, quiet_since_ns: int | None, must_read: Callable[[Entry], bool]
) -> Iterator[Damage]:
    """Yield every path below `top` that is missing, changed, or not part of the commit.

    That takes a glance at every file, and a full read where it is due. Modes and times that are wrong although the
    content is right are put right.
    """
    expected: set[bytes] = set()
    folders: set[bytes] = {b""}
    for entry in entries:
        expected.add(entry.path)
        parent = entry.path.rpartition(b"/")[0]
        while parent not in folders:
            folders.add(parent)
            parent = parent.rpartition(b"/")[0]
        damage = _inspect_entry(top + b"/" + entry.path, entry, quiet_since_ns, must_read)
        if damage is not None:
            yield damage
    yield from _find_strays(top, b"", expected, folders)


def _inspect_entry(
    path: bytes, entry: Entry, quiet_since_ns: int | None, must_read: Callable[[Entry], bool]
) -> Damage | None:
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return Damage(entry.path, DamageKind.MISSING)
    if entry.kind is EntryKind.SYMLINK:
        is_intact = stat.S_ISLNK(status.st_mode) and has_content(path, entry)
        return None if is_intact else Damage(entry.path, DamageKind.CHANGED)
    if not stat.S_ISREG(status.st_mode):
        return Damage(entry.path, DamageKind.CHANGED)
    is_untouched = looks_untouched(status, entry)
    # A change in the very tick of the clock in which we were done may be another's.
    was_quiet = quiet_since_ns is None or status.st_ctime_ns < quiet_since_ns
    if is_untouched and was_quiet and not must_read(entry):
        return None
    if status.st_size != entry.size or not has_content(path, entry):
        return Damage(entry.path, DamageKind.CHANGED, status.st_ino)
    if not is_untouched:
        seal_file(path, entry)
    return None


def _find_strays(top: bytes, folder: bytes, expected: set[bytes], folders: set[bytes]) -> Iterator[Damage]:
    here = os.path.join(top, folder) if folder else top
    try:
        with os.scandir(here) as listed:
            items = sorted(listed, key=lambda item: item.name)
    except FileNotFoundError:
        return
    for item in items:
        path = folder + b"/" + item.name if folder else item.name
        if path in folders and item.is_dir(follow_symlinks=False):
            yield from _find_strays(top, path, expected, folders)
        elif path not in expected and path not in folders:
            yield Damage(path, DamageKind.STRAY)
    if stat.S_IMODE(os.stat(here).st_mode) != SEALED_FOLDER_MODE:
        os.chmod(here, SEALED_FOLDER_MODE)
