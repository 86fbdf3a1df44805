"""What a store holds of each dataset, read without the database: everything is checked against its name.

The database is asked for one thing: where the sources lie that hold the content of packs which have only a map.

What is damaged or missing is noted as a fault and left out, so that one bad object hides no other. A listing of some
stores lags behind what they hold (StorageGRID, at its weaker consistencies). So what another object names is looked for
by its key before it counts as missing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from datasets.adapters.opening import open_source
from datasets.adapters.scoped import MappedPacks, ScopedStore
from datasets.engine.layout import (
    CommitRecord,
    DatasetRecord,
    commit_key,
    dataset_of_key,
    dataset_prefix,
    map_key,
    pack_key,
    range_key,
    record_key,
    root_key,
)
from datasets.engine.ports import BlobStore, SourceFiles
from datasets.errors import BlobMissing, ContentCorrupt, SourceUnreachable
from datasets.models import FileSource
from nearline.content.errors import ContentError
from nearline.content.manifest import RangeEntries, RootRange, check_range, decode_root, load_range, root_id
from nearline.content.pack_maps import PackMap

_VERSIONS_AHEAD = 1000
"""So many versions of a record are looked for after one that was listed and is gone: it was replaced since."""
_COMMITS, _MAPS, _PACKS, _RANGES, _RECORDS, _ROOTS = "commits", "maps", "packs", "ranges", "records", "roots"


@dataclass(frozen=True)
class Objects:
    """The objects of one dataset by kind: the last part of their keys, and of packs also their bytes."""

    commits: set[str] = field(default_factory=set)
    maps: set[str] = field(default_factory=set)
    packs: dict[str, int] = field(default_factory=dict)
    ranges: set[str] = field(default_factory=set)
    records: set[str] = field(default_factory=set)
    roots: set[str] = field(default_factory=set)


def list_objects(store: BlobStore) -> dict[str, Objects]:
    """Return what there is of every dataset, by its id. One listing of the whole store."""
    objects_of: dict[str, Objects] = {}
    for blob in store.list_blobs("datasets/"):
        dataset_id, key = dataset_of_key(blob.key)
        kind, _, name = key.partition("/")
        objects = objects_of.setdefault(dataset_id, Objects())
        if kind == _PACKS:
            objects.packs[name.rpartition("/")[2]] = blob.size_bytes
        elif kind == _MAPS:
            objects.maps.add(name.rpartition("/")[2])
        elif kind in {_COMMITS, _RANGES, _RECORDS, _ROOTS}:
            getattr(objects, kind).add(name)
    return objects_of


@dataclass(frozen=True)
class StoredTreeRoot:
    """A tree of a dataset and what people call it: a commit, or a tree without one."""

    label: str
    root: str


class StoredDataset:
    """One dataset as its store has it. `faults` gathers what is wrong, by key. Raises StoreUnreachable only."""

    def __init__(self, store: BlobStore, dataset_id: str, objects: Objects) -> None:
        self.id = dataset_id
        self.objects = objects
        self.store = ScopedStore(store, dataset_prefix(dataset_id))
        self.faults: dict[str, str] = {}
        self.mapped = self._read_maps()
        origins = {pack_key(name): source["id"] for name, source in self.mapped.items()}
        packs = MappedPacks(dataset_id, self.store, origins, _open_source, "")
        self.store = ScopedStore(store, dataset_prefix(dataset_id), mapped=packs)
        self.record = self._read_record()
        self.commits = self._read_commits()
        self._roots: dict[str, Sequence[RootRange] | None] = {}

    @property
    def name(self) -> str:
        """What people call it: `project/name`, or its id where no record tells."""
        return f"{self.record.project_name}/{self.record.name}" if self.record else self.id

    @property
    def is_internal(self) -> bool:
        """Whether it holds trees that are no commits."""
        return self.record.is_internal if self.record else bool(self.objects.roots) and not self.objects.commits

    @property
    def is_deleted(self) -> bool:
        """Whether somebody deleted it for good."""
        record = self.record
        return record is not None and record.deleted_at_ms is not None and record.restore_ends_at_ms is None

    @property
    def heads(self) -> Mapping[str, str]:
        """The commit of each branch and tag that has one, by name."""
        if self.record is None:
            return {}
        return {name: head for name, head in {**self.record.tags, **self.record.branches}.items() if head}

    def list_trees(self) -> list[StoredTreeRoot]:
        """Return all trees: those of commits, each after its parent's, else all roots that there are."""
        if self.is_internal:
            return [StoredTreeRoot(f"stored tree {root[:8]}", root) for root in sorted(self.objects.roots)]
        names: dict[str, list[str]] = {}
        for name, head in sorted(self.heads.items()):
            names.setdefault(head, []).append(name)
        return [
            StoredTreeRoot(" ".join([f"commit {id_[:8]}", *(f"({name})" for name in names.get(id_, []))]), row.root)
            for id_, row in self.in_order()
        ]

    def in_order(self) -> Iterator[tuple[str, CommitRecord]]:
        """Yield the commits, each after those that it was made of."""
        done: set[str] = set()
        waiting = list(reversed(self.commits))
        while waiting:
            id_ = waiting[-1]
            if earlier := [one for one in self.commits[id_].parents if one in self.commits and one not in done]:
                waiting += earlier
                continue
            waiting.pop()
            if id_ not in done:
                done.add(id_)
                yield id_, self.commits[id_]

    def reached_from_heads(self) -> set[str]:
        """Return the commits that a branch or a tag leads to."""
        reached: set[str] = set()
        waiting = list(self.heads.values())
        while waiting:
            id_ = waiting.pop()
            if id_ in self.commits and id_ not in reached:
                reached.add(id_)
                waiting += self.commits[id_].parents
        return reached

    def has_range(self, range_id: str) -> bool:
        """Return whether a range is there."""
        if range_id not in self.objects.ranges and self.store.stat(range_key(range_id)) is not None:
            self.objects.ranges.add(range_id)
        return range_id in self.objects.ranges

    def has_pack(self, name: str) -> bool:
        """Return whether a pack is there, or a map of one."""
        if name not in self.objects.packs and (blob := self.store.stat(pack_key(name))) is not None:
            self.objects.packs[name] = blob.size_bytes
        return name in self.objects.packs

    def read_root(self, root: str) -> Sequence[RootRange] | None:
        """Return the ranges of a tree; None when that cannot be told."""
        if root not in self._roots:
            self._roots[root] = self._decode_root(root)
        return self._roots[root]

    def read_range(self, row: RootRange) -> RangeEntries | None:
        """Return the entries of a range; None when they cannot be told."""
        key = range_key(row.range_id)
        try:
            return check_range(row, load_range(row.range_id, lambda id_: self.store.get(range_key(id_))))
        except BlobMissing as error:
            is_here = self.has_range(row.range_id)
            self.faults[key] = f"is based on a missing range: {error.message}" if is_here else "is missing"
        except ContentError as error:
            self.faults[key] = f"is damaged: {error}"
        except ContentCorrupt as error:
            self.faults[key] = f"is damaged: {error.message}"
        return None

    def _read_maps(self) -> dict[str, Mapping[str, str]]:
        """Return of each pack that has only a map the source of its content, and count it among the packs."""
        mapped = {}
        for name in sorted(self.objects.maps - self.objects.packs.keys()):
            data = self._get(map_key(name))
            try:
                if data is not None:
                    pack_map = PackMap.decode(data)
                    self.objects.packs[name], mapped[name] = pack_map.size_bytes, pack_map.source
            except ValueError as error:
                self.faults[map_key(name)] = f"is damaged: {error}"
        return mapped

    def _decode_root(self, root: str) -> Sequence[RootRange] | None:
        key = root_key(root)
        data = self._get(key)
        if data is None:
            return None
        if root_id(data) != root:
            self.faults[key] = "is damaged: its bytes are not those of its id"
            return None
        try:
            return decode_root(data)
        except ContentError as error:
            self.faults[key] = f"is damaged: {error}"
            return None

    def _list_records(self) -> Iterator[str]:
        """Yield the versions of the record, the newest first, those that replaced a listed one among them."""
        listed = sorted(self.objects.records, reverse=True)
        if listed and listed[0].isdigit() and self.store.stat(record_key(int(listed[0]))) is None:
            later = range(int(listed[0]) + 1, int(listed[0]) + _VERSIONS_AHEAD)
            yield from (str(version) for version in later if self.store.stat(record_key(version)) is not None)
        yield from listed

    def _read_record(self) -> DatasetRecord | None:
        for version in self._list_records():
            key = record_key(int(version)) if version.isdigit() else f"records/{version}"
            data = self._get(key)
            try:
                if data is not None:
                    return DatasetRecord.decode(data)
            except (ValueError, TypeError, KeyError) as error:
                self.faults[key] = f"is damaged: {error}"
        return None

    def _read_commits(self) -> dict[str, CommitRecord]:
        read: dict[str, CommitRecord] = {}
        named = {head: f"is missing; '{name}' is there" for name, head in sorted(self.heads.items())}
        waiting, seen = [*named, *sorted(self.objects.commits)], set[str]()
        while waiting:
            id_ = waiting.pop()
            if id_ in seen:
                continue
            seen.add(id_)
            data = self._get(commit_key(id_))
            try:
                if data is not None:
                    read[id_] = CommitRecord.read(data, id_)
            except (ValueError, TypeError) as error:
                self.faults[commit_key(id_)] = f"is damaged: {error}"
            if id_ in read:
                named |= dict.fromkeys(read[id_].parents, f"is missing; the parent of {id_[:8]}")
                waiting += read[id_].parents
        for id_ in named.keys() - self.objects.commits - read.keys():
            self.faults[commit_key(id_)] = named[id_]
        return dict(sorted(read.items(), key=lambda item: (item[1].created_at_ms, item[0])))

    def _get(self, key: str) -> bytes | None:
        try:
            return self.store.get(key)
        except BlobMissing:
            self.faults[key] = "is missing"
        except ContentCorrupt as error:
            self.faults[key] = f"is damaged: {error.message}"
        return None


def _open_source(id_: str) -> SourceFiles:
    source = FileSource.objects.filter(pk=id_).first()
    if source is None:
        raise SourceUnreachable("A source that files were imported from in place is not registered.", source=id_)
    return open_source(source)


def find_owner(name: str, stored: StoredDataset, others: Iterable[StoredDataset]) -> StoredDataset | None:
    """Return what has a pack that a dataset needs: itself, or an internal one of its project; None when none has it."""
    project = stored.record.project if stored.record else None
    lenders = [
        other for other in others if other.is_internal and (other.record is None or other.record.project == project)
    ]
    listed = (one for one in (stored, *lenders) if name in one.objects.packs)
    return next(listed, None) or next((one for one in (stored, *lenders) if one.has_pack(name)), None)
