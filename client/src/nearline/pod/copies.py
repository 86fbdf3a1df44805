"""What a pod does for a cached commit on a volume: `fill` it, or `verify` it and heal what is damaged.

`python -m nearline.pod.copies fill /volume [/donor]` or `... verify /volume --part 3/30`, with the platform's address
in NEARLINE_URL and the file of the copy's token in NEARLINE_COPY_TOKEN_FILE. The files of the commit lie in `files/` of
the volume. Beside it, READY names the tree that is complete there, and FILLING the one that is in the making, so that a
pod that was killed is followed by one that goes on. A clone of another volume brings that one's READY: then only what
differs is fetched.

On a volume that many copies share, `--copy ID` names the folder that is laid out so. `--base ID` is another copy there:
what both have is linked. `remove /volume --copy ID` takes a copy away, also one that is not complete.

Jobs that start early mount `files/` while it is filled. So each file appears whole and verified, and the platform says
which packs these jobs need next.

Several pods of an indexed Job fill a large copy: `share /volume --shares 4` writes the files of the share that
JOB_COMPLETION_INDEX names, and then FILLED-<number>. Once all of them have ended, `fill /volume --shares 4` looks at
what they wrote, fetches what is missing, and writes READY: only this one pod does.

`serve /volume --copy ID` lets another host read a copy, also one in the making (`nearline.pod.peers`). The file in
NEARLINE_PEER tells of it there: what it has is not read from the store.

`check /volume` compares files that are not ours with the commit, and changes nothing: the volume is mounted read-only.
`import /volume` makes the commit of them, and `promote /volume` copies them into the store (`nearline.pod.imports`);
their token is that of the import.

What was done, or what went wrong, is written to the container's termination message as JSON.
"""

import argparse
import errno
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nearline._http import Http, api_policy
from nearline.content.diff import Change, diff_roots
from nearline.content.entries import Entry, EntryKind
from nearline.content.errors import ContentError
from nearline.content.manifest import RangeEntries, RootRange, check_range
from nearline.content.paths import to_text
from nearline.errors import Conflict, Failed, NearlineError, NotFound, NotSignedIn
from nearline.hydrate.engine import Cancellation, Cancelled, NextPacks, hydrate
from nearline.hydrate.folder import sync_disk
from nearline.hydrate.ports import HydrationProgress
from nearline.pod import imports
from nearline.pod import pool as pools
from nearline.pod.existing_files import find_difference, list_files
from nearline.pod.peers import Peer, PeerGone, serve
from nearline.pod.shares import divide
from nearline.pod.volume_target import VolumeTarget, is_in_part
from nearline.resources.storage_routes import StorageRoutes
from nearline.transfer.remote.manifests import check_root
from nearline.transfer.remote.objects import ObjectReader, SignedPacks
from nearline.transfer.remote.retry import transfer_policy
from nearline.transfer.remote.server import ObjectKind

FILES, READY, FILLING, FILLED = "files", "READY", "FILLING", "FILLED-"
HOPELESS = 3
"""The exit code of what trying again cannot cure."""
_HOPELESS_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS}
_MESSAGE = Path(os.environ.get("NEARLINE_TERMINATION_MESSAGE", "/dev/termination-log"))
_MOST_MESSAGE, _MOST_ERROR = 3500, 3000
_REPORT_S = 1.0
_NAMED = 10
_BATCH_FILES, _BATCH_BYTES = 1000, 64 * 2**20
_IMPORTING = ("import", "promote")
_PEER = "NEARLINE_PEER"
_SHARE = "JOB_COMPLETION_INDEX"
_MIN_RATE_S = 0.001


@dataclass(frozen=True)
class Task:
    """The commit whose files are to be on the volume."""

    commit_id: str
    root: str
    files: int
    size_bytes: int


@dataclass(frozen=True)
class Totals:
    """What is in place, and where its bytes came from: a cloned volume, a mounted one, the store."""

    files_done: int = 0
    bytes_done: int = 0
    bytes_shared: int = 0
    bytes_copied: int = 0
    bytes_moved: int = 0


