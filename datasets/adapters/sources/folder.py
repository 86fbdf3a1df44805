"""A source in a folder of this machine, such as a mounted NFS export. Nothing outside the folder is ever opened."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from datasets.errors import SourceFileChanged, SourceFileMissing, SourceUnreachable
from nearline.content.entries import carried_ns, check_target
from nearline.content.errors import BadPath
from nearline.content.mapping import FoundFile
from nearline.content.paths import check_path, find_fault, show_path

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = _READ | os.O_DIRECTORY
# A pipe that took a file's place must not make its reader wait.
_FILE = _READ | os.O_NONBLOCK


class SourceFolder:
    """Opens every file component by component from the root, so that no link on the way is followed."""

    parallel_reads = 4

    def __init__(self, name: str, root: Path) -> None:
        self._name = name
        self._root = root

    def list_files(self, prefix: bytes) -> Iterator[FoundFile]:
        """Yield the files below a folder. Links are told as such, and a file that cannot be carried with its reason."""
        folder = self._open(prefix, _FOLDER)
        try:
            for at, folders, names, descriptor in os.fwalk(b".", dir_fd=folder, onerror=self._fail):
                below = b"/".join(part for part in (prefix, at.removeprefix(b".").strip(b"/")) if part)
                inner = below[len(prefix) :].lstrip(b"/")
                # A folder whose path cannot be carried is told in place of what lies in it.
                ends = [name for name in folders if _is_link(name, descriptor) or find_fault(_join(inner, name))]
                folders[:] = set(folders).difference(ends)
                for name in (*names, *ends):
                    yield _describe(_join(below, name), name, descriptor, _join(inner, name))
        finally:
            os.close(folder)

    @contextmanager
    def open(self, file: FoundFile) -> Iterator[BinaryIO]:
        """Return the content of a file; it is compared with what was found before and after it was read."""
        with os.fdopen(self._open(file.path, _FILE), "rb", buffering=0) as stream:
            self._compare(file, stream)
            yield stream
            self._compare(file, stream)

    def read(self, path: bytes, offset: int, size: int) -> bytes:
        """Return a part of a file."""
        descriptor = self._open(path, _FILE)
        try:
            pieces = []
            while size > 0 and (piece := os.pread(descriptor, size, offset)):
                pieces.append(piece)
                offset, size = offset + len(piece), size - len(piece)
            return b"".join(pieces)
        except OSError as error:
            raise self._unreachable(error) from error
        finally:
            os.close(descriptor)

    def _open(self, path: bytes, flags: int) -> int:
        """Return a descriptor of what lies at a path below the root; the empty path is the root."""
        *parts, last = [part for part in path.split(b"/") if part] or [b"."]
        try:
            descriptor = os.open(self._root, _FOLDER)
        except OSError as error:
            raise self._unreachable(error) from error
        try:
            for part in parts:
                descriptor = _step(part, _FOLDER, descriptor)
            return _step(last, flags, descriptor)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise SourceFileMissing(
                f"'{show_path(path)}' is not in the source '{self._name}'.", path=show_path(path), source=self._name
            ) from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise SourceFileMissing(
                    f"'{show_path(path)}' in the source '{self._name}' is a link now, which is not followed.",
                    path=show_path(path),
                    source=self._name,
                ) from error
            raise self._unreachable(error, path) from error

    def _compare(self, file: FoundFile, stream: BinaryIO) -> None:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode) or _version(status) != file.version or status.st_size != file.size_bytes:
            raise SourceFileChanged(
                f"'{show_path(file.path)}' in the source '{self._name}' changed while it was read.",
                path=show_path(file.path),
                source=self._name,
            )

    def _fail(self, error: OSError) -> None:
        raise self._unreachable(error) from error

    def _unreachable(self, error: OSError, path: bytes = b"") -> SourceUnreachable:
        what = f"'{show_path(path)}' in the source" if path else "The source"
        return SourceUnreachable(f"{what} '{self._name}' cannot be read: {error.strerror}.", source=self._name)


def _step(part: bytes, flags: int, parent: int) -> int:
    """Open a name in a folder, whose descriptor is closed."""
    try:
        return os.open(part, flags, dir_fd=parent)
    finally:
        os.close(parent)


def _join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


def _is_link(name: bytes, folder: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _describe(path: bytes, name: bytes, folder: int, inner: bytes) -> FoundFile:
    """Describe what lies at `path`, which is `inner` below the folder that is imported: a link must not leave that."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    file = FoundFile(
        path,
        status.st_size,
        _version(status),
        carried_ns(status.st_mtime_ns),
        0o755 if status.st_mode & 0o100 else 0o644,
    )
    try:
        check_path(inner)
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(name, dir_fd=folder)
            check_target(inner, target)
            return FoundFile(path, 0, "", carried_ns(status.st_mtime_ns), target=target)
    except BadPath as error:
        return FoundFile(path, 0, "", 0, why=error.why)
    if not stat.S_ISREG(status.st_mode):
        return FoundFile(path, 0, "", 0, why="is neither a file nor a folder nor a link")
    return file


def _version(status: os.stat_result) -> str:
    return str(status.st_mtime_ns)
