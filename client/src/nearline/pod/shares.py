"""Several pods that fill one copy: which files each of them writes, by ranges of packs."""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nearline.content.entries import Entry


@dataclass(frozen=True)
class Division:
    """Which share a file belongs to: that of the pack with its first byte, so that few packs are read by two pods."""

    count: int
    share_by_pack: Mapping[bytes, int]

    def share_of(self, entry: Entry) -> int:
        """Return the number of the share of a file or link of the tree that was divided."""
        if entry.blobs:
            return self.share_by_pack[entry.blobs[0].pack]
        return zlib.crc32(entry.path) % self.count


def divide(entries: Iterable[Entry], count: int) -> Division:
    """Divide a tree into shares whose bytes differ from the mean by at most what begins in one pack.

    Same tree, same shares: each pod works them out by itself.
    """
    begun_bytes: dict[bytes, int] = {}
    for entry in entries:
        if entry.blobs:
            pack = entry.blobs[0].pack
            begun_bytes[pack] = begun_bytes.get(pack, 0) + entry.size
    total = sum(begun_bytes.values())
    share_by_pack, passed = {}, 0
    for pack, size in begun_bytes.items():
        share_by_pack[pack] = min(count - 1, (2 * passed + size) * count // (2 * total)) if total else 0
        passed += size
    return Division(count, share_by_pack)
