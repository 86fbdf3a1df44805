"""Commits without a linked folder: files are added or removed on top of whatever the branch holds."""

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from nearline.content.diff import Change
from nearline.content.entries import Entry, EntryKind, check_target
from nearline.content.errors import BadPath
from nearline.content.manifest import RootRange
from nearline.content.paths import check_path, to_text
from nearline.errors import Conflict, NearlineError
from nearline.models import Commit
from nearline.transfer.local import reading
from nearline.transfer.local.packed_rows import PackedRows
from nearline.transfer.local.scan import Scan, Suspect
from nearline.transfer.local.walk import EMPTY_FOLDER, TOO_LONG, IgnoreRules, LocalFile, Skipped, cannot, describe, walk
from nearline.transfer.progress import Meter
from nearline.transfer.remote.manifests import Manifests
from nearline.transfer.remote.server import Server
from nearline.transfer.sync import local_changes
from nearline.transfer.sync.healing import FindCopies
from nearline.transfer.sync.options import Options
from nearline.transfer.sync.sync import Outcome, show_paths, show_skipped
from nearline.transfer.sync.upload import (
    Publisher,
    check_names,
    find_entries,
    find_head,
    find_ranges,
    is_stale,
    missing_packs,
    names_of,
)

_RACES = 20
_RESENDS = 3
# What a file takes in a manifest, nearly all of it hashes; and what is fetched of manifests for the smallest file.
_ENTRY_BYTES = 40
_ALWAYS_FETCHED_BYTES = 2 << 20


def list_files(sources: Iterable[Path], folder: bytes, skipped: list[Skipped]) -> dict[bytes, Path]:
    """Return what to put where: files under their name, folders with all that is in them, below `folder`.

    Folders that are linked to a dataset of their own are entered: what a person names is taken as it is. Appended to
    `skipped` is what no synced folder would ever bring.
    """
    prefix = folder.strip(b"/") + b"/" if folder.strip(b"/") else b""
    files_by_path: dict[bytes, Path] = {}
    for source in sources:
        if source.is_dir() and not source.is_symlink():
            root = os.fsencode(source.absolute())
            name = os.fsencode(source.resolve().name)
            not_carried: list[Skipped] = []
            inside = [file.path for file in walk(root, IgnoreRules(), not_carried)]
            skipped += [skip._replace(path=prefix + name + b"/" + skip.path) for skip in not_carried if skip.is_own]
            # What cannot be carried is listed too, so that putting it says why it was left out.
            for path in (*inside, *(skip.path for skip in not_carried if not skip.is_own)):
                files_by_path[prefix + name + b"/" + path] = Path(os.fsdecode(root + b"/" + path))
        else:
            files_by_path[prefix + os.fsencode(source.name)] = source.absolute()
    return files_by_path


def put_files(
    server: Server,
    branch: str,
    files: Mapping[bytes, Path],
    *,
    message: str = "",
    only: bool = False,
    skipped: Iterable[Skipped] = (),
    options: Options | None = None,
) -> Outcome:
    """Commit files under their path in the dataset; with `only`, the commit holds no others.

    `skipped` was left out before. What others commit meanwhile stays, except for the same paths. Raises BadPath for a
    path that cannot be carried.
    """
    put = _Put(server, branch, message, options or Options())
    return put.run(files, tuple(skipped), only=only)


def remove_files(
    server: Server, branch: str, paths: Collection[bytes], *, message: str = "", options: Options | None = None
) -> Outcome:
    """Commit the removal of these paths; those that are not there are no error."""
    put = _Put(server, branch, message, options or Options())

    def changes(tree: Sequence[RootRange]) -> list[Change]:
        entries = find_entries(tree, put.manifests, paths)
        return [Change(path, entries[path], None) for path in sorted(entries)]

    return Outcome(commit=put.commit(changes, put.new_publisher(set())))


def find_paths(
    server: Server, branch: str, matches: Callable[[str], bool], *, options: Options | None = None
) -> list[str]:
    """Return the paths of the branch's newest commit that match, in their order. All its manifests are read."""
    manifests = Manifests(server, policy=(options or Options()).policy)
    ranges = manifests.load_root(find_head(server, branch).root)
    manifests.fetch_ahead(ranges)
    return [path for row in ranges for path in map(to_text, manifests.load_range(row.range_id).paths) if matches(path)]


