"""The entries of a range as its columns hold them: an entry, or a path, is made when someone asks for it.

A range that is only looked into, for names or sizes or a few of its files, costs a quarter of one that is read whole,
and takes a quarter of the memory. Most of that is for the paths.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from io import BytesIO
from itertools import accumulate, chain, compress, count, repeat
from operator import add, ne
from struct import Struct
from typing import Any, NamedTuple, Self, TypeVar, overload

from nearline.content import entries as entry_rules
from nearline.content.entries import MAX_MODE, BlobRef, Entry, EntryKind
from nearline.content.hashing import ID_BYTES
from nearline.content.packs import MAX_BLOB_BYTES, MAX_PACK_BYTES

# The same as `BlobRef._make` and `Entry._make` without a Python call for each of a million rows.
_new_blob: Callable[[Iterable[object]], BlobRef] = partial(tuple.__new__, BlobRef)
_new_entry: Callable[[Iterable[object]], Entry] = partial(tuple.__new__, Entry)
_ID = Struct(f"{ID_BYTES}s")
_T = TypeVar("_T")
KINDS = (EntryKind.FILE, EntryKind.SYMLINK)


@dataclass
class PathColumns:
    """Of each path how many bytes it begins with are those of the path before, and what follows them.

    Equal paths have equal columns where these are canonical, as those of every range that was checked.
    """

    shared: "array[int]"
    suffix_lengths: "array[int]"
    suffixes: bytes

    @classmethod
    def of(cls, paths: list[bytes]) -> Self:
        """Return the canonical columns: a path shares its folder, with the slash, where the one before is in it too."""
        folders = [path.rpartition(b"/")[0] for path in paths]
        shared = [
            len(folder) + 1 if folder == previous and folder else 0
            for folder, previous in zip(folders, chain((b"",), folders), strict=False)
        ]
        suffixes = [path[length:] for path, length in zip(paths, shared, strict=True)]
        columns = cls(array("H", shared), array("H", map(len, suffixes)), b"".join(suffixes))
        columns.paths = paths
        return columns

    @cached_property
    def paths(self) -> list[bytes]:
        """The paths themselves."""
        previous = shared = b""
        suffixes = map(BytesIO(self.suffixes).read, self.suffix_lengths)
        return [
            # Most paths share as much as the one before them does, so it need not be cut out again.
            previous := (shared if length == len(shared) else (shared := previous[:length])) + suffix
            for length, suffix in zip(self.shared, suffixes, strict=True)
        ]

    @property
    def size_bytes(self) -> int:
        """The length of all paths together."""
        return sum(self.shared) + len(self.suffixes)


class Columns(NamedTuple):
    """What a range lists: a value for each entry, then for each chunk, then for each blob, then the packs.

    Chunks are the blobs of files that have several; an only blob has the id and the size of its file. Blobs stand in
    the order of their entries. `targets` are the targets of the links, one after another.
    """

    names: PathColumns
    kinds: bytes
    modes: "array[int]"
    sizes: "array[int]"
    times: "array[int]"
    content_ids: bytes
    blob_counts: "array[int]"
    targets: bytes
    chunk_ids: bytes
    chunk_sizes: "array[int]"
    pack_ordinals: "array[int]"
    offsets: "array[int]"
    packs: list[bytes]


class RangeEntries(Sequence[Entry]):
    """The entries of one range, in order. `paths` and `sizes` cost no entry.

    A plain range holds files of one blob each, as most do; the entries of any other are made at once.
    """

    def __init__(self, columns: Columns, *, base_id: str | None = None, is_sound: bool = False) -> None:
        self._columns = columns
        # Whether `check` would find nothing.
        self._is_sound = is_sound
        # The range whose entries the store's object of this one changes; None where it holds all of them.
        self.base_id = base_id
        files = len(columns.kinds)
        self.is_plain = columns.kinds.count(0) == files and columns.blob_counts == array("I", [1]) * files
        self._made = None if self.is_plain else _make_all(columns)

    @property
    def paths(self) -> Sequence[bytes]:
        """The path of every entry."""
        return self._columns.names.paths

    @property
    def sizes(self) -> Sequence[int]:
        """The size of every entry, in bytes."""
        return self._columns.sizes

    @property
    def content_ids(self) -> bytes:
        """The content id of every entry, one after another."""
        return self._columns.content_ids

    @property
    def forms(self) -> bytes:
        """For every entry a byte that tells a plain file (0), one that its owner may execute (1) and a link (2)."""
        return bytes(
            2 if kind else mode >> 6 & 1 for kind, mode in zip(self._columns.kinds, self._columns.modes, strict=True)
        )

    @property
    def columns(self) -> Columns:
        """What the range lists, column by column."""
        return self._columns

    def has_paths_of(self, other: Self) -> bool:
        """Return whether two sound ranges list the same paths; none of these is made for that."""
        return self._columns.names == other._columns.names

    def with_changed(self, places: Sequence[int], changed: Self, *, base_id: str | None = None) -> Self:
        """Return this plain range with the entries of another one, of the same paths, at these places in order.

        It is as sound as this one, where the other is.
        """
        columns, others = self._columns, changed.columns
        modes, sizes, times = columns.modes[:], columns.sizes[:], columns.times[:]
        content_ids, ordinals, offsets = bytearray(columns.content_ids), columns.pack_ordinals[:], columns.offsets[:]
        numbers = dict(zip(columns.packs, count()))
        other_numbers = [numbers.setdefault(pack, len(numbers)) for pack in others.packs]
        rows = zip(
            places,
            others.modes,
            others.sizes,
            others.times,
            cut_ids(others.content_ids),
            map(other_numbers.__getitem__, others.pack_ordinals),
            others.offsets,
            strict=True,
        )
        for place, modes[place], sizes[place], times[place], content_id, ordinals[place], offsets[place] in rows:
            content_ids[place * ID_BYTES : (place + 1) * ID_BYTES] = content_id
        packs = list(numbers)
        # Packs are listed in the order of their first use. Where all were in use before what changes, that stays.
        if columns.pack_ordinals.index(len(columns.packs) - 1) >= places[0]:
            order = dict(zip(dict.fromkeys(ordinals), count()))
            ordinals = array("I", map(order.__getitem__, ordinals))
            packs = list(map(packs.__getitem__, order))
        return type(self)(
            columns._replace(
                modes=modes,
                sizes=sizes,
                times=times,
                content_ids=bytes(content_ids),
                pack_ordinals=ordinals,
                offsets=offsets,
                packs=packs,
            ),
            base_id=base_id,
            is_sound=self._is_sound,
        )

    def merge_plain(self, dropped: Collection[int], added: "RangeEntries", *, base_id: str) -> Self:
        """Return this plain range without some of its entries and with other plain ones, at least one in all.

        What is added has the path of none that stays.
        """
        mine, theirs = self._columns, added.columns
        paths = mine.names.paths + theirs.names.paths
        order = [index for index in range(len(paths)) if index not in dropped]
        order.sort(key=paths.__getitem__)

        def join(one: Sequence[_T], other: Sequence[_T]) -> Iterable[_T]:
            return map([*one, *other].__getitem__, order)

        packs = list(join(*([own.packs[ordinal] for ordinal in own.pack_ordinals] for own in (mine, theirs))))
        ordinals = {pack: ordinal for ordinal, pack in enumerate(dict.fromkeys(packs))}
        columns = Columns(
            PathColumns.of(list(map(paths.__getitem__, order))),
            bytes(len(order)),
            array("H", join(mine.modes, theirs.modes)),
            array("Q", join(mine.sizes, theirs.sizes)),
            array("q", join(mine.times, theirs.times)),
            b"".join(join(cut_ids(mine.content_ids), cut_ids(theirs.content_ids))),
            array("I", [1]) * len(order),
            b"",
            b"",
            array("I"),
            array("I", map(ordinals.__getitem__, packs)),
            array("I", join(mine.offsets, theirs.offsets)),
            list(ordinals),
        )
        return type(self)(columns, base_id=base_id)

    def find_differing(self, other: Self, *, is_exact: bool = False) -> list[int]:
        """Return where the entries of two ranges with the same paths are not the same version of a file.

        With `is_exact`, of two plain ranges, where they differ in anything.
        """
        mine, theirs = self._columns, other._columns
        columns: list[tuple[Any, Any]] = [(mine.modes, theirs.modes), (mine.kinds, theirs.kinds)]
        if mine.content_ids != theirs.content_ids:
            columns.append((_ID.iter_unpack(mine.content_ids), _ID.iter_unpack(theirs.content_ids)))
        if is_exact:
            columns += [(mine.sizes, theirs.sizes), (mine.times, theirs.times), (mine.offsets, theirs.offsets)]
            packs = ([own.packs[ordinal] for ordinal in own.pack_ordinals] for own in (mine, theirs))
            columns.append((next(packs), next(packs)))
        differing: set[int] = set()
        for before, after in columns:
            if before != after:
                differing.update(compress(count(), map(ne, before, after)))
        return sorted(differing)

    def pack_ends(self) -> dict[bytes, int]:
        """Return how far into each pack the blobs of the entries reach."""
        ends: dict[bytes, int] = {}
        if self._made is not None:
            for blob in chain.from_iterable(entry.blobs for entry in self._made):
                ends[blob.pack] = max(ends.get(blob.pack, 0), blob.offset + blob.size)
            return ends
        columns = self._columns
        by_pack = [0] * len(columns.packs)
        for ordinal, end in zip(columns.pack_ordinals, map(add, columns.offsets, columns.sizes), strict=True):
            if end > by_pack[ordinal]:  # noqa: PLR1730 (calling `max` for each file takes twice the time)
                by_pack[ordinal] = end
        return dict(zip(columns.packs, by_pack, strict=True))

    def check(self) -> None:
        """Raise BadPath or BadManifest unless the entries are sound, sorted and distinct."""
        if self._is_sound:
            return
        if self.is_plain and _are_sound(self._columns):
            entry_rules.check_names(self.paths)
        else:
            entry_rules.check_entries(list(self))
        self._is_sound = True

    def __len__(self) -> int:
        return len(self._columns.kinds)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> list[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | list[Entry]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        return _make_one(self._columns, range(len(self))[index]) if self._made is None else self._made[index]

    def __iter__(self) -> Iterator[Entry]:
        return iter(_make_all(self._columns) if self._made is None else self._made)


def _are_sound(columns: Columns) -> bool:
    """Check the rows of plain files; what the columns cannot even express needs no check."""
    sizes, offsets = columns.sizes, columns.offsets
    return (
        max(columns.modes) <= MAX_MODE
        and min(sizes) > 0
        and max(sizes) <= MAX_BLOB_BYTES
        and max(map(add, offsets, sizes)) <= MAX_PACK_BYTES
    )


def _make_one(columns: Columns, index: int) -> Entry:
    """Return one entry of a plain range."""
    size = columns.sizes[index]
    content_id = columns.content_ids[index * ID_BYTES : (index + 1) * ID_BYTES]
    blob = BlobRef(content_id, columns.packs[columns.pack_ordinals[index]], columns.offsets[index], size)
    return Entry(
        columns.names.paths[index], columns.modes[index], size, columns.times[index], content_id, blobs=(blob,)
    )


def _make_all(columns: Columns) -> list[Entry]:
    content_ids = cut_ids(columns.content_ids)
    sizes = columns.sizes.tolist()
    blob_ids, blob_sizes = _flatten_blobs(columns, content_ids, sizes)
    places = map(columns.packs.__getitem__, columns.pack_ordinals)
    blobs = list(map(_new_blob, zip(blob_ids, places, columns.offsets, blob_sizes, strict=True)))
    rows = zip(
        columns.names.paths,
        columns.modes,
        sizes,
        columns.times,
        content_ids,
        [KINDS[kind] for kind in columns.kinds],
        _group_blobs(columns.blob_counts, blobs),
        _slice_targets(columns),
        strict=False,
    )
    return list(map(_new_entry, rows))


def _flatten_blobs(
    columns: Columns, content_ids: Sequence[bytes], sizes: Sequence[int]
) -> tuple[Sequence[bytes], Sequence[int]]:
    """Return id and size of every blob; the only blob of a file has those of the file and is not listed again."""
    if min(columns.blob_counts) == max(columns.blob_counts) == 1:
        return content_ids, sizes
    chunk_ids = cut_ids(columns.chunk_ids)
    flat_ids: list[bytes] = []
    flat_sizes: list[int] = []
    taken = 0
    for blob_count, content_id, size in zip(columns.blob_counts, content_ids, sizes, strict=True):
        if blob_count == 1:
            flat_ids.append(content_id)
            flat_sizes.append(size)
        elif blob_count:
            flat_ids += chunk_ids[taken : taken + blob_count]
            flat_sizes += columns.chunk_sizes[taken : taken + blob_count]
            taken += blob_count
    return flat_ids, flat_sizes


def _group_blobs(blob_counts: Sequence[int], blobs: list[BlobRef]) -> Iterable[tuple[BlobRef, ...]]:
    if min(blob_counts) == max(blob_counts) == 1:
        return zip(blobs, strict=True)
    ends = list(accumulate(blob_counts))
    return [tuple(blobs[start:end]) for start, end in zip(chain((0,), ends), ends, strict=False)]


def _slice_targets(columns: Columns) -> Iterable[bytes]:
    if not columns.targets:
        return repeat(b"")
    lengths = [size if kind else 0 for kind, size in zip(columns.kinds, columns.sizes, strict=True)]
    ends = list(accumulate(lengths))
    return [columns.targets[start:end] for start, end in zip(chain((0,), ends), ends, strict=False)]


def cut_ids(raw: bytes) -> list[bytes]:
    """Return ids that stand one after another."""
    return [raw[start : start + ID_BYTES] for start in range(0, len(raw), ID_BYTES)]
