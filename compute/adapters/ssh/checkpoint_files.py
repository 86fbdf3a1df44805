"""Reads a checkpoint folder that lies on a host, where a run elsewhere needs it."""

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from compute.adapters.ssh.connection import HostConnection
from compute.engine.job_spec import HostFolder
from compute.engine.ports import OutputFile

_PIECE_BYTES = 1 << 20
_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class HostFolderReader:
    """Reads a folder to which no run writes."""

    connection: HostConnection
    name: str
    files: Sequence[OutputFile]
    source: HostFolder | None = None

    def list_files(self) -> Iterator[OutputFile]:
        """Yield the files that there were when it was opened."""
        return iter(self.files)

    def open(self, path: str) -> BinaryIO:
        """Open a file. Raises FileNotFoundError and ResourceUnreachable."""
        return io.BufferedReader(_HostFile(self, path), _PIECE_BYTES)

    def read(self, path: str, offset: int) -> bytes:
        """Return the next piece of a file; empty at its end. Raises FileNotFoundError and ResourceUnreachable."""
        piece = self.connection.call(
            "read_checkpoint_file",
            name=self.name,
            path=path,
            offset=offset,
            limit=_PIECE_BYTES,
            reply_timeout_s=_TIMEOUT_S,
        )
        if piece is None:
            raise FileNotFoundError(path)
        return base64.b64decode(piece)


class _HostFile(io.RawIOBase):
    """One file, from its beginning. Its first piece is read when it is opened, as that tells whether there is one."""

    def __init__(self, folder: HostFolderReader, path: str) -> None:
        self._folder, self._path = folder, path
        self._piece = folder.read(path, 0)
        self._offset = len(self._piece)

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with what comes next; nothing at the end."""
        if not self._piece:
            self._piece = self._folder.read(self._path, self._offset)
            self._offset += len(self._piece)
        size = min(len(buffer), len(self._piece))
        buffer[:size], self._piece = self._piece[:size], self._piece[size:]
        return size
