"""Which bytes of which packs to read for some files: few large reads, since a request costs more than a gap."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nearline.content.entries import BlobRef, Entry
from nearline.content.packs import MAX_PACK_BYTES

# Up to this gap between two blobs, one read that spans both is quicker than two.
MAX_GAP_BYTES = 1 << 20
# From this share of a pack's span on, all of the span is read at once.
_DENSE_SHARE = 0.5


class Piece(NamedTuple):
    """One blob: the file it belongs to, and where in the file it goes."""

    entry: Entry
    blob: BlobRef
    file_offset: int


@dataclass(frozen=True)
class PackSpan:
    """One read: `size` bytes of a pack from `offset` on, and the pieces in them, ordered by offset."""

    pack: str
    offset: int
    size: int
    pieces: Sequence[Piece]


def plan_reads(entries: Iterable[Entry]) -> list[PackSpan]:
    """Return the reads that bring every blob of these files, pack by pack in the order of first use.

    No read is longer than the largest pack.
    """
    by_pack: defaultdict[bytes, list[Piece]] = defaultdict(list)
    for entry in entries:
        file_offset = 0
        for blob in entry.blobs:
            by_pack[blob.pack].append(Piece(entry, blob, file_offset))
            file_offset += blob.size
    return [span for pack, pieces in by_pack.items() for span in _plan_pack(pack.hex(), pieces)]


def span_of(pack: str, pieces: Sequence[Piece]) -> PackSpan:
    """Return the read that brings these pieces of one pack."""
    start = pieces[0].blob.offset
    end = max(piece.blob.offset + piece.blob.size for piece in pieces)
    return PackSpan(pack, start, end - start, pieces)


def _plan_pack(pack: str, pieces: list[Piece]) -> list[PackSpan]:
    pieces.sort(key=lambda piece: (piece.blob.offset, piece.blob.size))
    start = end = pieces[0].blob.offset
    needed_bytes = 0
    for _, blob, _ in pieces:
        needed_bytes += max(0, blob.offset + blob.size - max(end, blob.offset))
        end = max(end, blob.offset + blob.size)
    is_dense = needed_bytes >= _DENSE_SHARE * (end - start)
    return [span_of(pack, group) for group in _group(pieces, MAX_PACK_BYTES if is_dense else MAX_GAP_BYTES)]


def _group(pieces: Iterable[Piece], max_gap_bytes: int) -> list[list[Piece]]:
    groups: list[list[Piece]] = []
    start = end = 0
    for piece in pieces:
        blob = piece.blob
        blob_end = blob.offset + blob.size
        if groups and blob.offset <= end + max_gap_bytes and blob_end - start <= MAX_PACK_BYTES:
            groups[-1].append(piece)
            end = max(end, blob_end)
        else:
            groups.append([piece])
            start, end = blob.offset, blob_end
    return groups
