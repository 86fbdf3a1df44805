"""The folder of a cached commit on a volume, as the pods see it that fill and verify it."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from nearline.content.entries import Entry, EntryKind
from nearline.content.hashing import file_id
from nearline.hydrate.folder import Existing, FolderTarget

_OPEN, _CLOSED = 0o755, 0o555
_NO_LINK = {errno.EMLINK, errno.EXDEV, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM, errno.EACCES, errno.ENOENT}


class Readable(Protocol):
    """What a file is read from."""

    def read(self, size: int, /) -> bytes:
        """Return so many bytes, fewer at the end."""


class _Unreadable(Exception):
    """A mounted copy does not give a file."""


@contextmanager
def _reading() -> Iterator[None]:
    """Tell apart what fails at the source: only what fails at the target ends a copy."""
    try:
        yield
    except OSError as error:
        raise _Unreadable from error


class _Source:
    """A file of a mounted copy."""

    def __init__(self, file: Readable) -> None:
        self._file = file

    def read(self, size: int, /) -> bytes:
        """Return so many bytes, fewer at the end. Raises _Unreadable."""
        with _reading():
            return self._file.read(size)


def is_in_part(entry: Entry, part: tuple[int, int]) -> bool:
    """Say whether an entry belongs to a part: its number, and how many there are."""
    number, count = part
    return entry.content_id[0] % count == number


class VolumeTarget(FolderTarget):
    """The folder of a copy. It notes what was there and was not as the commit says, and which of it has other names.

    Files outside of a `part` are taken to be right when their size, time and mode are. Where it `is_shared`, others
    write to it meanwhile, so its folders stay open. What is wrong in one that `is_ready` stays until it is replaced:
    jobs read it.
    """

    def __init__(
        self, root: Path, *, part: tuple[int, int] | None = None, is_ready: bool = False, is_shared: bool = False
    ) -> None:
        existing = Existing.EXCHANGE if is_ready else Existing.REPLACE
        super().__init__(root, read_only=True, existing=existing, appear_whole=not is_ready)
        self._top = os.fsencode(root)
        self._part = part
        self._is_shared = is_shared
        self.damage: list[tuple[bytes, str]] = []
        self.linked: dict[bytes, int] = {}

    def is_in_place(self, entry: Entry) -> bool:
        """Return whether the entry is there and right."""
        status = self._stat(entry)
        if status is not None and not self._must_read(entry) and self._is_untouched(entry, status):
            return True
        is_right = super().is_in_place(entry)
        if not is_right:
            self.damage.append((entry.path, "changed" if status else "missing"))
            if status is not None and status.st_nlink > 1:
                self.linked[entry.path] = status.st_ino
        return is_right

    def finish(self) -> None:
        """Close the folders to writing, unless others write to them."""
        if not self._is_shared:
            super().finish()

    def looks_untouched(self, entry: Entry) -> bool:
        """Say whether nobody seems to have written to a file since it was made."""
        status = self._stat(entry)
        return status is not None and self._is_untouched(entry, status)

    def link(self, entry: Entry, base: Path, source: bytes) -> bool:
        """Give the file at `source` of another copy on this file system a name here too; False where that cannot be."""
        self.prepare([entry])
        other, path = os.fsencode(base) + b"/" + source, self._path(entry.path)
        try:
            status = os.lstat(other)
            if not self._is_untouched(entry, status):
                return False
            if (there := self._stat(entry)) is not None:
                if there.st_ino == status.st_ino:
                    return True
                os.unlink(path)
            os.link(other, path, follow_symlinks=False)
        except OSError as error:
            if error.errno in _NO_LINK:
                return False
            raise
        return True

    def copy(self, entry: Entry, donor: Path, source: bytes) -> bool:
        """Make a file out of the one at `source` of a mounted copy, if that can be read and has the right bytes."""
        if self.has(entry):
            return True
        try:
            with _reading():
                file = open(os.fsencode(donor) + b"/" + source, "rb")  # noqa: SIM115 (closed below)
            with file:
                return self.take(entry, _Source(file))
        except _Unreadable:
            return False

    def has(self, entry: Entry) -> bool:
        """Whether the entry is there and right; what else is there is removed, and is no damage."""
        self.prepare([entry])
        return super().is_in_place(entry)

    def take(self, entry: Entry, file: Readable) -> bool:
        """Make a file out of what is read, if that is right."""
        if len(entry.blobs) <= 1:
            content = file.read(entry.size)
            if file_id(content) != entry.content_id:
                return False
            self.write_file(entry, content)
            return True
        is_right, offset = False, 0
        try:
            for blob in entry.blobs:
                self.write_piece(entry, offset, file.read(blob.size))
                offset += blob.size
            is_right = self.publish(entry)
        finally:
            if not is_right:
                self.discard(entry)
        return is_right

    def remove(self, path: bytes) -> None:
        """Remove a file, and the folders that it leaves empty."""
        folder = self._path(path.rpartition(b"/")[0])
        if not os.path.isdir(folder):
            return
        os.chmod(folder, _OPEN)
        if os.path.lexists(self._path(path)):
            os.unlink(self._path(path))
        while folder != self._top and not os.listdir(folder):
            parent = os.path.dirname(folder)
            os.chmod(parent, _OPEN)
            os.rmdir(folder)
            folder = parent

    def list_files(self) -> Iterator[bytes]:
        """Yield the path of everything but folders, and close the folders to writing."""
        for folder, _folders, names in os.walk(self._top, topdown=False):
            os.chmod(folder, _CLOSED)
            prefix = folder[len(self._top) + 1 :]
            yield from (prefix + b"/" + name if prefix else name for name in names)
        for folder, folders, _names in os.walk(self._top):
            for name in folders:
                path = os.path.join(folder, name)
                if os.path.islink(path):
                    yield path[len(self._top) + 1 :]

    def _stat(self, entry: Entry) -> os.stat_result | None:
        try:
            return os.lstat(self._path(entry.path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _is_untouched(self, entry: Entry, status: os.stat_result) -> bool:
        if entry.kind is EntryKind.SYMLINK:
            return stat.S_ISLNK(status.st_mode) and os.readlink(self._path(entry.path)) == entry.target
        mode = 0o444 | (0o111 if entry.mode & 0o111 else 0)
        evidence = stat.S_IMODE(status.st_mode), status.st_size, status.st_mtime_ns
        return stat.S_ISREG(status.st_mode) and evidence == (mode, entry.size, entry.mtime_ns)

    def _must_read(self, entry: Entry) -> bool:
        return self._part is None or is_in_part(entry, self._part)

    def _path(self, path: bytes) -> bytes:
        return self._top + b"/" + path
