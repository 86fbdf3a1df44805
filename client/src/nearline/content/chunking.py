"""Content-defined chunks of large files, so that an insertion re-stores its neighbourhood and not the whole file.

FastCDC (2020 variant) by pyfastcdc with pinned parameters; another parameter is another format version, since two
clients that cut differently share nothing. pyfastcdc counts its average on top of the minimum, so chunks of random
data come out near 5 MiB. It has no frozen promise of its gear table: the test vectors in docs/reference/format.md
pin the cuts, and a release that moves them fails the tests. Its pure-Python fallback cuts alike, but slowly.
"""

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

MIN_CHUNK_BYTES = 1 << 20
AVERAGE_CHUNK_BYTES = 4 << 20
MAX_CHUNK_BYTES = 16 << 20
# Up to here a file is one blob: edited images share nothing, and one blob is one read.
THRESHOLD_BYTES = 16 << 20


class Chunk(NamedTuple):
    """A piece of a file; `data` is only valid until the next chunk is taken."""

    offset: int
    data: memoryview


def is_chunked(size: int) -> bool:
    """Return whether a file of this size is stored in several chunks."""
    return size > THRESHOLD_BYTES


def cut(file: BinaryIO, size: int) -> Iterator[Chunk]:
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
