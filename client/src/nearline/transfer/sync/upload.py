"""From changes to a commit: new content goes into packs, changed ranges and the root follow, then the commit."""

import os
import socket
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from nearline.content.diff import Change, patch_tree
from nearline.content.errors import ContentError
from nearline.content.manifest import Entry, RootRange, Tree
from nearline.content.paths import collision_details, describe_collisions, find_collisions
from nearline.errors import Conflict, Failed, InvalidRequest, NearlineError
from nearline.models import Commit
from nearline.transfer.local.statcache import StatCache
from nearline.transfer.progress import Meter
from nearline.transfer.remote.manifests import Manifests
from nearline.transfer.remote.packing import KnownContent, PackSender, Upload, put_objects
from nearline.transfer.remote.server import ObjectKind, Server, Storage
from nearline.transfer.sync.healing import FindCopies, Healer, Healing
from nearline.transfer.sync.local_changes import Sending
from nearline.transfer.sync.options import Options

_STALE = "datasets.stale_parent"
_PACK_MISSING = "datasets.pack_missing"
# Names of a tree that are looked at in any case, and for each name that is added.
_NAMES_LOOKED_AT = 50_000
_NAMES_PER_ADDED = 20


@dataclass(frozen=True)
class Head:
    """The newest commit of a branch and its tree; both None while the branch is empty."""

    commit: str | None
    root: str | None


@dataclass
class Publisher:
    """One attempt to bring changes to a branch: a session, the manifests, and what is known to be lost."""

    server: Server
    branch: str
    manifests: Manifests
    options: Options
    missing_packs: frozenset[bytes] = frozenset()
    upload: Upload = field(init=False)
    healing: Healing = field(init=False, default=Healing())

    def __post_init__(self) -> None:
        client_id = f"{socket.gethostname()}:{os.getpid()}"
        self.upload = Upload(lambda: self.server.start_upload(self.branch, client_id))

    def heal(self, tree: Sequence[RootRange], open_copies: Callable[[], FindCopies]) -> None:
        """Make damaged packs of the store whole, as far as good copies are here; `open_copies` is asked if need be.

        What stays damaged counts as missing: new files with the same content do not rely on it.
        """
        if damaged := self.server.list_damaged_packs():
            healer = Healer(self.server, self.upload, self.manifests, self.options.policy, open_copies())
            self.healing = healer.heal(damaged, tree)
            self.missing_packs |= self.healing.damaged

    @contextmanager
    def sending(
        self, trees: Sequence[Sequence[RootRange]], meter: Meter, journal: StatCache | None
    ) -> Iterator[Sending]:
        """Open the way for new content. What these trees hold, or the journal lists, is not sent again."""
        range_ids = (row.range_id for ranges in trees for row in ranges)
        known = KnownContent(self.manifests, range_ids, missing_packs=self.missing_packs)
        sender = PackSender(
            self.server,
            self.upload,
            known,
            threads=self.options.threads,
            policy=self.options.policy,
            journal=journal,
            meter=meter,
            target_bytes=self.options.pack_bytes,
        )
        with sender:
            yield Sending(sender, known)

    def publish(self, head: Head, ranges: Sequence[RootRange], changes: Iterable[Change], message: str) -> Commit:
        """Commit the tree of `head` with these changes on top.

        Raises Conflict: `datasets.stale_parent` when the branch is elsewhere now, `datasets.pack_missing`.
        """
        try:
            tree = patch_tree(ranges, changes, self.manifests.load_range)
        except ContentError as error:
            raise InvalidRequest(f"This cannot be committed: {error}", code=error.code, hint=error.hint) from error
        sent = put_tree(self.server, self.upload, tree, self.options)
        root = tree.root_id
        bases = {name: delta.base_id for name, delta in tree.deltas.items()} if self.upload.takes_deltas else {}
        # How the store has what was there already is not known: it is read from there when it is needed.
        self.manifests.keep({root: tree.root, **{name: tree.objects[name] for name in sent}}, bases)
        # One session commits a root once: asking again after a lost answer returns the commit that was made.
        key = f"{self.upload.id}:{root[:32]}"
        return self.options.policy.repeat(
            lambda: self.server.commit(
                self.upload.id,
                root=root,
                expected_head=head.commit,
                message=message,
                source=self.options.source,
                idempotency_key=key,
                allow_collisions=self.options.allow_collisions,
            )
        )


