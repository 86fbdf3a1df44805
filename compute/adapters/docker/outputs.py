"""The output of a job in its container, read as archives. Links are not followed."""

import io
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import BinaryIO, cast

from compute.adapters.docker.containers import PATHS
from compute.adapters.docker.engine import Engine
from compute.adapters.stored_outputs import Chunks
from compute.engine.job_spec import HostFolder
from compute.engine.ports import OutputFile

# Go's own bit for a link in a file's mode.
_LINK = 1 << 27
_BUFFER_BYTES = 1 << 18


@dataclass(frozen=True)
class ContainerOutput:
    """Reads `/output` of one container."""

    engine: Engine
    container: str
    source: HostFolder | None = None

    def list_files(self) -> Iterator[OutputFile]:
        """Read the names in the archive of the folder. Raises FileNotFoundError where there is no container."""
        with self.engine.read_archive(self.container, PATHS.output) as pieces, read_tar(pieces) as archive:
            files = [_describe(member) for member in archive if member.isreg()]
        return iter(sorted(files, key=lambda file: file.path.encode("utf-8", "surrogateescape")))

    def open(self, path: str) -> BinaryIO:
        """Open a file, which is read from the archive of itself."""
        parts = path.split("/")
        if not {"", ".", ".."}.isdisjoint(parts):
            raise FileNotFoundError(path)
        for count in range(1, len(parts)):
            folder = self.engine.find_entry(self.container, "/".join([PATHS.output, *parts[:count]]))
            if folder is None or folder["mode"] & _LINK:
                raise FileNotFoundError(path)
        return cast("BinaryIO", io.BufferedReader(_ArchivedFile(self, path), _BUFFER_BYTES))


class _ArchivedFile(io.RawIOBase):
    """The one file of an archive that is read as it comes."""

    def __init__(self, output: ContainerOutput, path: str) -> None:
        self._answer = output.engine.read_archive(output.container, f"{PATHS.output}/{path}")
        self._archive = read_tar(self._answer.__enter__())
        member = self._archive.next()
        content = self._archive.extractfile(member) if member is not None and member.isreg() else None
        if content is None:
            self.close()
            raise FileNotFoundError(path)
        self._content = content

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        """Fill a buffer with what comes next."""
        data = self._content.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """End the answer too."""
        if not self.closed:
            self._archive.close()
            self._answer.__exit__(None, None, None)
        super().close()


def read_tar(pieces: Iterator[bytes]) -> tarfile.TarFile:
    """Return what reads an archive as it comes."""
    stream = io.BufferedReader(Chunks(pieces), _BUFFER_BYTES)
    return tarfile.open(fileobj=stream, mode="r|", errors="surrogateescape")


def _describe(member: tarfile.TarInfo) -> OutputFile:
    path = member.name.split("/", 1)[1]
    seconds = Decimal(member.pax_headers.get("mtime", str(int(member.mtime))))
    return OutputFile(path, member.size, stat.S_IMODE(member.mode) & 0o777, int(seconds * 10**9))
