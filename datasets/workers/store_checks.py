"""Whether a store holds what its datasets need: in levels, from a listing to every byte.

The database is asked for one thing: where the sources of files lie that were imported in place.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from datasets.engine.layout import pack_key, range_key, root_key
from datasets.engine.ports import BlobStore
from datasets.errors import SourceOnSite, SourceUnreachable
from datasets.selectors.damage import find_damaged_parts, overlaps
from datasets.workers.stored_datasets import StoredDataset, find_owner, list_objects
from nearline.content.manifest import RootRange

_NAMED_FILES: Final = 20
_Parts = Sequence[tuple[int, int]]


class Level(StrEnum):
    """How much is read. Each level does what those before it do.

    `objects`: records, commits and roots are read and compared with their hashes; their ranges are in the listing.
    `manifests`: ranges are read and compared with their hashes; the packs that they name are there and long enough.
    `packs`: every byte of these packs is read and compared with their hashes.
    """

    OBJECTS = "objects"
    MANIFESTS = "manifests"
    PACKS = "packs"


@dataclass
class Damage:
    """An object that is not what it should be, and what needs it: trees by their labels, and files of theirs."""

    key: str
    why: str
    trees: list[str] = field(default_factory=list)
    files: list[bytes] = field(default_factory=list)
    file_count: int = 0


@dataclass(frozen=True)
class DatasetReport:
    """What was looked at of one dataset. `packs` and `pack_bytes` are what its trees need; 0 at the first level."""

    id: str
    name: str
    is_internal: bool
    trees: int
    ranges: int
    packs: int
    pack_bytes: int
    damages: Sequence[Damage]


def check_store(store: BlobStore, level: Level) -> Iterator[DatasetReport]:
    """Yield what was found of each dataset that was not deleted. Raises StoreUnreachable."""
    everything = [StoredDataset(store, id_, objects) for id_, objects in sorted(list_objects(store).items())]
    packs = _Packs(everything)
    for stored in everything:
        if not stored.is_deleted:
            yield _Check(stored, packs, level).run()


class _Packs:
    """The packs of a store, each of which is read once however many datasets need it."""

    def __init__(self, everything: Iterable[StoredDataset]) -> None:
        self._internal = [stored for stored in everything if stored.is_internal]
        self._damaged: dict[tuple[str, str], _Parts] = {}

    def find_owner(self, name: str, stored: StoredDataset) -> StoredDataset | None:
        """Return the dataset under which the pack lies that `stored` needs; None when no one has it."""
        return find_owner(name, stored, self._internal)

    def find_damage(self, name: str, owner: StoredDataset) -> _Parts:
        """Return the damaged parts of a pack; none when it is whole."""
        key = (owner.id, name)
        if key not in self._damaged:
            self._damaged[key] = find_damaged_parts(owner.store, name, owner.objects.packs[name])
        return self._damaged[key]


class _Check:
    """Checks one dataset."""

    def __init__(self, stored: StoredDataset, packs: _Packs, level: Level) -> None:
        self._stored = stored
        self._packs = packs
        self._level = level
        self._damages: dict[str, Damage] = {}
        self._rows: dict[str, RootRange] = {}
        self._users: defaultdict[str, list[str]] = defaultdict(list)
        self._reach: dict[str, int] = {}
        self._ranges_of: defaultdict[str, list[str]] = defaultdict(list)

    def run(self) -> DatasetReport:
        """Return what was found."""
        trees = self._stored.list_trees()
        for tree in trees:
            rows = self._stored.read_root(tree.root)
            if rows is None:
                self._note(root_key(tree.root), trees=[tree.label])
            for row in rows or ():
                self._rows[row.range_id] = row
                self._users[row.range_id].append(tree.label)
        for row in self._rows.values():
            self._check_range(row)
        pack_bytes = sum(self._check_pack(name, end) for name, end in sorted(self._reach.items()))
        for key in self._stored.faults:
            self._note(key)
        damages = [self._damages[key] for key in sorted(self._damages)]
        return DatasetReport(
            self._stored.id,
            self._stored.name,
            self._stored.is_internal,
            len(trees),
            len(self._rows),
            len(self._reach),
            pack_bytes,
            damages,
        )

    def _check_range(self, row: RootRange) -> None:
        key = range_key(row.range_id)
        if not self._stored.has_range(row.range_id):
            self._stored.faults[key] = "is missing"
        elif self._level != Level.OBJECTS and (entries := self._stored.read_range(row)) is not None:
            for pack, end in entries.pack_ends().items():
                self._reach[pack.hex()] = max(self._reach.get(pack.hex(), 0), end)
                self._ranges_of[pack.hex()].append(row.range_id)
        if key in self._stored.faults:
            damage = self._note(key, trees=self._users[row.range_id])
            damage.files, damage.file_count = [row.first_path, row.last_path][: row.files], row.files

    def _check_pack(self, name: str, end: int) -> int:
        """Return the size of a pack, and note what is wrong with it."""
        owner = self._packs.find_owner(name, self._stored)
        size = owner.objects.packs[name] if owner else 0
        if owner is None:
            self._note_pack(name, "is missing", [(0, end)])
        elif size < end:
            self._note_pack(name, f"is too short: {size} bytes", [(size, end - size)])
        elif self._level == Level.PACKS:
            self._check_bytes(name, owner)
        return size

    def _check_bytes(self, name: str, owner: StoredDataset) -> None:
        try:
            if parts := self._packs.find_damage(name, owner):
                self._note_pack(name, "is damaged: its bytes are not those of its name", parts)
        except (SourceOnSite, SourceUnreachable) as error:
            self._note_pack(name, f"cannot be read: {error.message}", [(0, owner.objects.packs[name])])

    def _note_pack(self, name: str, why: str, parts: _Parts) -> None:
        self._stored.faults[pack_key(name)] = why
        pack = bytes.fromhex(name)
        for range_id in self._ranges_of[name]:
            entries = self._stored.read_range(self._rows[range_id]) or ()
            files = [
                entry.path
                for entry in entries
                if any(blob.pack == pack and overlaps(blob, parts) for blob in entry.blobs)
            ]
            if files:
                damage = self._note(pack_key(name), trees=self._users[range_id])
                damage.files = [*damage.files, *files][:_NAMED_FILES]
                damage.file_count += len(files)

    def _note(self, key: str, *, trees: Iterable[str] = ()) -> Damage:
        damage = self._damages.setdefault(key, Damage(key, self._stored.faults[key]))
        damage.trees += [label for label in trees if label not in damage.trees]
        return damage
