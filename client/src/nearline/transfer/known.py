"""What need not be sent: the blobs of the dataset's newest tree, and those stored since by an interrupted sync."""

from collections.abc import Collection, Iterable

from nearline.content.entries import BlobRef, Entry


class KnownContent:
    """Places of blobs by their id, packed tightly: as objects, a million of them would take twice the memory."""

    def __init__(self, *, missing_packs: Collection[bytes] = ()) -> None:
        # Packs that the server says it lost: what they held must be sent again.
        self._missing = set(missing_packs)
        self._places: dict[bytes, int] = {}
        self._chunks: dict[bytes, tuple[bytes, ...]] = {}
        self._ordinals: dict[bytes, int] = {}
        self._packs: list[bytes] = []

    def add_entries(self, entries: Iterable[Entry]) -> None:
        """Take note of the blobs of a tree."""
        for entry in entries:
            if not self._missing.isdisjoint(blob.pack for blob in entry.blobs):
                continue
            for blob in entry.blobs:
                self.add_blob(blob)
            if len(entry.blobs) > 1:
                self._chunks[entry.content_id] = tuple(blob.content_id for blob in entry.blobs)

    def add_blob(self, blob: BlobRef) -> None:
        """Take note of one blob; the first place known is kept, so that equal trees stay equal."""
        if blob.content_id in self._places:
            return
        ordinal = self._ordinals.setdefault(blob.pack, len(self._packs))
        if ordinal == len(self._packs):
            self._packs.append(blob.pack)
        self._places[blob.content_id] = ordinal << 64 | blob.offset << 32 | blob.size

    def find_blob(self, blob_id: bytes) -> BlobRef | None:
        """Return where a blob lies."""
        place = self._places.get(blob_id)
        if place is None:
            return None
        return BlobRef(blob_id, self._packs[place >> 64], place >> 32 & 0xFFFFFFFF, place & 0xFFFFFFFF)

    def find_file(self, content_id: bytes) -> tuple[BlobRef, ...] | None:
        """Return where the content of a file lies, if all of it is known."""
        found = [self.find_blob(blob_id) for blob_id in self._chunks.get(content_id, (content_id,))]
        return None if None in found else tuple(blob for blob in found if blob)
