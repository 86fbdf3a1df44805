"""What a query selects of a commit, as a commit of its own: a child on no branch that jobs, caches and clones read.

Its tree names the packs of the source, so no content is copied. Its id is made of the source and the conditions alone:
the same query of the same commit is the same commit, whoever asks and whenever.
"""

from collections.abc import Sequence

import structlog
from django.db import transaction

from accounts import audit
from accounts.permissions import Actor, require
from datasets import permissions
from datasets.adapters.opening import open_dataset_store
from datasets.engine.layout import CommitRecord, commit_key, range_key, root_key
from datasets.engine.queries import CompiledQuery
from datasets.errors import InvalidQuery, NothingSelected, PackLeaving
from datasets.models import Commit, CommitSource, Query, Selection
from datasets.selectors import datasets, queries
from datasets.selectors.datasets import ResolvedCommit
from datasets.selectors.trees import open_tree
from datasets.services import manifests, packs
from datasets.services.packs import RangesForgotten
from nearline.content.expressions import TooCostly
from nearline.content.manifest import (
    Entry,
    RangeCutter,
    RootRange,
    build_range,
    describe_range,
    encode_root,
    root_id,
)

log = structlog.get_logger(__name__)

# So often is a tree made whose packs were given up meanwhile.
_TRIES = 3
_LONGEST_MESSAGE = 500


def resolve(*, actor: Actor, reference: str) -> ResolvedCommit:
    """Return the commit that a reference leads to; with a query, the one that holds what it selects.

    Raises what `datasets.resolve` and `select` raise.
    """
    commit = datasets.resolve(actor, reference)
    if commit.query is None:
        return commit
    return ResolvedCommit(commit.dataset, select(actor=actor, query=commit.query, source=commit.commit))


def select(*, actor: Actor, query: Query, source: Commit) -> Commit:
    """Return the commit that holds the files of another one that a query selects; it is made where it is missing.

    Who may read the dataset may ask. Raises InvalidQuery, NothingSelected, PackLeaving, PackMissing.
    """
    require(actor, permissions.VIEW, query.dataset.project_id)
    if known := queries.find_selection(query, source):
        return known
    compiled = queries.compile_query(actor, query.asked, source)
    for _ in range(_TRIES):
        try:
            return _make(actor, query, source, compiled)
        except TooCostly as error:
            raise InvalidQuery(str(error)) from error
        except RangesForgotten:
            log.info("selection.made_again", dataset_id=source.dataset_id)
    raise PackLeaving("Packs of this commit are being removed from the store.")


def _make(actor: Actor, query: Query, source: Commit, compiled: CompiledQuery) -> Commit:
    dataset = query.dataset
    root = _write_tree(query, source, compiled)
    tree = manifests.check_tree(dataset, root)
    record = CommitRecord(
        dataset=dataset.id,
        root=root,
        parent=source.id,
        author=source.author_name,
        message=f"Files of {source.short}: {query.asked.describe()}"[:_LONGEST_MESSAGE],
        source=str(CommitSource.QUERY),
        created_at_ms=round(source.created_at.timestamp() * 1000),
    )
    open_dataset_store(dataset).put(commit_key(record.commit_id), record.canonical_json())
    with transaction.atomic():
        packs.hold_ranges(dataset, [row.range_id for row in tree.ranges])
        row = Commit(
            id=record.commit_id,
            dataset=dataset,
            parent=source,
            root=root,
            message=record.message,
            author_id=source.author_id,
            author_name=record.author,
            source=CommitSource.QUERY,
            created_at=source.created_at,
            files=tree.files,
            size_bytes=tree.size_bytes,
            added=0,
            removed=source.files - tree.files,
            changed=0,
        )
        # Somebody else may have made the same one meanwhile.
        Commit.objects.bulk_create([row], ignore_conflicts=True)
        Selection.objects.get_or_create(
            source=source, conditions_hash=query.asked.hash, defaults={"commit_id": record.commit_id}
        )
        audit.record(
            actor, "datasets.select", row, project_id=dataset.project_id, dataset=dataset.name, query=query.name
        )
    return row


def _write_tree(query: Query, source: Commit, compiled: CompiledQuery) -> str:
    """Put the manifests of what is selected into the store, one range at a time, and return the root."""
    store, tree = open_dataset_store(query.dataset), open_tree(source)
    cutter, ranges = RangeCutter(), list[RootRange]()

    def keep(entries: Sequence[Entry]) -> None:
        encoded = build_range(entries)
        store.put(range_key(encoded.range_id), encoded.data)
        ranges.append(describe_range(entries, encoded.range_id))

    for row, paths in tree.select(compiled):
        if cutter.is_empty and len(paths) == row.files:
            # All of the range is selected, and nothing stands before it: it is shared with the source.
            ranges.append(row)
            continue
        for entry in tree.load_entries(row, paths):
            if entries := cutter.add(entry):
                keep(entries)
    if rest := cutter.take():
        keep(rest)
    if not ranges:
        raise NothingSelected(f"The query '{query.name}' selects no file of the {source.label}.")
    data = encode_root(ranges)
    store.put(root_key(root_id(data)), data)
    return root_id(data)
