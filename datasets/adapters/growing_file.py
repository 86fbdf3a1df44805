"""A file that grows beside its place and appears there only if it became what was announced."""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from datasets.engine.ports import Announcement
from datasets.errors import BodyRefused, StoreUnreachable


class GrowingFile:
    """Takes a body piece by piece. `finish` publishes it durably; `discard` leaves nothing, also after a failure.

    `require_store` raises where the store is not there any more, so that nothing is made in its place.
    """

    def __init__(self, folder: Path, target: Path, body: Announcement, require_store: Callable[[], None]) -> None:
        self._target = target
        self._body = body
        self._require_store = require_store
        self._hasher = hashlib.sha256()
        self._size = 0
        try:
            folder.mkdir(exist_ok=True)
            self._descriptor, self._name = tempfile.mkstemp(dir=folder)
        except OSError as error:
            raise _unwritable(error) from error

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append the next piece. Raises BodyRefused when there are more bytes than announced."""
        self._size += len(data)
        if self._size > self._body.size_bytes:
            raise BodyRefused(f"More than the announced {self._body.size_bytes} bytes were sent.")
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            raise _unwritable(error) from error
        self._hasher.update(data)

    def finish(self) -> None:
        """Publish the file under its name. Raises BodyRefused unless it is what was announced."""
        if self._size != self._body.size_bytes:
            raise BodyRefused(f"{self._size} bytes were sent where {self._body.size_bytes} were announced.")
        if self._hasher.hexdigest() != self._body.sha256:
            raise BodyRefused("The bytes that were sent do not have the announced SHA-256.")
        try:
            os.fsync(self._descriptor)
            self._require_store()
            self._target.parent.mkdir(parents=True, exist_ok=True)
            Path(self._name).replace(self._target)
            self._close()
            _sync_folder(self._target.parent)
        except OSError as error:
            raise _unwritable(error) from error

    def discard(self) -> None:
        """Remove what is there of it; nothing happens to a file that was finished."""
        if self._descriptor >= 0:
            self._close()
            Path(self._name).unlink(missing_ok=True)

    def _close(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritable(error: OSError) -> StoreUnreachable:
    return StoreUnreachable(f"The store's folder cannot be written: {error.strerror}.")