class NotTheCommit(Conflict):
    """Files that are not ours are not those of the commit."""

    code = "client.not_the_commit"

    def __init__(self, differences: Sequence[str]) -> None:
        more = f" and {len(differences) - _NAMED} more" if len(differences) > _NAMED else ""
        count = "1 file is" if len(differences) == 1 else f"{len(differences)} files are"
        super().__init__(f"{count} not as the commit says: {', '.join(differences[:_NAMED])}{more}.")


class CopyRoutes(StorageRoutes):
    """The platform's routes for the pods of one cached copy, of which a pod may fill a `share` of so many."""

    def __init__(self, http: Http, share: tuple[int, int] | None = None) -> None:
        super().__init__(http, "/copy")
        self._share = {} if share is None else {"share": share[0], "shares": share[1]}

    def get_task(self) -> Task:
        """Return what is to be done."""
        answer = self._api.get("/copy")
        return Task(answer["commit"], answer["root"], answer["files"], answer["size_bytes"])

    def report(self, totals: Totals, rate_bytes_s: float) -> Sequence[str]:
        """Say how far the copy is; return the packs that are needed next. Raises NotSignedIn when nobody wants it."""
        progress = {**asdict(totals), "rate_bytes_s": rate_bytes_s, **self._share}
        packs: Sequence[str] = self._http.post("/copy/progress", progress, may_repeat=True)["next_packs"]
        return packs


class Reporter:
    """Tells the platform once a second how far the copy is, from a thread of its own; of the first bytes at once.

    `next_packs` are those that jobs which read the copy meanwhile need next, as of the last report.
    """

    def __init__(self, routes: CopyRoutes) -> None:
        self.totals = Totals()
        self.next_packs: Sequence[str] = ()
        self.is_unwanted = self.has_filled = False
        self._routes = routes
        self._started = time.monotonic()
        self._news = threading.Event()
        self._has_ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        """Begin to report."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop reporting."""
        self._has_ended = True
        self._news.set()
        self._thread.join()

    def add(self, **counts: int) -> None:
        """Count what is in place now."""
        before = self.totals
        self.totals = replace(before, **{key: getattr(before, key) + value for key, value in counts.items()})
        if self.totals.bytes_done and not before.bytes_done:
            self._news.set()

    def send(self) -> None:
        """Report now. A platform that is away is told later."""
        totals = self.totals
        passed_s = max(_MIN_RATE_S, time.monotonic() - self._started)
        rate_bytes_s = 0.0 if self.has_filled else (totals.bytes_done - totals.bytes_shared) / passed_s
        try:
            self.next_packs = self._routes.report(totals, rate_bytes_s)
        except NotSignedIn:
            self.is_unwanted = True
        except NearlineError as error:
            sys.stderr.write(f"Progress was not reported: {error}\n")

    def _run(self) -> None:
        while not self._has_ended:
            self._news.wait(_REPORT_S)
            self._news.clear()
            self.send()


@dataclass(frozen=True)
class Damaged:
    """A path that was not as the commit says and is healed, and where else on the volume the same file was.

    `also` are the folders of copies and the paths in them.
    """

    path: bytes
    kind: str
    also: tuple[tuple[str, bytes], ...] = ()


