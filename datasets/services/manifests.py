"""Whether a root that a client uploaded may become a commit. Reads the store and keeps what it learnt about ranges.

A range is read once in its life: what was found is kept in `ManifestRange`, so a commit that shares nearly all of its
ranges with others costs only the new ones.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from django.db import transaction

from core import orm
from core.units import count_of
from datasets.adapters.opening import open_dataset_store
from datasets.adapters.scoped import ScopedStore
from datasets.engine import range_names
from datasets.engine.layout import range_key, root_key
from datasets.errors import BlobMissing, ManifestMissing, ManifestRejected, NameCollision, PackMissing
from datasets.models import PRESENT, Commit, Dataset, ManifestRange, Pack
from datasets.selectors.trees import TreeReader
from datasets.services import packs
from nearline.content.errors import ContentError
from nearline.content.manifest import (
    Entry,
    RangeEntries,
    RootRange,
    Tree,
    check_range,
    decode_root,
    load_range,
    root_id,
)
from nearline.content.paths import collision_details, describe_collisions, find_collisions
from nearline.content.range_deltas import MAX_DELTAS

# So many ranges are fetched ahead of the one being checked.
_FETCH_AHEAD = 4
_KEPT_AT_ONCE = 16
# Rows of a few kilobytes each.


@dataclass(frozen=True)
class CheckedTree:
    """A tree that may be committed: what its root says, and its totals.

    `changed` says of ranges that were read, each with the range of the parent that has the same paths, how many files
    differ.
    """

    ranges: Sequence[RootRange]
    changed: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def files(self) -> int:
        """Files in the whole tree."""
        return sum(row.files for row in self.ranges)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files of the tree."""
        return sum(row.size_bytes for row in self.ranges)


@dataclass(frozen=True)
class ReadRange:
    """What one new range says: its names, and how far into each pack its blobs reach.

    `twin` is the range of the parent that has the same paths, if there is one; then `changed` files differ.
    """

    row: RootRange
    names: bytes
    reach: dict[str, int]
    twin: str | None = None
    changed: int = 0


def check_tree(dataset: Dataset, root: str, *, parent: Commit | None = None) -> CheckedTree:
    """Read a root and those of its ranges that are new, and return the tree if it may be committed.

    What is known of the names in the ranges of `parent` is not worked out again where the names are the same.
    Raises ManifestRejected when something is damaged, out of order, illegal or missing, and PackMissing naming the
    packs that are not complete. Talks to the store, so it is called outside transactions.
    """
    store = open_dataset_store(dataset)
    ranges = _read_root(store, root)
    known = _known_ranges(dataset, ranges)
    missing: set[str] = set()
    changed: dict[tuple[str, str], int] = {}
    before = TreeReader(dataset).read_root(parent.root) if parent else []
    reading = _read_ranges(dataset, store, [row for row in ranges if row.range_id not in known], before)
    # What is right is kept part by part: a client that gave up waiting and asks again finds that much done.
    while read := list(islice(reading, _KEPT_AT_ONCE)):
        changed.update({(one.twin, one.row.range_id): one.changed for one in read if one.twin})
        reach = _reach_of(read)
        packs = find_packs(dataset, reach)
        missing |= set(reach) - set(packs)
        if not missing:
            keep_ranges(dataset, read, packs)
    if missing:
        raise PackMissing(f"The store misses {count_of(len(missing), 'pack')} of this commit.", packs=sorted(missing))
    return CheckedTree(ranges, changed)


def check_names(dataset: Dataset, tree: CheckedTree, *, parent: Commit | None, allow_collisions: bool) -> None:
    """Raise NameCollision, with all names, when new names of a checked tree cannot stand beside others everywhere.

    Names that differ only in case or Unicode form may be allowed; those that the parent has already were. A file that
    another file needs as its folder is never allowed.
    """
    reader = TreeReader(dataset)
    ids = [row.range_id for row in tree.ranges]
    parent_ids = [row.range_id for row in reader.read_root(parent.root)] if parent else []
    new_ids, gone_ids = set(ids).difference(parent_ids), set(parent_ids).difference(ids)
    names_of = _read_names(dataset, new_ids | gone_ids)
    if {names_of[range_id] for range_id in new_ids} <= {names_of.get(range_id) for range_id in gone_ids}:
        # As after most commits, which change what is in files: no name is new.
        return
    names_of |= _read_names(dataset, set(ids) - new_ids)
    before = [names_of[range_id] for range_id in parent_ids if range_id in names_of]
    suspects = range_names.find_suspects([names_of[range_id] for range_id in ids], before)
    if not suspects.hashes:
        return
    if allow_collisions and not suspects.is_complete:
        raise NameCollision(
            f"More than {range_names.MOST_SUSPECTS:,} names differ only in case or Unicode form: "
            "too many to be allowed."
        )
    paths: set[bytes] = set()
    for index, hashes in suspects.hashes.items():
        paths.update(range_names.paths_behind(reader.load_range(ids[index]), hashes))
    clashes = list(find_collisions(sorted(paths)))
    known = range_names.find_known({name for collision in clashes for name in collision.names}, before)
    refused = [
        collision
        for collision in clashes
        if collision.kind == "clash" or not (allow_collisions or known.issuperset(collision.names))
    ]
    if refused:
        is_complete = suspects.is_complete
        raise NameCollision(
            describe_collisions(refused, is_complete=is_complete),
            **collision_details(refused, is_complete=is_complete),
        )


