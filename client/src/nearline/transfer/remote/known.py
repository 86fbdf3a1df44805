"""What need not be sent: the blobs of the dataset's newest tree, and those stored since by an interrupted sync."""

import threading
from array import array
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from nearline.content.entries import BlobRef, Entry
from nearline.content.hashing import ID_BYTES
from nearline.content.packs import Pack

# Each takes ten milliseconds for 600,000 files, the index a hundred and twenty.
_MOST_SEARCHES = 8


class Ranges(Protocol):
    """Where the ranges of trees can be looked into and read."""

    def peek_ids(self, range_id: str) -> bytes:
        """Return the ids of all contents that a range names, unchecked."""

    def load_range(self, range_id: str) -> Sequence[Entry]:
        """Return the entries of a range."""


class KnownContent:
    """Places of blobs by their id. Safe to use from several threads.

    Of the trees only the ranges that hold something asked for are read. Which those are is told by the content ids that
    they name. These are searched for the first few questions, and then indexed by their first bytes, which takes 150
    bytes of memory for each file.
    """

    def __init__(
        self,
        ranges: Ranges | None = None,
        range_ids: Iterable[str] = (),
        *,
        missing_packs: Collection[bytes] = (),
    ) -> None:
        self._lock = threading.RLock()
        self._ranges = ranges
        self._unread = dict(enumerate(dict.fromkeys(range_ids)))
        self._ids: dict[int, bytes] | None = None
        self._index: dict[int, int] | None = None
        self._searches = 0
        # Packs that the server says it lost: what they held must be sent again.
        self._missing = set(missing_packs)
        # Packed tightly: as objects, a million of them would take twice the memory.
        self._places: dict[bytes, int] = {}
        self._chunks: dict[bytes, tuple[bytes, ...]] = {}
        self._ordinals: dict[bytes, int] = {}
        self._packs: list[bytes] = []

    def add_blob(self, blob: BlobRef) -> None:
        """Take note of one blob; the first place known is kept, so that equal trees stay equal."""
        with self._lock:
            self._read_for(blob.content_id)
            self._note(blob)

    def add_pack(self, pack: Pack) -> None:
        """Take note of a pack whose blobs were all looked for before they were sent."""
        with self._lock:
            ordinal = self._ordinal_of(pack.sha256) << 64
            for content_id, offset, size in pack.blobs:
                self._places.setdefault(content_id, ordinal | offset << 32 | size)

    def find_blob(self, blob_id: bytes) -> BlobRef | None:
        """Return where a blob lies."""
        with self._lock:
            self._read_for(blob_id)
            place = self._places.get(blob_id)
            if place is None:
                return None
            return BlobRef(blob_id, self._packs[place >> 64], place >> 32 & 0xFFFFFFFF, place & 0xFFFFFFFF)

    def find_file(self, content_id: bytes) -> tuple[BlobRef, ...] | None:
        """Return where the content of a file lies, if all of it is known."""
        with self._lock:
            self._read_for(content_id)
            blobs = [self.find_blob(blob_id) for blob_id in self._chunks.get(content_id, (content_id,))]
        return None if None in blobs else tuple(blob for blob in blobs if blob)

    def _read_for(self, content_id: bytes) -> None:
        """Take note of all in the first range that seems to hold some content, if that was not read yet."""
        if content_id in self._places or not self._unread or self._ranges is None:
            return
        if self._ids is None:
            self._ids = {number: self._ranges.peek_ids(range_id) for number, range_id in self._unread.items()}
        number = self._find_range(content_id, self._ids)
        if number in self._unread:
            for entry in self._ranges.load_range(self._unread.pop(number)):
                self._add_entry(entry)

    def _find_range(self, content_id: bytes, ids: dict[int, bytes]) -> int:
        """Return the first range that seems to name some content, -1 where none does."""
        if self._searches < _MOST_SEARCHES:
            self._searches += 1
            return next((number for number in ids if content_id in ids[number]), -1)
        if self._index is None:
            self._index = {}
            while ids:
                number, named = ids.popitem()
                self._index.update(dict.fromkeys(_beginnings(named), number))
        return self._index.get(_beginnings(content_id)[0], -1)

    def _add_entry(self, entry: Entry) -> None:
        if not self._missing.isdisjoint(blob.pack for blob in entry.blobs):
            return
        for blob in entry.blobs:
            self._note(blob)
        if len(entry.blobs) > 1:
            self._chunks[entry.content_id] = tuple(blob.content_id for blob in entry.blobs)

    def _note(self, blob: BlobRef) -> None:
        if blob.content_id not in self._places:
            self._places[blob.content_id] = self._ordinal_of(blob.pack) << 64 | blob.offset << 32 | blob.size

    def _ordinal_of(self, pack: bytes) -> int:
        ordinal = self._ordinals.setdefault(pack, len(self._packs))
        if ordinal == len(self._packs):
            self._packs.append(pack)
        return ordinal


def _beginnings(ids: bytes) -> "array[int]":
    """Return the first eight bytes of every id as a number."""
    words = array("Q", ids)
    return words[:: ID_BYTES // words.itemsize]
