"""Files by content hash in a folder of this host, `<two digits>/<hash>`: what the first release stored of outputs.

Nothing new comes here: what is left is read, and moved into the stores of projects.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3
from django.conf import settings

_PIECE_BYTES = 1 << 20


def is_whole(content_hash: str) -> bool:
    """Whether that content is there and undamaged. Reads all of it."""
    try:
        digest: str = blake3().update_mmap(path_of(content_hash)).hexdigest()
    except FileNotFoundError:
        return False
    return digest == content_hash


def open_content(content_hash: str) -> BinaryIO:
    """Return the content as a file. Raises FileNotFoundError."""
    return path_of(content_hash).open("rb")


def read(content_hash: str) -> Iterator[bytes]:
    """Return the content in pieces. Raises FileNotFoundError before the first piece when it is not there."""
    file = open_content(content_hash)

    def pieces() -> Iterator[bytes]:
        with file:
            while piece := file.read(_PIECE_BYTES):
                yield piece

    return pieces()


def may_be_elsewhere() -> bool:
    """Whether the folder is on another host, if there is one: then that host moves what it holds."""
    return not settings.NEARLINE.is_embedded and not _root().is_dir()


def path_of(content_hash: str) -> Path:
    """Return where the content lies. Raises FileNotFoundError for what is no hash."""
    if len(content_hash) != 64 or not all(digit in "0123456789abcdef" for digit in content_hash):  # noqa: PLR2004
        raise FileNotFoundError(content_hash)
    return _root() / content_hash[:2] / content_hash


def _root() -> Path:
    return Path(settings.NEARLINE.home).absolute() / "artifacts"