def _read_names(dataset: Dataset, range_ids: Collection[str]) -> dict[str, bytes]:
    """Return the fingerprints of the names in ranges that were read, by the id of the range."""
    names_of: dict[str, bytes] = {}
    for batch in orm.in_batches(range_ids):
        rows = ManifestRange.objects.filter(dataset=dataset, range_id__in=batch)
        names_of.update((range_id, bytes(names)) for range_id, names in rows.values_list("range_id", "names"))
    return names_of


def put_tree(dataset: Dataset, tree: Tree) -> None:
    """Bring the manifests of a tree that was put together here into the store. Raises BadPath or BadManifest."""
    root, store, known = tree.root, open_dataset_store(dataset), set[str]()
    for batch in orm.in_batches(tree.objects):
        rows = ManifestRange.objects.filter(dataset=dataset, range_id__in=batch)
        known.update(rows.values_list("range_id", flat=True))
    for range_id, data in tree.shortest.items():
        # A known one is there. It may be whole and the base of others, so it is not replaced by a delta.
        if range_id not in known:
            store.put(range_key(range_id), data)
    store.put(root_key(root_id(root)), root)


def _read_root(store: ScopedStore, root: str) -> list[RootRange]:
    try:
        data = store.get(root_key(root))
    except BlobMissing as error:
        raise ManifestMissing(f"The root {root[:12]} was not uploaded.", root=root) from error
    if root_id(data) != root:
        raise ManifestRejected(f"What was uploaded as the root {root[:12]} is something else.", root=root)
    try:
        return decode_root(data)
    except ContentError as error:
        raise ManifestRejected(f"The root {root[:12]} is not valid: {error}", root=root) from error


def _known_ranges(dataset: Dataset, ranges: Sequence[RootRange]) -> set[str]:
    """Return the ids of ranges that were read before; what the root says about them must agree with what was found."""
    expected = {row.range_id: row for row in ranges}
    if len(expected) != len(ranges):
        raise ManifestRejected("The root lists the same range twice.")
    known = set()
    for batch in orm.in_batches(expected):
        for range_row in ManifestRange.objects.filter(dataset=dataset, range_id__in=batch).defer("names"):
            row = expected[range_row.range_id]
            stated = (row.first_path, row.last_path, row.files, row.size_bytes)
            summary = (bytes(range_row.first_path), bytes(range_row.last_path), range_row.files, range_row.size_bytes)
            if stated != summary:
                raise ManifestRejected(f"The root says something wrong about the range {row.range_id[:12]}.")
            known.add(range_row.range_id)
    return known


def _read_ranges(
    dataset: Dataset, store: ScopedStore, rows: Sequence[RootRange], before: Sequence[RootRange]
) -> Iterator[ReadRange]:
    reader = TreeReader(dataset)
    twins = {_span(row): row.range_id for row in before}
    waiting = iter(rows)
    with ThreadPoolExecutor(_FETCH_AHEAD, thread_name_prefix="ranges") as pool:

        def fetch(row: RootRange) -> tuple[RootRange, Future[bytes]]:
            return row, pool.submit(store.get, range_key(row.range_id))

        ahead = [fetch(row) for row in islice(waiting, _FETCH_AHEAD)]
        while ahead:
            row, future = ahead.pop(0)
            ahead += [fetch(later) for later in islice(waiting, 1)]
            twin = twins.get(_span(row))
            twin_entries = reader.load_range(twin) if twin else None
            entries = _read_range(dataset, store, reader, row, future, before=twin_entries)
            # A commit is searched soon after it was made, and what reads a range makes its paths.
            reader.keep_names(row.range_id, entries)
            reach = {pack.hex(): end for pack, end in entries.pack_ends().items()}
            if twin and twin_entries and twin_entries.has_paths_of(entries):
                names = _read_names(dataset, [twin]).get(twin) or range_names.fingerprints(entries)
                yield ReadRange(row, names, reach, twin, len(twin_entries.find_differing(entries)))
            else:
                yield ReadRange(row, range_names.fingerprints(entries), reach)