class Copy:
    """The folder of one copy, a volume or a part of one, and the work on it."""

    def __init__(self, folder: Path, routes: CopyRoutes, reporter: Reporter) -> None:
        self._folder = folder
        self._files = folder / FILES
        self._reporter = reporter
        self._policy = transfer_policy()
        self._routes = routes
        self._reader = ObjectReader(routes, self._policy)
        self._packs = SignedPacks(routes, self._policy)
        self._cancellation = Cancellation(lambda: reporter.is_unwanted)

    def fill(self, task: Task, *, base: Path | None, donor: Path | None, peer: Peer | None, shares: int = 0) -> Totals:
        """Bring the files of the commit into place, and mark the folder as complete.

        `base` is the folder of another copy on the same file system; `donor` has the files of a copy on another one,
        and a `peer` those of one on another host. Of so many `shares`, other pods have filled those that are marked.
        """
        made, begun = _read(self._folder / READY), _read(self._folder / FILLING)
        if begun is None and made is not None and made["root"] == task.root:
            return Totals(**made["totals"])
        cloned = made["root"] if made else None
        if begun is not None:
            cloned = begun["base"] if begun["root"] == task.root else None
        _write(self._folder / FILLING, {"root": task.root, "base": cloned})
        (self._folder / READY).unlink(missing_ok=True)
        target = VolumeTarget(self._files)
        target.prepare([])
        entries = self._list_entries(task.root)
        if shares:
            entries = self._keep_filled(entries, task, target, shares)
        if cloned is not None:
            entries = self._keep_cloned(entries, task.root, target, cloned)
        base_made = _read(base / READY) if base is not None else None
        if base is not None and base_made is not None:
            entries = self._share(entries, task.root, target, base / FILES, base_made["root"])
        if donor is not None:
            entries = self._copy(entries, target, donor)
        if peer is not None:
            entries = self._receive(entries, target, peer)
        self._hydrate(target, entries, next_packs=lambda: self._reporter.next_packs)
        self._seal(task, target)
        totals = self._reporter.totals
        _write(self._folder / READY, {"root": task.root, "commit_id": task.commit_id, "totals": asdict(totals)})
        for mark in self._folder.glob(f"{FILLED}*"):
            mark.unlink()
        (self._folder / FILLING).unlink()
        sync_disk(self._folder)
        return totals

    def fill_share(self, task: Task, share: tuple[int, int], *, donor: Path | None) -> Totals:
        """Bring the files of one of several shares into place, and mark the share as complete.

        Others fill theirs in the same folders meanwhile, so these stay open.
        """
        number, count = share
        mark = self._folder / f"{FILLED}{number}"
        if (filled := self._read_filled(task, number, count)) is not None:
            self._reporter.totals = filled
            return filled
        target = VolumeTarget(self._files, is_shared=True)
        target.prepare([])
        division = divide(self._list_entries(task.root), count)
        entries: Iterator[Entry] = filter(
            lambda entry: division.share_of(entry) == number, self._list_entries(task.root)
        )
        if donor is not None:
            entries = self._copy(entries, target, donor)
        self._hydrate(target, entries, next_packs=lambda: self._reporter.next_packs)
        sync_disk(self._folder)
        totals = self._reporter.totals
        _write(mark, {"root": task.root, "shares": count, "totals": asdict(totals)})
        return totals

    def verify(self, task: Task, part: tuple[int, int] | None, pool: Path | None) -> list[Damaged]:
        """Compare the files with the commit, put right what differs, and return it.

        Of a file that other copies of a `pool` have too, they get the healed one.
        """
        target = VolumeTarget(self._files, part=part, is_ready=True)
        target.prepare([])
        self._hydrate(target, self._list_entries(task.root))
        strays = self._seal(task, target)
        names: Mapping[int, list[tuple[str, bytes]]] = {}
        if pool is not None:
            names = pools.find_names(pool, set(target.linked.values()), FILES)
            for path, inode in target.linked.items():
                for copy, name in names[inode]:
                    pools.link_over(self._files / os.fsdecode(path), pool / copy / FILES / os.fsdecode(name))
        damaged = [
            Damaged(path, kind, tuple(names.get(target.linked.get(path, 0), ()))) for path, kind in target.damage
        ]
        return sorted([*damaged, *(Damaged(path, "stray") for path in strays)], key=lambda item: item.path)

    def check(self, task: Task, part: tuple[int, int] | None) -> Totals:
        """Compare the folder itself with the commit, and change nothing there. Raises NotTheCommit.

        Of a `part` every file is read, of the others the size. None: all are read.
        """
        differences: list[str] = []
        known = set()
        for entry in self._list_entries(task.root):
            self._cancellation.check()
            known.add(entry.path)
            if fault := find_difference(self._folder, entry, must_read=part is None or is_in_part(entry, part)):
                differences.append(f"{_show(entry.path)} ({fault})")
            else:
                self._reporter.add(files_done=1, bytes_done=entry.size, bytes_shared=entry.size)
        differences += [f"{_show(path)} (stray)" for path in list_files(self._folder) if path not in known]
        if differences:
            raise NotTheCommit(differences)
        return self._reporter.totals

    def _keep_filled(self, entries: Iterator[Entry], task: Task, target: VolumeTarget, count: int) -> Iterator[Entry]:
        """Count what other pods have filled and verified; yield the files that are not there as they left them."""
        filled = {number: self._read_filled(task, number, count) for number in range(count)}
        for totals in filter(None, filled.values()):
            self._reporter.add(
                bytes_shared=totals.bytes_shared, bytes_copied=totals.bytes_copied, bytes_moved=totals.bytes_moved
            )
        division = divide(self._list_entries(task.root), count)
        for entry in entries:
            if filled[division.share_of(entry)] is not None and target.looks_untouched(entry):
                self._count(entry)
            else:
                yield entry

    def _read_filled(self, task: Task, number: int, count: int) -> Totals | None:
        """Return what a pod noted that has filled a share; None: none has yet, or one of another division."""
        filled = _read(self._folder / f"{FILLED}{number}")
        if filled is None or (filled["root"], filled["shares"]) != (task.root, count):
            return None
        return Totals(**filled["totals"])

    def _keep_cloned(self, entries: Iterator[Entry], root: str, target: VolumeTarget, base: str) -> Iterator[Entry]:
        """Remove what is not of the commit; count what the clone of a volume brought, and yield what it lacks."""
        changes = {change.path: change.after for change in self._diff(base, root)}
        for path, after in changes.items():
            if after is None:
                target.remove(path)
        for after in filter(None, changes.values()):
            target.has(after)
        for entry in entries:
            if entry.path not in changes and self._keep(target, entry):
                self._count(entry, bytes_shared=entry.size)
            else:
                yield entry

    def _share(
        self, entries: Iterator[Entry], root: str, target: VolumeTarget, base: Path, base_root: str
    ) -> Iterator[Entry]:
        """Link what another copy has, under whatever name; copy it where that cannot be; yield what it lacks."""
        changes = list(self._diff(base_root, root))
        at_hand = {change.before.identity: change.path for change in changes if change.before is not None}
        sources = {change.path: at_hand.get(change.after.identity) for change in changes if change.after is not None}
        for entry in entries:
            source = sources.get(entry.path, entry.path)
            if source is None or entry.kind is not EntryKind.FILE or not entry.size:
                yield entry
            elif target.link(entry, base, source):
                self._count(entry, bytes_shared=entry.size)
            elif target.copy(entry, base, source):
                self._count(entry, bytes_copied=entry.size)
            else:
                yield entry

    def _copy(self, entries: Iterator[Entry], target: VolumeTarget, donor: Path) -> Iterator[Entry]:
        for entry in entries:
            if entry.kind is EntryKind.FILE and target.copy(entry, donor, entry.path):
                self._count(entry, bytes_copied=entry.size)
            else:
                yield entry

    def _receive(self, entries: Iterator[Entry], target: VolumeTarget, peer: Peer) -> Iterator[Entry]:
        """Take what another host gives, until it is gone; yield what it lacks."""
        while batch := _first(entries):
            missing = []
            for entry in batch:
                if entry.kind is not EntryKind.FILE or not entry.size:
                    yield entry
                elif target.has(entry):
                    self._count(entry, bytes_copied=entry.size)
                else:
                    missing.append(entry)
            taken: set[bytes] = set()
            rest: Iterator[Entry] = iter(())
            try:
                given = peer.read([entry.path for entry in missing]) if missing else ()
                for entry, file in zip(missing, given, strict=True):
                    if file is not None and file.size == entry.size and target.take(entry, file):
                        taken.add(entry.path)
                        self._count(entry, bytes_copied=entry.size)
            except PeerGone as error:
                sys.stderr.write(f"{peer.host} gives no more files, so that the store does: {error}\n")
                rest = entries
            yield from (entry for entry in missing if entry.path not in taken)
            yield from rest

    def _diff(self, before: str, after: str) -> Iterator[Change]:
        rows, others = self._read_root(before), self._read_root(after)
        loaders = {row.range_id: partial(self._read_range, row) for row in [*rows, *others]}
        return diff_roots(rows, others, lambda id_: loaders[id_]())

    def _keep(self, target: VolumeTarget, entry: Entry) -> bool:
        if target.looks_untouched(entry):
            return True
        target.prepare([entry])
        return target.is_in_place(entry)

    def _hydrate(self, target: VolumeTarget, entries: Iterator[Entry], next_packs: NextPacks | None = None) -> None:
        before = HydrationProgress()

        def count(progress: HydrationProgress) -> None:
            nonlocal before
            done, before = before, progress
            self._reporter.add(
                files_done=progress.files - done.files,
                bytes_done=progress.size_bytes - done.size_bytes,
                bytes_moved=progress.bytes_moved - done.bytes_moved,
            )

        count(
            hydrate(
                self._packs,
                target,
                entries,
                policy=replace(self._policy, sleep=self._cancellation.sleep),
                on_progress=count,
                cancellation=self._cancellation,
                next_packs=next_packs,
            )
        )

    def _seal(self, task: Task, target: VolumeTarget) -> list[bytes]:
        """Require exactly the files of the commit; remove what else is there, and return it."""
        strays: list[bytes] = []
        if sum(1 for _ in target.list_files()) != task.files:
            known = {entry.path for entry in self._list_entries(task.root)}
            strays = [path for path in target.list_files() if path not in known]
            for path in strays:
                target.remove(path)
            files = sum(1 for _ in target.list_files())
            if files != task.files:
                raise Conflict(
                    f"The volume has another number of files ({files:,}) than the commit ({task.files:,}): something "
                    "else writes to it, or its file system cannot keep all names apart."
                )
        sync_disk(self._folder)
        return strays

    def _count(self, entry: Entry, *, bytes_shared: int = 0, bytes_copied: int = 0) -> None:
        self._cancellation.check()
        self._reporter.add(files_done=1, bytes_done=entry.size, bytes_shared=bytes_shared, bytes_copied=bytes_copied)

    def _list_entries(self, root: str) -> Iterator[Entry]:
        """Yield the entries of a tree; one range is in memory at a time."""
        rows = self._read_root(root)
        self._reader.announce([(ObjectKind.RANGE, row.range_id) for row in rows])
        for row in rows:
            yield from self._read_range(row)

    def _read_root(self, root: str) -> Sequence[RootRange]:
        return self._reader.read((ObjectKind.ROOT, root), lambda view: check_root(root, bytes(view)))

    def _read_range(self, row: RootRange) -> RangeEntries:
        return check_range(row, self._reader.load_range(row.range_id))


