"""The two hashes of the format: BLAKE3-256 names files, blobs, ranges and roots; SHA-256 names packs.

A pack is named by SHA-256 because object stores can check that hash while they receive the bytes.
"""

import base64
import hashlib
from typing import Protocol, TypeAlias

from blake3 import blake3

from nearline.content.errors import HashMismatch

Buffer: TypeAlias = bytes | bytearray | memoryview

ID_BYTES = 32
# The `alg` byte that every object carries: BLAKE3-256 for content, SHA-256 for packs.
ALGORITHM = 1


class Hasher(Protocol):
    """Takes content piece by piece; `digest()` is the hash of all of it so far."""

    def update(self, data: Buffer, /) -> object:
        """Add the next piece."""

    def digest(self) -> bytes:
        """Return the 32 bytes of the hash."""


def file_id(data: Buffer) -> bytes:
    """Return the content id (BLAKE3-256, 32 bytes) of `data`."""
    digest: bytes = blake3(data).digest()
    return digest


def new_hasher() -> Hasher:
    """Return a hasher for content that does not fit in memory."""
    hasher: Hasher = blake3()
    return hasher


def new_sha256() -> Hasher:
    """Return a hasher for SHA-256."""
    return hashlib.sha256()


def sha256_hex(*parts: Buffer) -> str:
    """Return the SHA-256 of the joined parts in hexadecimal: the name of a pack."""
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(part)
    return hasher.hexdigest()


def md5_base64(*parts: Buffer) -> str:
    """Return the MD5 of the joined parts as HTTP headers carry it, for stores that check no better hash."""
    hasher = hashlib.md5(usedforsecurity=False)
    for part in parts:
        hasher.update(part)
    return base64.b64encode(hasher.digest()).decode()


def check_id(data: Buffer, expected: bytes, what: str) -> None:
    """Raise HashMismatch unless the content id of `data` is `expected`; `what` names the thing in the sentence."""
    actual = file_id(data)
    if actual != expected:
        raise HashMismatch(what, expected=expected, actual=actual)


EMPTY_ID = file_id(b"")
