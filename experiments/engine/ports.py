"""What experiments need from a store of bytes: artifacts and code bundles, each under the hash of its content."""

from collections.abc import Iterator
from typing import BinaryIO, Protocol


class ArtifactStore(Protocol):
    """Keeps content by its hash. What was kept never changes, so keeping it twice is harmless."""

    def keep_bytes(self, data: bytes) -> str:
        """Keep some bytes and return their BLAKE3 hash (hex)."""

    def is_whole(self, content_hash: str) -> bool:
        """Whether that content is kept and undamaged. Reads all of it."""

    def open(self, content_hash: str) -> BinaryIO:
        """Return the content as a file. Raises FileNotFoundError."""

    def read(self, content_hash: str) -> Iterator[bytes]:
        """Return the content in pieces. Raises FileNotFoundError before the first piece when it is not kept."""