def _first(entries: Iterator[Entry]) -> list[Entry]:
    """Take the next entries, as many as one question to another host names."""
    batch: list[Entry] = []
    size = 0
    while len(batch) < _BATCH_FILES and size < _BATCH_BYTES and (entry := next(entries, None)) is not None:
        batch.append(entry)
        size += entry.size
    return batch


def main(arguments: list[str] | None = None) -> int:
    """Do one duty and return the exit code."""
    given = _parse(arguments)
    try:
        if given.duty == "remove":
            pools.remove(given.volume, given.copy)
            _note({"removed": given.copy})
        elif given.duty == "serve":
            folder = given.volume / given.copy
            serve(folder / FILES, folder / READY, Path(os.environ["NEARLINE_COPY_TOKEN_FILE"]))
        elif given.duty in _IMPORTING:
            _note(_work_on_import(given))
        else:
            _work(given)
    except (NearlineError, ContentError) as error:
        _note({"error": str(error), "code": error.code, "details": getattr(error, "details", {})})
        return HOPELESS if isinstance(error, ContentError | Conflict | Failed | NotFound) else 1
    except Cancelled:
        # The next pod has a new token, if anybody still wants the copy.
        _note({"error": "The platform does not know this token any more."})
        return 1
    except OSError as error:
        path, verb = os.fsdecode(error.filename or ""), "read" if given.duty in {"check", *_IMPORTING} else "written"
        _note({"error": f"'{path}' cannot be {verb}: {error.strerror}.", "errno": error.errno})
        return HOPELESS if error.errno in _HOPELESS_ERRORS else 1
    return 0