def _span(row: RootRange) -> tuple[bytes, bytes, int]:
    return row.first_path, row.last_path, row.files


def _read_range(
    dataset: Dataset,
    store: ScopedStore,
    reader: TreeReader,
    row: RootRange,
    data: Future[bytes],
    *,
    before: RangeEntries | None,
) -> RangeEntries:
    """Return the entries of a new range, all checked; `before` is a range that was, and stands in its place so far."""

    def get(name: str) -> bytes:
        return data.result() if name == row.range_id else store.get(range_key(name))

    def find(name: str) -> RangeEntries | None:
        # What a checked range is based on was checked with it, and is not again.
        is_checked = before is not None and name == before.base_id
        return reader.load_range(name) if is_checked else reader.find_kept(name)

    # The ranges of stored trees are collected one by one, so none may be needed by another.
    most_deltas = 0 if dataset.is_internal else MAX_DELTAS
    try:
        entries = check_range(
            row,
            load_range(
                row.range_id,
                get,
                find=find,
                keep=lambda id_, entries, _: reader.keep_range(id_, entries),
                most_deltas=most_deltas,
            ),
        )
    except BlobMissing as error:
        raise ManifestMissing(
            f"The range {row.range_id[:12]}, or one that it is based on, was not uploaded.", range=row.range_id
        ) from error
    except ContentError as error:
        raise ManifestRejected(f"The range {row.range_id[:12]} is not valid: {error}", range=row.range_id) from error
    return entries


def reach_of_entries(entries: Iterable[Entry]) -> dict[str, int]:
    """Return how far into each pack the blobs of these entries reach."""
    reach: dict[bytes, int] = {}
    for entry in entries:
        for blob in entry.blobs:
            reach[blob.pack] = max(reach.get(blob.pack, 0), blob.offset + blob.size)
    return {pack.hex(): end for pack, end in reach.items()}


def _reach_of(read: Iterable[ReadRange]) -> dict[str, int]:
    reach: dict[str, int] = {}
    for checked in read:
        for sha256, end in checked.reach.items():
            reach[sha256] = max(reach.get(sha256, 0), end)
    return reach


def find_packs(dataset: Dataset, reach: dict[str, int]) -> dict[str, Pack]:
    """Return those of the packs that are present. Raises ManifestRejected when a blob lies past the end of one."""
    packs: dict[str, Pack] = {}
    for batch in orm.in_batches(reach):
        present = Pack.objects.filter(dataset=dataset, sha256__in=batch, state__in=PRESENT)
        packs.update((pack.sha256, pack) for pack in present)
    for sha256, pack in packs.items():
        if reach[sha256] > pack.size_bytes:
            raise ManifestRejected(f"A file is said to lie past the end of the pack {sha256[:12]}.", pack=sha256)
    return packs


@transaction.atomic
def keep_ranges(
    dataset: Dataset, read: Sequence[ReadRange], found_packs: dict[str, Pack], *, is_committed: bool = False
) -> None:
    """Note ranges that were found right, with their packs. Raises PackMissing when one is not present any more."""
    # A range must never be known without its packs: who came across it later would take them for present.
    packs.lock_present(found_packs.values())
    rows = [
        ManifestRange(
            dataset=dataset,
            range_id=checked.row.range_id,
            first_path=checked.row.first_path,
            last_path=checked.row.last_path,
            files=checked.row.files,
            size_bytes=checked.row.size_bytes,
            names=checked.names,
            is_committed=is_committed,
        )
        for checked in read
    ]
    ManifestRange.objects.bulk_create(rows, ignore_conflicts=True, batch_size=orm.BATCH_ROWS)
    # Another commit may have kept some of them at the same time, under ids of its own.
    ids: dict[str, str] = {}
    for batch in orm.in_batches(checked.row.range_id for checked in read):
        ids.update(ManifestRange.objects.filter(dataset=dataset, range_id__in=batch).values_list("range_id", "pk"))
    link = ManifestRange.packs.through
    links = [
        link(manifestrange_id=ids[checked.row.range_id], pack_id=found_packs[sha256].pk)
        for checked in read
        for sha256 in sorted(checked.reach)
    ]
    link.objects.bulk_create(links, ignore_conflicts=True, batch_size=orm.BATCH_ROWS)
