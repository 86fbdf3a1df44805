"""Files by content hash in a folder, `<root>/<first two digits>/<hash>`: where the first release stored outputs."""

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

    def keep_bytes(self, data: bytes) -> str:
        """Write bytes into the store."""
        return self._keep(lambda: iter([data]))

    def is_whole(self, content_hash: str) -> bool:
        """Read the file and compare it with its hash."""
        try:
            digest: str = blake3().update_mmap(self._path(content_hash)).hexdigest()
        except FileNotFoundError:
            return False
        return digest == content_hash

    def open(self, content_hash: str) -> BinaryIO:
        """Open the file."""
        return self._path(content_hash).open("rb")

    def read(self, content_hash: str) -> Iterator[bytes]:
        """Open the file now and yield it later."""
        file = self.open(content_hash)

        def pieces() -> Iterator[bytes]:
            with file:
                while piece := file.read(_PIECE_BYTES):
                    yield piece

        return pieces()

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
    """Return the store in the home folder of this host."""
    return ArtifactFolder(_root())


def may_be_elsewhere() -> bool:
    """Whether the store is on another host, if there is one: then that host moves what it holds."""
    return not settings.NEARLINE.is_embedded and not _root().is_dir()


def _root() -> Path:
    return Path(settings.NEARLINE.home).absolute() / "artifacts"
