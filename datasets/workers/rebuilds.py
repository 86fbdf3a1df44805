"""Rebuilds the rows of datasets from their store: projects, datasets, branches, tags, commits, packs, stored trees.

Nothing in the store is changed, but that a folder without a mark gets one. A dataset has the version 0 while it is
rebuilt; a run that broke off is taken up by the next one, and a dataset that is complete is left alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Final

import structlog
from django.db import transaction

from accounts import audit
from accounts.permissions import Actor
from accounts.services import projects
from core import clock, orm
from core.errors import PlatformError
from datasets.adapters.opening import open_store
from datasets.engine import range_names
from datasets.engine.layout import CommitRecord
from datasets.errors import DatasetExists
from datasets.models import (
    PRESENT,
    Branch,
    Commit,
    CommitSource,
    Dataset,
    FileSource,
    ImportState,
    InPlaceImport,
    ManifestRange,
    Pack,
    PackState,
    Query,
    Store,
    StoredTree,
    StoreKind,
    Tag,
    TreeHold,
)
from datasets.selectors import files
from datasets.selectors.trees import TreeReader
from datasets.services import manifests, stores
from datasets.services.datasets import MAIN
from datasets.services.manifests import ReadRange
from datasets.services.trees import INTERNAL_NAME
from datasets.workers.stored_datasets import StoredDataset, find_owner, list_objects
from nearline.content.manifest import RootRange
from nearline.content.packs import MAX_PACK_BYTES

log = structlog.get_logger(__name__)

HOLDER: Final = "rebuild/"
"""How the holders of stored trees begin that were rebuilt: the jobs that had left them are not known any more."""
_UNREADABLE: Final = "unreadable"
_RANGES_AT_ONCE: Final = 16
# The index of a pack that holds one blob: a pack is at least so much longer than what is known of its content.
_LEAST_INDEX_BYTES: Final = 48
_SYSTEM: Final = "rebuild"


@dataclass
class Rebuilt:
    """What came of one dataset. `error`: why it was not rebuilt; `notes`: what somebody should know."""

    id: str
    name: str
    commits: int = 0
    trees: int = 0
    is_new: bool = True
    error: str = ""
    notes: list[str] = field(default_factory=list)


def rebuild_store(store: Store) -> Iterator[Rebuilt]:
    """Rebuild every dataset of a store and yield what came of each. Raises StoreUnreachable for the listing.

    Whoever asks for it says that the folder of a folder store is the right one, whatever its mark.
    """
    if store.kind == StoreKind.FOLDER:
        stores.adopt_folder(actor=Actor.system(_SYSTEM), store=store)
    adapter = open_store(store)
    stored_datasets = [StoredDataset(adapter, id_, objects) for id_, objects in sorted(list_objects(adapter).items())]
    internal = [stored for stored in stored_datasets if stored.is_internal]
    failed: set[str] = set()
    # Datasets borrow packs from the internal one of their project, whose rows must be there first.
    for stored in [*internal, *(stored for stored in stored_datasets if not stored.is_internal)]:
        result = Rebuilt(stored.id, stored.name)
        project = stored.record.project if stored.record else ""
        try:
            if project in failed:
                raise DatasetExists("It may need packs of the stored trees of its project, which were not rebuilt.")
            _Rebuild(store, stored, internal, result).run()
        except PlatformError as error:
            log.warning("rebuild.failed", dataset_id=stored.id, exc_info=True)
            result.error = error.message
            failed.update([project] if stored.is_internal else ())
        yield result


def release_trees() -> int:
    """Let go of the stored trees that were rebuilt: those that nothing else holds leave with the next garbage."""
    released, _ = TreeHold.objects.filter(holder__startswith=HOLDER).delete()
    return released


class _Rebuild:
    """Rebuilds one dataset."""

    def __init__(self, store: Store, stored: StoredDataset, internal: Sequence[StoredDataset], result: Rebuilt) -> None:
        self._store = store
        self._stored = stored
        self._internal = internal
        self._result = result
        self._is_readable = True

    def run(self) -> None:
        """Rebuild it. Raises DatasetExists when another one has its place, and StoreUnreachable."""
        stored, result = self._stored, self._result
        known = Dataset.objects.filter(pk=stored.id).first()
        if known is not None and known.state_version:
            result.is_new = False
            if stored.record is not None and stored.record.version > known.state_version:
                result.notes.append("The store has a newer record of it than the database, which was left as it is.")
            return
        if stored.is_deleted or not (stored.record or stored.commits or stored.is_internal):
            result.is_new = False
            result.notes.append("It was deleted." if stored.is_deleted else "It holds nothing but unfinished uploads.")
            return
        dataset = known or self._create_dataset()
        self._add_packs(dataset)
        self._add_ranges(dataset)
        if stored.is_internal:
            self._add_trees(dataset)
        else:
            self._add_commits(dataset)
        self._finish(dataset)

    def _create_dataset(self) -> Dataset:
        record, id_ = self._stored.record, self._stored.id
        actor = Actor.system(_SYSTEM)
        with transaction.atomic():
            project = projects.restore_project(
                actor=actor,
                project_id=record.project if record else f"proj_{id_.partition('_')[2]}",
                name=record.project_name if record else _name_of(id_),
            )
            is_internal = self._stored.is_internal
            if is_internal and Dataset.objects.filter(project=project, is_internal=True, deleted_at=None).exists():
                raise DatasetExists(f"{project.name} holds stored trees that are not those of the store already.")
            name = INTERNAL_NAME if is_internal else record.name if record else _name_of(id_)
            deleted_at_ms = record.deleted_at_ms if record else None
            until_ms = record.restore_ends_at_ms if record else None
            if until_ms is not None:
                self._result.notes.append(f"It was deleted, and can be restored until {_moment(until_ms):%Y-%m-%d}.")
            elif Dataset.objects.filter(project=project, name=name, deleted_at=None).exists():
                self._result.notes.append(f"'{name}' is taken, so it is called '{_name_of(id_)}'.")
                name = _name_of(id_)
            return Dataset.objects.create(
                id=id_,
                project=project,
                name=name,
                description=record.description if record else "",
                kind=record.kind if record else "general",
                is_internal=is_internal,
                default_branch=record.default_branch if record else MAIN,
                idle_days=record.idle_days if record else None,
                created_at=_moment(record.created_at_ms) if record else clock.now(),
                deleted_at=None if deleted_at_ms is None else _moment(deleted_at_ms),
                restore_ends_at=None if until_ms is None else _moment(until_ms),
                store=self._store,
                state_version=0,
            )

    def _add_packs(self, dataset: Dataset) -> None:
        # A run that broke off long ago left packs that seemed to be of no use since.
        rows = Pack.objects.filter(dataset=dataset)
        rows.filter(state=PackState.CONDEMNED).update(state=PackState.COMPLETE, due_at=None)
        rows.update(touched_at=clock.now())
        packs = [
            Pack(dataset=dataset, sha256=name, size_bytes=size, state=PackState.COMPLETE)
            for name, size in sorted(self._stored.objects.packs.items())
            if 0 < size <= MAX_PACK_BYTES
        ]
        origins = {id_: self._restore_import(dataset, source) for id_, source in self._list_sources().items()}
        for pack in packs:
            if source := self._stored.mapped.get(pack.sha256):
                pack.origin = origins[source["id"]]
        Pack.objects.bulk_create(packs, ignore_conflicts=True, batch_size=orm.BATCH_ROWS)

    def _list_sources(self) -> Mapping[str, Mapping[str, str]]:
        return {source["id"]: source for source in self._stored.mapped.values()}

    def _restore_import(self, dataset: Dataset, source: Mapping[str, str]) -> InPlaceImport:
        """Return a row that stands for all imports from a source, which nobody may use until an admin permits it."""
        row = FileSource.objects.filter(pk=source["id"]).first()
        if row is None:
            name = source["name"]
            if FileSource.objects.filter(name=name).exists():
                name = _name_of(source["id"])
            values = {"kind": source["kind"], "location": source["location"]}
            row = FileSource.objects.create(id=source["id"], name=name, **values)
        self._result.notes.append(
            f"Files lie in the source '{row.name}' at {row.location}. See `nearline source set`: keys are not restored."
        )
        restored, _ = InPlaceImport.objects.get_or_create(
            dataset=dataset,
            source=row,
            defaults={
                "message": "Rebuilt from the store",
                "branch": dataset.default_branch,
                "state": ImportState.REFERENCED,
            },
        )
        return restored

    def _add_ranges(self, dataset: Dataset) -> None:
        reading = self._read_ranges(dataset)
        while read := list(islice(reading, _RANGES_AT_ONCE)):
            reach: dict[str, int] = {}
            for one in read:
                for name, end in one.reach.items():
                    reach[name] = max(reach.get(name, 0), end)
            manifests.keep_ranges(dataset, read, self._find_packs(dataset, reach), is_committed=True)
        if not self._is_readable:
            self._keep_all_packs(dataset)

    def _read_ranges(self, dataset: Dataset) -> Iterator[ReadRange]:
        known = set(ManifestRange.objects.filter(dataset=dataset).values_list("range_id", flat=True))
        for tree in self._stored.list_trees():
            rows = self._stored.read_root(tree.root)
            if rows is None:
                self._is_readable = False
            for row in rows or ():
                if row.range_id in known:
                    continue
                known.add(row.range_id)
                entries = self._stored.read_range(row)
                if entries is None:
                    self._is_readable = False
                else:
                    reach = {pack.hex(): end for pack, end in entries.pack_ends().items()}
                    yield ReadRange(row, range_names.fingerprints(entries), reach)

    def _find_packs(self, dataset: Dataset, reach: dict[str, int]) -> dict[str, Pack]:
        """Return the rows of packs: the dataset's own, those that it borrows, and those that are missing as damaged."""
        packs: dict[str, Pack] = {}
        for batch in orm.in_batches(reach):
            rows = Pack.objects.filter(dataset=dataset, sha256__in=batch, state__in=PRESENT)
            packs.update((pack.sha256, pack) for pack in rows)
        for name in sorted(reach.keys() - packs.keys()):
            owner = find_owner(name, self._stored, self._internal)
            row = owner and self._row_of(name, owner)
            if row and row.dataset_id == dataset.pk:
                packs[name] = row
                continue
            if row:
                values = {"size_bytes": row.size_bytes, "state": row.state, "lender": row}
            else:
                size = reach[name] + _LEAST_INDEX_BYTES
                values = {"size_bytes": size, "state": PackState.DAMAGED, "damaged_parts": [(0, size)]}
            packs[name] = Pack.objects.create(dataset=dataset, sha256=name, **values)
        for name, pack in packs.items():
            if pack.state == PackState.COMPLETE and pack.size_bytes < reach[name]:
                Pack.objects.filter(pk=pack.pk).update(state=PackState.DAMAGED, damaged_parts=[(0, reach[name])])
        return packs

    def _row_of(self, name: str, owner: StoredDataset) -> Pack | None:
        """Return the row of a pack that is there, made where the listing did not show it yet; None if it is no pack."""
        size = owner.objects.packs[name]
        if 0 < size <= MAX_PACK_BYTES:
            defaults = {"size_bytes": size, "state": PackState.COMPLETE}
            Pack.objects.get_or_create(dataset_id=owner.id, sha256=name, defaults=defaults)
        return Pack.objects.filter(dataset=owner.id, sha256=name, state__in=PRESENT).first()

    def _keep_all_packs(self, dataset: Dataset) -> None:
        """Let a row in place of what cannot be read refer to all packs that nothing else does: it may need them."""
        self._result.notes.append(
            "Some manifests cannot be read. All packs are kept; `manage.py fsck` names the files."
        )
        with transaction.atomic():
            row, _ = ManifestRange.objects.get_or_create(
                dataset=dataset,
                range_id=_UNREADABLE,
                defaults={"first_path": b"", "last_path": b"", "files": 0, "size_bytes": 0, "is_committed": True},
            )
            for batch in orm.in_batches(list(Pack.objects.filter(dataset=dataset).exclude(ranges__is_committed=True))):
                row.packs.add(*batch)

    def _add_trees(self, dataset: Dataset) -> None:
        for tree in self._stored.list_trees():
            rows = self._stored.read_root(tree.root)
            if rows is not None:
                self._keep_tree(dataset, tree.root, rows, [row.range_id for row in rows])
                self._result.trees += 1
        if not self._is_readable:
            self._keep_tree(dataset, _UNREADABLE, [], [_UNREADABLE])

    @transaction.atomic
    def _keep_tree(self, dataset: Dataset, root: str, rows: Sequence[RootRange], range_ids: Sequence[str]) -> None:
        facts = {"files": sum(row.files for row in rows), "size_bytes": sum(row.size_bytes for row in rows)}
        tree, _ = StoredTree.objects.get_or_create(dataset=dataset, root=root, defaults=facts)
        for batch in orm.in_batches(range_ids):
            tree.ranges.add(*ManifestRange.objects.filter(dataset=dataset, range_id__in=batch))
        TreeHold.objects.get_or_create(holder=f"{HOLDER}{tree.pk}", defaults={"tree": tree})

    def _add_commits(self, dataset: Dataset) -> None:
        reached = self._stored.reached_from_heads() if self._stored.record else set(self._stored.commits)
        known = set(Commit.objects.filter(dataset=dataset).values_list("pk", flat=True))
        for id_, record in self._stored.in_order():
            if id_ not in known:
                parent = record.parent if record.parent in known else None
                rows = self._stored.read_root(record.root)
                if id_ not in reached and not self._is_whole(dataset, rows):
                    self._result.notes.append(f"The commit {id_[:8]}, which is on no branch, is not complete.")
                    continue
                # Whoever the author is called like now may be somebody else, so the name alone comes back.
                added, removed, changed = self._count_changes(dataset, parent, rows)
                Commit(
                    id=id_,
                    dataset=dataset,
                    parent_id=parent,
                    merged_id=record.merged if record.merged in known else None,
                    root=record.root,
                    message=record.message,
                    author_name=record.author[:200],
                    source=record.source,
                    created_at=_moment(record.created_at_ms),
                    files=sum(row.files for row in rows or ()),
                    size_bytes=sum(row.size_bytes for row in rows or ()),
                    added=added,
                    removed=removed,
                    changed=changed,
                ).save(force_insert=True)
                known.add(id_)
            self._result.commits += 1

    def _is_whole(self, dataset: Dataset, rows: Sequence[RootRange] | None) -> bool:
        """Say whether everything of a tree is there. One that never became a commit may lack parts of it."""
        if rows is None:
            return False
        for batch in orm.in_batches(row.range_id for row in rows):
            known_rows = ManifestRange.objects.filter(dataset=dataset, range_id__in=batch)
            if (
                known_rows.count() != len(batch)
                or Pack.objects.filter(ranges__in=known_rows, state=PackState.DAMAGED).exists()
            ):
                return False
        return True

    def _count_changes(
        self, dataset: Dataset, parent: str | None, rows: Sequence[RootRange] | None
    ) -> tuple[int, int, int]:
        """Return the files added, removed and changed; zeros where that cannot be told."""
        before = self._stored.read_root(self._stored.commits[parent].root) if parent else ()
        if before is None or rows is None:
            return 0, 0, 0
        try:
            return files.count_changes(before, rows, TreeReader(dataset).load_range)
        except PlatformError:
            log.warning("rebuild.changes_unknown", dataset_id=dataset.pk, exc_info=True)
            return 0, 0, 0

    @transaction.atomic
    def _finish(self, dataset: Dataset) -> None:
        record = self._stored.record
        commits = set(Commit.objects.filter(dataset=dataset).values_list("pk", flat=True))
        heads = record.branches if record else {} if self._stored.is_internal else {MAIN: self._find_newest()}
        for name, head in sorted(heads.items(), key=lambda item: (item[0] != dataset.default_branch, item[0])):
            if head and head not in commits:
                self._result.notes.append(f"The branch '{name}' was at {head[:8]}, which cannot be read: it is empty.")
            head_id = head if head in commits else None
            Branch.objects.get_or_create(dataset=dataset, name=name, defaults={"head_id": head_id})
        for name, id_ in sorted(record.tags.items() if record else ()):
            if id_ in commits:
                Tag.objects.get_or_create(dataset=dataset, name=name, defaults={"commit_id": id_})
            else:
                self._result.notes.append(f"The tag '{name}' was at {id_[:8]}, which cannot be read: it is left out.")
        for name, facts in sorted(record.queries.items() if record else ()):
            Query.objects.get_or_create(dataset=dataset, name=name, defaults=facts)
        self._name_followers(record_heads=set(heads.values()), commits=commits)
        # Without a record the next run of the task writes one.
        version = record.version if record else 0
        Dataset.objects.filter(pk=dataset.pk).update(state_version=version or 1, recorded_version=version)
        audit.record(
            Actor.system(_SYSTEM), "datasets.rebuild", dataset, project_id=dataset.project_id, commits=len(commits)
        )

    def _name_followers(self, *, record_heads: set[str | None], commits: set[str]) -> None:
        """Name commits that follow a head and are on no branch: the last ones may have been made after the record."""
        reached = self._stored.reached_from_heads()
        for id_, record in self._stored.commits.items():
            is_selection = record.source == CommitSource.QUERY
            if id_ in commits and id_ not in reached and record.parent in record_heads and not is_selection:
                self._result.notes.append(f"The commit {id_[:8]} follows the head of a branch and is on none.")

    def _find_newest(self) -> str | None:
        return max(self._stored.commits, key=self._age_of, default=None)

    def _age_of(self, id_: str) -> int:
        record: CommitRecord = self._stored.commits[id_]
        return record.created_at_ms


def _name_of(dataset_id: str) -> str:
    """Return a legal name that is made of an id."""
    return dataset_id.replace("_", "-")


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
