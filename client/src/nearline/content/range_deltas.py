"""A range stored as what it changes of another one: a commit of few files then costs few bytes of manifests.

Its id is that of the whole range, so trees, roots and all that compares them know nothing of it. Here is the one place
where the stored object of a range becomes its entries. docs/reference/format.md has the layout byte by byte.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TypeAlias

from nearline.content.entries import Entry
from nearline.content.errors import BadManifest
from nearline.content.hashing import ALGORITHM
from nearline.content.range_codec import (
    MAGIC,
    MAX_RANGE_ENTRIES,
    ColumnReader,
    build_range,
    check_range_entries,
    identify_range,
    pack_numbers,
    read_columns,
    read_range,
    write_column,
)
from nearline.content.range_entries import RangeEntries

DELTA_VERSION = 2
# Writers base deltas on whole ranges only. But two clients may send one range in both ways at once, and the later
# object stays: what was whole when another range was based on it may be a delta then.
MAX_DELTAS = 4
# A delta is worth reading two objects if it takes at most this part of the whole range.
_WORTHY_PART = 4

FindEntries: TypeAlias = Callable[[str], RangeEntries | None]
KeepEntries: TypeAlias = Callable[[str, RangeEntries, bytes], object]

# Magic, version, algorithm, flags; id of the base, number of its entries that are left out.
_HEADER = Struct("<4sBBH32sI")


def encode_short_delta(base_id: str, base: RangeEntries, entries: Sequence[Entry], whole: bytes) -> bytes | None:
    """Return the object that makes a range of `base`; None where it is not much shorter than the `whole` object."""
    if abs(len(base) - len(entries)) * _WORTHY_PART > len(entries):
        return None
    data = encode_delta(base_id, base, entries)
    return data if len(data) * _WORTHY_PART <= len(whole) else None


def encode_delta(base_id: str, base: RangeEntries, entries: Sequence[Entry]) -> bytes:
    """Return the object that makes a range with these entries, which are those of a range, of `base`."""
    added, removed = _compare(base, entries)
    header = _HEADER.pack(MAGIC, DELTA_VERSION, ALGORITHM, 0, bytes.fromhex(base_id), len(removed))
    column = write_column(pack_numbers("I", removed), is_compressed=True)
    return b"".join([header, column, build_range(added).data if added else b""])


def find_base(data: bytes) -> str | None:
    """Return the id of the range that a stored object changes; None for a whole range, or what is none at all."""
    if len(data) < _HEADER.size:
        return None
    magic, version, algorithm, flags, base_id, _ = _HEADER.unpack_from(data)
    is_delta = (magic, version, algorithm, flags) == (MAGIC, DELTA_VERSION, ALGORITHM, 0)
    return bytes(base_id).hex() if is_delta else None


def forget_entries(range_id: str, entries: RangeEntries, data: bytes) -> None:
    """Keep nothing of a range that was read."""


def load_range(
    range_id: str,
    get: Callable[[str], bytes],
    *,
    find: FindEntries = lambda _: None,
    keep: KeepEntries = forget_entries,
    is_verified: bool = False,
    most_deltas: int = MAX_DELTAS,
) -> RangeEntries:
    """Return the entries of a range from its stored object and, if it is a delta, from those of its bases.

    `get` gives the object of a range, `find` the verified entries of a base that is at hand. `keep` is given what was
    read of this range and of its bases: verified entries, and the object. With `is_verified`, what a range with this id
    was checked for before is not checked again, as in `read_range`. Raises BadPath or BadManifest, also when the
    entries have another id, and what `get` raises.
    """
    deltas: list[tuple[str, bytes]] = []
    entries: RangeEntries | None = None
    next_id = range_id
    while entries is None:
        data = get(next_id)
        base_id = find_base(data)
        if base_id is None:
            decoded = read_range(data, is_verified=is_verified)
            _check_id(next_id, decoded.range_id)
            entries = decoded.entries
            keep(next_id, entries, data)
        else:
            if len(deltas) == most_deltas:
                raise BadManifest(f"The range {range_id[:12]} is based on a range that is a delta itself.")
            deltas.append((next_id, data))
            next_id = base_id
            entries = find(next_id)
    whole_id = entries.base_id or next_id
    for id_, data in reversed(deltas):
        entries = _apply(whole_id, entries, data, is_verified=is_verified)
        if not is_verified:
            check_range_entries(entries)
        _check_id(id_, identify_range(entries))
        keep(id_, entries, data)
    return entries


def _check_id(expected: str, actual: str) -> None:
    if actual != expected:
        raise BadManifest(f"These bytes are not the range {expected[:12]}.")


def _compare(base: RangeEntries, entries: Sequence[Entry]) -> tuple[list[Entry], list[int]]:
    """Return the entries that the base does not have, and the numbers of those of its own whose paths are gone."""
    is_plain = base.is_plain and isinstance(entries, RangeEntries) and entries.is_plain
    if is_plain and isinstance(entries, RangeEntries) and base.has_paths_of(entries):
        return [entries[index] for index in base.find_differing(entries, is_exact=True)], []
    known = dict(zip(base.paths, base, strict=True))
    paths = {entry.path for entry in entries}
    added = [entry for entry in entries if known.get(entry.path) != entry]
    return added, [index for index, path in enumerate(base.paths) if path not in paths]


def _apply(whole_id: str, base: RangeEntries, data: bytes, *, is_verified: bool) -> RangeEntries:
    """Return the entries that a delta makes of those of its base; `whole_id` is the range that all begins with."""
    *_, count = _HEADER.unpack_from(data)
    if count > len(base):
        raise BadManifest("This delta leaves out more entries than its base has.")
    reader = ColumnReader(data, _HEADER.size)
    removed = list(reader.read_numbers("I", count))
    if removed != sorted(set(removed)) or (removed and removed[-1] >= len(base)):
        raise BadManifest("This delta leaves out entries that its base does not have, or not in order.")
    dropped = set(removed)
    rest = reader.rest()
    added = read_range(rest, is_verified=is_verified).entries if rest else None
    added_paths = added.paths if added is not None else ()
    paths = base.paths
    places = [bisect_left(paths, path) for path in added_paths]
    changed = {place for place, path in zip(places, added_paths, strict=True) if paths[place : place + 1] == [path]}
    if not changed.isdisjoint(dropped):
        raise BadManifest("This delta leaves out an entry that it has too.")
    dropped |= changed
    length = len(base) - len(dropped) + (len(added) if added is not None else 0)
    if not 0 < length <= MAX_RANGE_ENTRIES:
        raise BadManifest(f"A manifest range has 1 to {MAX_RANGE_ENTRIES} entries, not {length}.")
    if base.is_plain and added is not None and added.is_plain:
        if len(changed) == len(added) and not removed:
            return base.with_changed(places, added, base_id=whole_id)
        return base.merge_plain(dropped, added, base_id=whole_id)
    entries = [entry for index, entry in enumerate(base) if index not in dropped]
    entries += added or ()
    entries.sort(key=lambda entry: entry.path)
    return RangeEntries(read_columns(entries), base_id=whole_id)