def _work_on_import(given: argparse.Namespace) -> Mapping[str, object]:
    http = _connect()
    work = imports.import_folder if given.duty == "import" else imports.promote_folder
    try:
        return work(given.volume, imports.ImportRoutes(http))
    finally:
        http.close()


def _work(given: argparse.Namespace) -> None:
    """Fill or verify a copy, and note what was done."""
    pool: Path | None = given.volume if given.copy else None
    folder: Path = given.volume / given.copy
    http = _connect()
    share = (int(os.environ[_SHARE]), given.shares) if given.duty == "share" else None
    routes = CopyRoutes(http, share)
    try:
        task = routes.get_task()
        with Reporter(routes) as reporter:
            if given.duty == "verify":
                _note(_describe(task, Copy(folder, routes, reporter).verify(task, given.part, pool)))
                return
            if given.duty == "check":
                _note(
                    {"root": task.root, **asdict(Copy(folder, routes, reporter).check(task, given.part)), "damaged": 0}
                )
                reporter.send()
                return
            folder.mkdir(exist_ok=True)
            copy = Copy(folder, routes, reporter)
            if share is not None:
                totals = copy.fill_share(task, share, donor=given.donor)
                reporter.has_filled = True
                _note({"root": task.root, **asdict(totals)})
                reporter.send()
                return
            base = pool / given.base if pool is not None and given.base else None
            peer = Peer.read_from(Path(os.environ[_PEER])) if _PEER in os.environ else None
            totals = copy.fill(task, base=base, donor=given.donor, peer=peer, shares=given.shares)
            _note({"root": task.root, **asdict(totals)})
            reporter.send()
    finally:
        http.close()


