"""In which order files are streamed: as they are listed, or shuffled so that the store is still read in large parts.

A shuffled stream goes through the ranges of a tree in random order. Files that lie together in a pack form chunks; the
chunks of a range are shuffled and dealt to the shards, and the files of some chunks are mixed. So a stream begins after
one range was read, and every shard finds the same order without asking the others.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from nearline.content.entries import Entry, EntryKind
from nearline.errors import InvalidRequest
from nearline.reading.tree import TreeFiles

_CHUNK_FILES = 64
_CHUNK_BYTES = 4 << 20


@dataclass(frozen=True)
class Order:
    """The order of one pass. `seed` None: as listed. Of `shards` streams, this one gives the files of `shard`.

    A shuffled stream mixes files of so many bytes (`mixed_bytes`). Raises InvalidRequest for a shard that is none.
    """

    seed: int | None = None
    shard: int = 0
    shards: int = 1
    mixed_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        if not 0 <= self.shard < self.shards:
            raise InvalidRequest(f"There is no shard {self.shard} of {self.shards}: they are counted from 0.")


def in_order(tree: TreeFiles, is_wanted: Callable[[bytes], bool], order: Order) -> Iterator[Entry]:
    """Yield the wanted files of a tree, without links: over all shards each file once."""
    chunks = islice(_chunks_of(tree, is_wanted, order.seed), order.shard, None, order.shards)
    if order.seed is None:
        yield from chain.from_iterable(chunks)
        return
    mixer = random.Random(f"{order.seed}:{order.shard}")  # noqa: S311 (an order, no secret)
    for mixed in _in_portions(chunks, order.mixed_bytes):
        mixer.shuffle(mixed)
        yield from mixed


def _chunks_of(tree: TreeFiles, is_wanted: Callable[[bytes], bool], seed: int | None) -> Iterator[list[Entry]]:
    """Yield the chunks of all ranges, the same in every shard."""
    ranges = list(tree.ranges)
    shuffler = random.Random(seed)  # noqa: S311 (an order, no secret)
    if seed is not None:
        shuffler.shuffle(ranges)
    for row in ranges:
        files = [entry for entry in tree.list_entries(row) if entry.kind is EntryKind.FILE and is_wanted(entry.path)]
        if seed is None:
            yield from _in_chunks(files)
        else:
            chunks = list(_in_chunks(_by_place(files)))
            shuffler.shuffle(chunks)
            yield from chunks


def _in_chunks(files: Iterable[Entry]) -> Iterator[list[Entry]]:
    return _in_portions(([file] for file in files), _CHUNK_BYTES, most=_CHUNK_FILES)


def _in_portions(groups: Iterable[list[Entry]], size_bytes: int, *, most: int | None = None) -> Iterator[list[Entry]]:
    """Join groups until they have so many bytes, or so many files."""
    portion: list[Entry] = []
    portion_bytes = 0
    for group in groups:
        portion += group
        portion_bytes += sum(entry.size for entry in group)
        if portion_bytes >= size_bytes or len(portion) == most:
            yield portion
            portion, portion_bytes = [], 0
    if portion:
        yield portion


def _by_place(files: Sequence[Entry]) -> list[Entry]:
    """Return files pack by pack, as they lie there."""
    by_pack: defaultdict[bytes, list[Entry]] = defaultdict(list)
    for entry in files:
        by_pack[entry.blobs[0].pack if entry.blobs else b""].append(entry)
    return [
        entry
        for pack in sorted(by_pack)
        for entry in sorted(by_pack[pack], key=lambda file: file.blobs[0].offset if file.blobs else 0)
    ]
