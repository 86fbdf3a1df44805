"""The output of a job that lies in a folder of this host."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from errno import ELOOP
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

from compute.engine.job_spec import HostFolder
from compute.engine.ports import OutputFile
from nearline.content.folders import list_plain_files

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
        for file in list_plain_files(os.fsencode(self.host_folder)):
            yield OutputFile(os.fsdecode(file.path), file.size_bytes, file.mode, file.mtime_ns, file.why)

    def open(self, path: str) -> BinaryIO:
        """Open a file by way of its folders, one after the other. A link or a folder in its place is no file."""
        *folders, name = path.split("/")
        if not {"", ".", ".."}.isdisjoint([*folders, name]):
            raise FileNotFoundError(path)
        descriptor = os.open(self.host_folder, _FOLDER)
        for part, flags in [*((folder, _FOLDER) for folder in folders), (name, _FILE)]:
            try:
                inner = os.open(part, flags, dir_fd=descriptor)
            except OSError as error:
                if error.errno == ELOOP:
                    raise FileNotFoundError(path) from error
                raise
            finally:
                os.close(descriptor)
            descriptor = inner
        if not S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise FileNotFoundError(path)
        return os.fdopen(descriptor, "rb")