def _connect() -> Http:
    """Open a connection to the platform. One that has never answered is away: its address was tried before."""
    url, token = os.environ["NEARLINE_URL"], Path(os.environ["NEARLINE_COPY_TOKEN_FILE"]).read_text().strip()
    return Http(url, token, policy=api_policy(), max_first_attempts=sys.maxsize)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m nearline.pod.copies", description="Fill or verify a cached commit.")
    parser.add_argument("duty", choices=["fill", "share", "verify", "remove", "serve", "check", *_IMPORTING])
    parser.add_argument("volume", type=Path)
    parser.add_argument("donor", type=Path, nargs="?", help="the files of a copy on another volume")
    parser.add_argument("--part", type=_part, help="read these files only: 3/30 is the fourth of thirty parts")
    parser.add_argument("--copy", default="", help="the copy's folder, on a volume that several share")
    parser.add_argument("--base", default="", help="the folder of another copy there, to share files with")
    parser.add_argument("--shares", type=int, default=0, help="how many pods fill the copy, where they are several")
    return parser.parse_args(arguments)


def _part(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    return int(number), int(count)


def _describe(task: Task, damage: Sequence[Damaged]) -> Mapping[str, object]:
    named: list[tuple[object, ...]] = []
    size = 0
    for item in damage:
        row = (_show(item.path), item.kind, [(copy, _show(path)) for copy, path in item.also])
        size += len(json.dumps(row)) + 2
        if size > _MOST_MESSAGE:
            break
        named.append(row)
    return {"root": task.root, "damaged": len(damage), "files": named}


def _show(path: bytes) -> str:
    return to_text(path).encode("utf-8", "backslashreplace").decode()


def _note(facts: Mapping[str, object]) -> None:
    noted = {**facts, "error": _shorten(str(facts["error"]))} if "error" in facts else facts
    _MESSAGE.write_text(json.dumps(noted))
    sys.stderr.write(f"{json.dumps(facts)}\n")


def _shorten(words: str) -> str:
    """Return the beginning of an error. A cluster cuts a message at 4096 bytes, and what is left of JSON is none."""
    sizes = accumulate(len(json.dumps(letter)) - 2 for letter in words)
    beginning = words[: sum(size <= _MOST_ERROR for size in sizes)]
    return words if beginning == words else f"{beginning}…"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return value


def _write(path: Path, value: Mapping[str, object]) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(value))
    draft.replace(path)
    sync_disk(path.parent)


if __name__ == "__main__":
    sys.exit(main())
