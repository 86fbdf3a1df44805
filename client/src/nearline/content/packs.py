"""Packs: many blobs in one immutable object, self-describing by an index at its end, named by its SHA-256.

Layout: blobs, then per blob its content id and length, then a trailer. docs/reference/format.md has it byte by byte.

A blob is a file, or a content-defined chunk of a large one: so an insertion re-stores its neighbourhood and not the
whole file. pyfastcdc cuts them by FastCDC (2020 variant) with pinned parameters; another parameter is another format
version, since two clients that cut differently share nothing. It counts its average on top of the minimum, so chunks of
random data come out near 5 MiB. It has no frozen promise of its gear table: the test vectors in
docs/reference/format.md pin the cuts, and a release that moves them fails the tests. Its pure-Python fallback cuts
alike, but slowly.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

from nearline.content.errors import BadPack
from nearline.content.hashing import ALGORITHM, ID_BYTES, Buffer, file_id, new_sha256

TARGET_PACK_BYTES = 32 << 20
MAX_PACK_BYTES = 64 << 20
MAX_BLOB_BYTES = 16 << 20
# Up to here a file is one blob: edited images share nothing, and one blob is one read.
THRESHOLD_BYTES = 16 << 20
MIN_CHUNK_BYTES = 1 << 20
AVERAGE_CHUNK_BYTES = 4 << 20
MAX_CHUNK_BYTES = 16 << 20
VERSION = 1
MAGIC = b"NLPK"

# Blobs are joined to parts of at least this size: fewer pieces to hash and to send, and less memory for each.
_PART_BYTES = 256 << 10

# Number of blobs, flags (none is defined yet: compression has its place there), version, algorithm, magic.
_TRAILER = struct.Struct("<IHBB4s")
_INDEX_ROW = struct.Struct(f"<{ID_BYTES}sI")


class BlobInPack(NamedTuple):
    """Where one blob lies in a pack."""

    content_id: bytes
    offset: int
    size: int


class Pack(NamedTuple):
    """A finished pack: its bytes in parts, and the blobs in them; `sha256` is its name in binary."""

    sha256: bytes
    parts: tuple[bytes, ...]
    blobs: tuple[BlobInPack, ...]

    @property
    def name(self) -> str:
        """Return the name in hexadecimal, as the API spells it."""
        return self.sha256.hex()

    @property
    def data(self) -> bytes:
        """Return the bytes of the pack in one piece, as a copy."""
        return b"".join(self.parts)


class PackContent(NamedTuple):
    """A pack without its name, which takes hashing all of it."""

    parts: tuple[bytes, ...]
    blobs: tuple[BlobInPack, ...]

    def named(self) -> Pack:
        """Return the finished pack."""
        hasher = new_sha256()
        for part in self.parts:
            hasher.update(part)
        return Pack(hasher.digest(), self.parts, self.blobs)


class PackBuilder:
    """Collects blobs in the order in which they come; the same blobs in the same order make the same pack.

    The pack is never copied as a whole.
    """

    def __init__(self, target_bytes: int = TARGET_PACK_BYTES) -> None:
        self._target_bytes = min(target_bytes, MAX_PACK_BYTES)
        self._start()

    def _start(self) -> None:
        self._blobs: list[BlobInPack] = []
        self._blob_bytes = 0
        self._parts: list[bytes] = []
        # What is not in a part yet.
        self._rest: list[bytes] = []
        self._rest_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Return the size that the pack would have if it were finished now."""
        return self._blob_bytes + len(self._blobs) * _INDEX_ROW.size + _TRAILER.size

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was added yet."""
        return not self._blobs

    def fits(self, size: int) -> bool:
        """Return whether a blob of this size keeps the pack within its target; the first always fits."""
        return self.is_empty or self.size_bytes + size + _INDEX_ROW.size <= self._target_bytes

    def add(self, blob: bytes, content_id: bytes | None = None) -> BlobInPack:
        """Append a blob and return its place; give `content_id` when it is known, to save hashing twice."""
        if not 0 < len(blob) <= MAX_BLOB_BYTES:
            raise BadPack(f"A blob has 1 to {MAX_BLOB_BYTES} bytes, not {len(blob)}.")
        if self.size_bytes + len(blob) + _INDEX_ROW.size > MAX_PACK_BYTES:
            raise BadPack(f"A pack has at most {MAX_PACK_BYTES} bytes.")
        placed = BlobInPack(content_id or file_id(blob), self._blob_bytes, len(blob))
        self._blobs.append(placed)
        self._blob_bytes += len(blob)
        self._rest.append(blob)
        self._rest_bytes += len(blob)
        if self._rest_bytes >= _PART_BYTES:
            self._end_part()
        return placed

    def finish(self) -> Pack:
        """Return the pack and start over with an empty one."""
        return self.take().named()

    def take(self) -> PackContent:
        """Return what the pack holds and start over with an empty one; another thread may give it its name."""
        self._rest.append(make_footer(self._blobs))
        self._end_part()
        content = PackContent(tuple(self._parts), tuple(self._blobs))
        self._start()
        return content

    def _end_part(self) -> None:
        # A large blob is a part of its own, without a copy.
        self._parts.append(self._rest[0] if len(self._rest) == 1 else b"".join(self._rest))
        self._rest, self._rest_bytes = [], 0


def make_footer(blobs: Sequence[BlobInPack]) -> bytes:
    """Return what follows the blobs in a pack."""
    return write_index(blobs) + _TRAILER.pack(len(blobs), 0, VERSION, ALGORITHM, MAGIC)


def write_index(blobs: Iterable[BlobInPack]) -> bytes:
    """Return what tells of the blobs of a pack, in order."""
    return b"".join([_INDEX_ROW.pack(blob.content_id, blob.size) for blob in blobs])


def read_index(index: Buffer) -> list[BlobInPack]:
    """Return the blobs that an index of whole rows tells of. Raises BadPack for one without bytes or too large."""
    blobs = []
    offset = 0
    for content_id, size in _INDEX_ROW.iter_unpack(index):
        if not 0 < size <= MAX_BLOB_BYTES:
            raise BadPack(f"The index of this pack lists a blob of {size} bytes.")
        blobs.append(BlobInPack(content_id, offset, size))
        offset += size
    return blobs


def read_footer(data: Buffer) -> list[BlobInPack]:
    """Return the blobs that a pack says it holds, in order; their bytes are not checked yet.

    Raises BadPack when `data` is not exactly one pack of this format.
    """
    if len(data) > MAX_PACK_BYTES:
        raise BadPack(f"A pack has at most {MAX_PACK_BYTES} bytes.")
    if len(data) < _TRAILER.size:
        raise BadPack("These bytes are too short for a pack.")
    count, flags, version, algorithm, magic = _TRAILER.unpack_from(data, len(data) - _TRAILER.size)
    if magic != MAGIC:
        raise BadPack("These bytes are not a pack.")
    if (flags, version, algorithm) != (0, VERSION, ALGORITHM):
        raise BadPack(f"This pack has format {version}.{algorithm}.{flags}, which this version cannot read.")
    index_at = len(data) - _TRAILER.size - count * _INDEX_ROW.size
    if index_at < 0:
        raise BadPack("The index of this pack is larger than the pack.")
    blobs = read_index(memoryview(data)[index_at : len(data) - _TRAILER.size])
    if sum(blob.size for blob in blobs) != index_at:
        raise BadPack("The index of this pack does not cover its content.")
    return blobs


class Chunk(NamedTuple):
    """A piece of a file; `data` is only valid until the next chunk is taken."""

    offset: int
    data: memoryview


def is_chunked(size: int) -> bool:
    """Return whether a file of this size is stored in several chunks."""
    return size > THRESHOLD_BYTES


def cut_chunks(file: BinaryIO, size: int) -> Iterator[Chunk]:
    """Cut the content of `file`, in order: one chunk up to the threshold, content-defined ones above it.

    `size` decides between the two. Memory is bounded by a few times the largest chunk.
    """
    if not is_chunked(size):
        data = file.read(THRESHOLD_BYTES)
        if data:
            yield Chunk(0, memoryview(data))
        return
    # Imported here: only uploads of large files need the compiled module, and the CLI's start-up must stay quick.
    from pyfastcdc import FastCDC  # noqa: PLC0415

    cutter = FastCDC(
        AVERAGE_CHUNK_BYTES, min_size=MIN_CHUNK_BYTES, max_size=MAX_CHUNK_BYTES, normalized_chunking=1, seed=0
    )
    for chunk in cutter.cut_stream(file):
        yield Chunk(chunk.offset, chunk.data)