def put_tree(storage: Storage, upload: Upload, tree: Tree, options: Options) -> Collection[str]:
    """Bring the manifests of a tree to the store, those that it does not have; return the ids of the ranges sent."""
    root, root_id = tree.root, tree.root_id
    objects = tree.objects if not tree.deltas or not upload.takes_deltas else tree.shortest
    ranges = [(upload.offer(ObjectKind.RANGE, name, data), data) for name, data in objects.items()]
    sent: Collection[str] = ()
    if ranges:
        sent = put_objects(storage, upload.id, ranges, options.policy, threads=options.threads)
    offered_root = [(upload.offer(ObjectKind.ROOT, root_id, root), root)]
    put_objects(storage, upload.id, offered_root, options.policy, threads=1)
    return sent


def find_head(server: Server, branch: str, known: Head | None = None) -> Head:
    """Return where a branch is; `known` saves asking for a tree that the caller has seen."""
    heads = {row.name: row.head for row in server.list_branches()}
    if branch not in heads:
        raise InvalidRequest(
            f"The dataset has no branch '{branch}'.",
            code="client.no_branch",
            hint="List the branches with `nearline data branch`.",
        )
    commit = heads[branch]
    if commit is None:
        return Head(None, None)
    if known is not None and known.commit == commit:
        return known
    return Head(commit, server.get_commit(commit).root)


def check_names(
    ranges: Sequence[RootRange],
    added: Collection[bytes],
    removed: Collection[bytes],
    manifests: Manifests,
    *,
    kinds: Collection[str],
) -> None:
    """Raise Conflict, with all names, when new names collide with each other or with those of a tree.

    A few names among very many are compared with the tree by the server, which keeps what it needs for that: it refuses
    the commit, and what was sent until then need not be sent again.
    """
    if not added or not kinds:
        return
    names = added
    if ranges and sum(row.files for row in ranges) <= _NAMES_LOOKED_AT + _NAMES_PER_ADDED * len(added):
        paths = {path for row in ranges for path in manifests.load_range(row.range_id).paths}
        names = paths.difference(removed).union(added)
    collisions = [
        collision
        for collision in find_collisions(sorted(names))
        if collision.kind in kinds
        # Names that the tree has already were allowed before.
        and (collision.kind == "clash" or not all(_is_in(ranges, manifests, name) for name in collision.names))
    ]
    if collisions:
        raise Conflict(
            describe_collisions(collisions),
            code="client.name_collision",
            hint="Rename them. `--allow-collisions` commits names that differ only in case or Unicode form; file "
            "systems that fold these cannot hold such a commit.",
            details=collision_details(collisions),
        )


def names_of(changes: Iterable[Change]) -> tuple[set[bytes], set[bytes]]:
    """Return the paths that changes add, and those that they remove."""
    added: set[bytes] = set()
    removed: set[bytes] = set()
    for path, before, after in changes:
        if after is None:
            removed.add(path)
        elif before is None:
            added.add(path)
    return added, removed


def _is_in(ranges: Sequence[RootRange], manifests: Manifests, name: bytes) -> bool:
    """Return whether a tree has a file or a folder of this name."""
    below = name + b"/"
    for row in ranges:
        if row.first_path <= below + b"\xff" and name <= row.last_path:
            paths = manifests.load_range(row.range_id).paths
            at, inside = bisect_left(paths, name), bisect_left(paths, below)
            if paths[at : at + 1] == [name] or (inside < len(paths) and paths[inside].startswith(below)):
                return True
    return False


def is_stale(error: NearlineError) -> bool:
    """Return whether a commit was refused because the branch moved."""
    return isinstance(error, Conflict) and error.code == _STALE


def missing_packs(error: NearlineError) -> set[bytes]:
    """Return the packs that the server says it does not have; empty for any other error."""
    if not isinstance(error, Conflict) or error.code != _PACK_MISSING:
        return set()
    named = error.details.get("packs")
    if not isinstance(named, list) or not named:
        raise Failed("The server misses packs that it does not name.") from error
    return {bytes.fromhex(str(name)) for name in named}


def find_ranges(ranges: Sequence[RootRange], paths: Collection[bytes]) -> dict[RootRange, Sequence[bytes]]:
    """Return those ranges of a tree that can hold some of these paths, with these paths."""
    ordered = sorted(paths)
    return {
        row: ordered[first:last]
        for row in ranges
        if (first := bisect_left(ordered, row.first_path)) < (last := bisect_right(ordered, row.last_path))
    }


def find_entries(ranges: Sequence[RootRange], manifests: Manifests, paths: Collection[bytes]) -> dict[bytes, Entry]:
    """Return those entries of a tree that lie at these paths, reading only the ranges that can hold them."""
    here = find_ranges(ranges, paths)
    manifests.fetch_ahead(here)
    entry_of: dict[bytes, Entry] = {}
    for row, names in here.items():
        entries = manifests.load_range(row.range_id)
        for name in names:
            index = bisect_left(entries.paths, name)
            if entries.paths[index] == name:
                entry_of[name] = entries[index]
    return entry_of
