"""Artifacts in a folder: `<root>/<first two digits>/<hash>`, each renamed into its place when it is whole."""

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3
from django.conf import settings

from experiments.engine.ports import ArtifactStore

_PIECE_BYTES = 1 << 20


class ArtifactFolder:
    """The store of the embedded product. Any number of processes may use it at once."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def keep_file(self, file: BinaryIO) -> tuple[str, int]:
        """Copy an open file into the store, hashing the bytes that are copied."""
        size_bytes = 0

        def pieces() -> Iterator[bytes]:
            nonlocal size_bytes
            while piece := file.read(_PIECE_BYTES):
                size_bytes += len(piece)
                yield piece

        return self._keep(pieces), size_bytes

    def keep_bytes(self, data: bytes) -> str:
        """Write bytes into the store."""
        return self._keep(lambda: iter([data]))

    def has(self, content_hash: str) -> bool:
        """Whether the file is there."""
        return self._path(content_hash).exists()

    def read(self, content_hash: str) -> Iterator[bytes]:
        """Open the file now and yield it later."""
        file = self._path(content_hash).open("rb")

        def pieces() -> Iterator[bytes]:
            with file:
                while piece := file.read(_PIECE_BYTES):
                    yield piece

        return pieces()

    def path_of(self, content_hash: str) -> Path:
        """Return where the content lies, for programs that need a file."""
        return self._path(content_hash)

    def _keep(self, pieces: Callable[[], Iterator[bytes]]) -> str:
        self._root.mkdir(parents=True, exist_ok=True)
        draft = self._root / f".{secrets.token_hex(8)}"
        hasher = blake3()
        try:
            with draft.open("wb") as file:
                for piece in pieces():
                    hasher.update(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            target = self._path(hasher.hexdigest())
            target.parent.mkdir(exist_ok=True)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
        return hasher.hexdigest()

    def _path(self, content_hash: str) -> Path:
        if len(content_hash) != 64 or not all(digit in "0123456789abcdef" for digit in content_hash):  # noqa: PLR2004
            raise FileNotFoundError(content_hash)
        return self._root / content_hash[:2] / content_hash


def artifact_store() -> ArtifactStore:
    """Return the store of this installation."""
    return ArtifactFolder(Path(settings.NEARLINE.home).absolute() / "artifacts")