class _Put:
    def __init__(self, server: Server, branch: str, message: str, options: Options) -> None:
        self.manifests = Manifests(server, policy=options.policy)
        self._server = server
        self._branch = branch
        self._message = message
        self._options = options

    def new_publisher(self, lost: set[bytes]) -> Publisher:
        return Publisher(self._server, self._branch, self.manifests, self._options, frozenset(lost))

    def run(self, files: Mapping[bytes, Path], skipped: Iterable[Skipped], *, only: bool) -> Outcome:
        lost: set[bytes] = set()
        for attempt in range(1, _RESENDS + 1):
            try:
                return self._run(files, [*skipped], lost, only=only)
            except NearlineError as error:
                missing = missing_packs(error)
                if not missing or attempt == _RESENDS:
                    raise
                lost |= missing
        raise AssertionError

    def _run(self, files: Mapping[bytes, Path], skipped: list[Skipped], lost: set[bytes], *, only: bool) -> Outcome:
        publisher = self.new_publisher(lost)
        tree = self.manifests.load_root(find_head(self._server, self._branch).root)
        suspects, names = list_suspects(files, skipped)
        size = sum(suspect.file.size for suspect in suspects)
        meter = Meter(self._options.on_progress, "Uploading", files_total=len(suspects), bytes_total=size)
        scan = Scan(len(suspects), size, suspects, [], skipped)
        # Of a large dataset, the manifests are more than a few new files: then some of these may be stored twice.
        is_worth_it = sum(row.files for row in tree) * _ENTRY_BYTES <= max(size, _ALWAYS_FETCHED_BYTES)
        looked_in = tree if only or is_worth_it else list(find_ranges(tree, files))
        # Before anything is sent.
        self.manifests.fetch_ahead(looked_in)
        there = {path for row in looked_in for path in self.manifests.load_range(row.range_id).paths}
        paths = {path for group in names.values() for path in group}
        self._check_names(tree, paths - there, there - paths if only else set())
        publisher.heal(tree, lambda: _index_copies(suspects))
        with publisher.sending([looked_in], meter, None) as sending:
            read = local_changes.find_changes(
                b"", scan, None, threads=self._options.threads, meter=meter, sending=sending
            )
            meter.finish()
        entries: dict[bytes, Entry] = {}
        for change in read:
            if change.after is not None:
                entries.update((path, change.after._replace(path=path)) for path in names[change.path])

        def changes(tree: Sequence[RootRange]) -> list[Change]:
            if only:
                self.manifests.fetch_ahead(tree)
                before = {entry.path: entry for row in tree for entry in self.manifests.load_range(row.range_id)}
            else:
                before = find_entries(tree, self.manifests, entries.keys())
            paths = sorted({*before, *entries} if only else entries)
            all_changes = (Change(path, before.get(path), entries.get(path)) for path in paths)
            return [change for change in all_changes if not _is_nothing(change)]

        commit = self.commit(changes, publisher)
        return Outcome(
            commit=commit,
            files_uploaded=len(entries) if commit else 0,
            bytes_uploaded=sending.sender.bytes_sent,
            packs_healed=publisher.healing.healed,
            damaged=show_paths(publisher.healing.files),
            skipped=show_skipped(skipped),
        )

    def commit(
        self, list_changes: Callable[[Sequence[RootRange]], list[Change]], publisher: Publisher
    ) -> Commit | None:
        """Commit changes that are computed anew for every head that the branch turns out to be at."""
        for _ in range(_RACES):
            head = find_head(self._server, self._branch)
            tree = self.manifests.load_root(head.root)
            changes = list_changes(tree)
            if not changes:
                return None
            self._check_names(tree, *names_of(changes))
            try:
                return publisher.publish(head, tree, changes, self._message)
            except Conflict as error:
                if not is_stale(error):
                    raise
        raise Conflict("Others commit faster than this can follow.", code="client.overtaken", hint="Try again.")

    def _check_names(self, tree: Sequence[RootRange], added: Collection[bytes], removed: Collection[bytes]) -> None:
        kinds = ("clash",) if self._options.allow_collisions else ("clash", "fold")
        check_names(tree, added, removed, self.manifests, kinds=kinds)


def list_suspects(
    files: Mapping[bytes, Path], skipped: list[Skipped]
) -> tuple[PackedRows[Suspect], dict[bytes, list[bytes]]]:
    """Return the files to read, by their place on this machine, and the paths in the tree of each place."""
    suspects: dict[bytes, Suspect] = {}
    names: dict[bytes, list[bytes]] = {}
    for path, source in sorted(files.items()):
        try:
            check_path(path)
            status = _stat(path, source)
        except BadPath as error:
            skipped.append(Skipped(path, error.why))
            continue
        suspects[status.path] = Suspect(status, None, None)
        names.setdefault(status.path, []).append(path)
    return PackedRows(suspects.values()), names


def _index_copies(suspects: Iterable[Suspect]) -> FindCopies:
    contents = (reading.hash_file(b"", suspect.file) for suspect in suspects if suspect.file.kind is EntryKind.FILE)
    known = {content.content_id: Path(os.fsdecode(b"/" + content.file.path)) for content in contents if content}
    return lambda content_id, _entry: [known[content_id]] if content_id in known else []


def _stat(path: bytes, source: Path) -> LocalFile:
    place = os.fsencode(source.absolute()).lstrip(b"/")
    try:
        status = source.lstat()
        if stat.S_ISLNK(status.st_mode):
            target = os.fsencode(source.readlink())
            check_target(path, target)
            return describe(place, status, target)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise BadPath(path, TOO_LONG) from error
        raise cannot("read", os.fsencode(source), error) from error
    if stat.S_ISDIR(status.st_mode):
        raise BadPath(path, EMPTY_FOLDER)
    if not stat.S_ISREG(status.st_mode):
        raise BadPath(path, "is neither a file nor a folder nor a link")
    return describe(place, status)


def _is_nothing(change: Change) -> bool:
    before, after = change.before, change.after
    return before is not None and after is not None and before.identity == after.identity
