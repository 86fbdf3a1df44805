"""The output of a job that lies in a folder of this host."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

from compute.engine.mounts import HostFolder
from compute.engine.ports import OutputFile

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A FIFO in the place of a file must not be waited for.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class OutputFolder:
    """Reads a folder that its job may still change, so no link is followed on the way to a file."""

    host_folder: Path

    @property
    def source(self) -> HostFolder:
        """The folder, for jobs of this host."""
        return HostFolder(os.fspath(self.host_folder))

    def list_files(self) -> Iterator[OutputFile]:
        """Walk the folder."""
        yield from _walk(os.fspath(self.host_folder))

    def open(self, path: str) -> BinaryIO:
        """Open a file by way of its folders, one after the other."""
        *folders, name = path.split("/")
        if not {"", ".", ".."}.isdisjoint([*folders, name]):
            raise FileNotFoundError(path)
        descriptor = os.open(self.host_folder, _FOLDER)
        for part, flags in [*((folder, _FOLDER) for folder in folders), (name, _FILE)]:
            try:
                inner = os.open(part, flags, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = inner
        file = os.fdopen(descriptor, "rb")
        if not S_ISREG(os.fstat(descriptor).st_mode):
            file.close()
            raise FileNotFoundError(path)
        return file


def _walk(top: str) -> Iterator[OutputFile]:
    # Not by recursion: a job may make more levels than Python has frames.
    levels = [("", _list_folder(top))]
    while levels:
        prefix, entries = levels[-1]
        entry = next(entries, None)
        if entry is None:
            levels.pop()
            continue
        with suppress(FileNotFoundError):  # a job that runs may remove what it has written
            if entry.is_dir(follow_symlinks=False):
                levels.append((f"{prefix}{entry.name}/", _list_folder(entry.path)))
            elif entry.is_file(follow_symlinks=False):
                facts = entry.stat(follow_symlinks=False)
                yield OutputFile(prefix + entry.name, facts.st_size, facts.st_mode & 0o777, facts.st_mtime_ns)


def _list_folder(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return iter(sorted(entries, key=_place))


def _place(entry: os.DirEntry[str]) -> bytes:
    # A folder stands where its files stand in the order of whole paths.
    return os.fsencode(entry.name) + (b"/" if entry.is_dir(follow_symlinks=False) else b"")
