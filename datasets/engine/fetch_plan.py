"""Which bytes of which packs to read for some files: few large reads, since a request costs more than a gap."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nearline.content.manifest import BlobRef, Entry

# Up to this gap between two wanted blobs, one read that spans both is quicker than two.
MAX_GAP_BYTES = 1 << 20
# From this share of a pack's span on, all of the span is read at once.
_WHOLE_SHARE = 0.5


class Piece(NamedTuple):
    """One wanted blob: the file it belongs to, and where in the file it goes."""

    entry: Entry
    blob: BlobRef
    file_offset: int


@dataclass(frozen=True)
class PackSpan:
    """One read: `size` bytes of a pack from `offset` on, and the pieces to be found in them, by their offset."""

    pack: str
    offset: int
    size: int
    pieces: Sequence[Piece]


def plan_reads(entries: Iterable[Entry]) -> list[PackSpan]:
    """Return the reads that bring every blob of these files, pack by pack in the order of first use."""
    by_pack: defaultdict[bytes, list[Piece]] = defaultdict(list)
    for entry in entries:
        file_offset = 0
        for blob in entry.blobs:
            by_pack[blob.pack].append(Piece(entry, blob, file_offset))
            file_offset += blob.size
    return [span for pack, pieces in by_pack.items() for span in _plan_pack(pack.hex(), pieces)]


def _plan_pack(pack: str, pieces: list[Piece]) -> list[PackSpan]:
    pieces.sort(key=lambda piece: (piece.blob.offset, piece.blob.size))
    groups: list[list[Piece]] = []
    end = wanted = 0
    for piece in pieces:
        if not groups or piece.blob.offset > end + MAX_GAP_BYTES:
            groups.append([])
        groups[-1].append(piece)
        wanted += max(0, piece.blob.offset + piece.blob.size - max(end, piece.blob.offset))
        end = max(end, piece.blob.offset + piece.blob.size)
    if wanted >= _WHOLE_SHARE * (end - pieces[0].blob.offset):
        groups = [pieces]
    return [_span(pack, group) for group in groups]


def _span(pack: str, pieces: Sequence[Piece]) -> PackSpan:
    start = pieces[0].blob.offset
    end = max(piece.blob.offset + piece.blob.size for piece in pieces)
    return PackSpan(pack, start, end - start, pieces)
