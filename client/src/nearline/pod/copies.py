"""What a pod does for a cached commit on a volume: `fill` it, or `verify` it and heal what is damaged.

`python -m nearline.pod.copies fill /volume [/donor]` or `... verify /volume --part 3/30`, with the platform's address
in NEARLINE_URL and the file of the copy's token in NEARLINE_COPY_TOKEN_FILE. The files of the commit lie in `files/` of
the volume. Beside it, READY names the tree that is complete there, and FILLING the one that is in the making, so that a
pod that was killed is followed by one that goes on. A clone of another volume brings that one's READY: then only what
differs is fetched.

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
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nearline._http import Http, api_policy
from nearline.content.diff import diff_roots
from nearline.content.entries import Entry, EntryKind
from nearline.content.errors import ContentError
from nearline.content.manifest import RangeEntries, RootRange, check_range
from nearline.content.paths import to_text
from nearline.errors import Conflict, Failed, NearlineError, NotFound, NotSignedIn
from nearline.hydrate.cancellation import Cancellation, Cancelled
from nearline.hydrate.disk import sync_disk
from nearline.hydrate.engine import hydrate
from nearline.hydrate.ports import HydrationProgress
from nearline.pod.volume_target import VolumeTarget
from nearline.resources.storage_routes import StorageRoutes
from nearline.transfer.remote.manifests import check_root
from nearline.transfer.remote.objects import ObjectReader, SignedPacks
from nearline.transfer.remote.retry import transfer_policy
from nearline.transfer.remote.server import ObjectKind, SignedRequest

FILES, READY, FILLING = "files", "READY", "FILLING"
HOPELESS = 3
"""The exit code of what trying again cannot cure."""
_MESSAGE = Path(os.environ.get("NEARLINE_TERMINATION_MESSAGE", "/dev/termination-log"))
_MOST_MESSAGE = 3500
_REPORT_S = 1.0
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


class CopyRoutes(StorageRoutes):
    """The platform's routes for the pods of one cached copy."""

    def get_task(self) -> Task:
        """Return what is to be done."""
        answer = self._api.get("/copy")
        return Task(answer["commit"], answer["root"], answer["files"], answer["size_bytes"])

    def report(self, totals: Totals, rate_bytes_s: float) -> None:
        """Say how far the copy is. Raises NotSignedIn when nobody wants it any more."""
        self._http.post("/copy/progress", {**asdict(totals), "rate_bytes_s": rate_bytes_s}, may_repeat=True)

    def sign_downloads(self, objects: Sequence[tuple[ObjectKind, str]]) -> list[SignedRequest]:
        """Ask for the right to read objects."""
        return self._sign_downloads("/copy", objects)

    def report_damaged_packs(self, packs: Sequence[str]) -> None:
        """Say which packs were found damaged."""
        self._http.post("/copy/damage", {"packs": list(packs)}, may_repeat=True)


class Reporter:
    """Tells the platform once a second how far the copy is, from a thread of its own."""

    def __init__(self, routes: CopyRoutes) -> None:
        self.totals = Totals()
        self.is_unwanted = False
        self._routes = routes
        self._started = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        """Begin to report."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop reporting."""
        self._ended.set()
        self._thread.join()

    def send(self) -> None:
        """Report now. A platform that is away is told later."""
        totals = self.totals
        passed_s = max(_MIN_RATE_S, time.monotonic() - self._started)
        try:
            self._routes.report(totals, (totals.bytes_done - totals.bytes_shared) / passed_s)
        except NotSignedIn:
            self.is_unwanted = True
        except NearlineError as error:
            sys.stderr.write(f"Progress was not reported: {error}\n")

    def _run(self) -> None:
        while not self._ended.wait(_REPORT_S):
            self.send()


class Copy:
    """One volume, and the work on it."""

    def __init__(self, volume: Path, routes: CopyRoutes, reporter: Reporter) -> None:
        self._volume = volume
        self._files = volume / FILES
        self._reporter = reporter
        self._policy = transfer_policy()
        self._routes = routes
        self._reader = ObjectReader(routes, self._policy)
        self._packs = SignedPacks(routes, self._policy)
        self._cancellation = Cancellation(lambda: reporter.is_unwanted)

    def fill(self, task: Task, donor: Path | None) -> Totals:
        """Bring the files of the commit into place, and mark the volume as complete."""
        made, begun = _read(self._volume / READY), _read(self._volume / FILLING)
        if begun is None and made is not None and made["root"] == task.root:
            return Totals(**made["totals"])
        base = made["root"] if made else None
        if begun is not None:
            base = begun["base"] if begun["root"] == task.root else None
        _write(self._volume / FILLING, {"root": task.root, "base": base})
        (self._volume / READY).unlink(missing_ok=True)
        target = VolumeTarget(self._files)
        target.prepare([])
        self._hydrate(target, self._choose(task, target, base, donor))
        self._seal(task, target)
        totals = self._reporter.totals
        _write(self._volume / READY, {"root": task.root, "commit_id": task.commit_id, "totals": asdict(totals)})
        (self._volume / FILLING).unlink()
        sync_disk(self._volume)
        return totals

    def verify(self, task: Task, part: tuple[int, int] | None) -> list[tuple[bytes, str]]:
        """Compare the files with the commit, put right what differs, and return it: paths and how they differed."""
        target = VolumeTarget(self._files, part=part)
        target.prepare([])
        self._hydrate(target, self._list_entries(task.root))
        strays = self._seal(task, target)
        return sorted([*target.damage, *((path, "stray") for path in strays)])

    def _choose(self, task: Task, target: VolumeTarget, base: str | None, donor: Path | None) -> Iterator[Entry]:
        """Yield the entries that the store must give; bring the others into place and count them."""
        changed: set[bytes] = set()
        if base is not None:
            rows = self._read_root(base)
            loaders = {row.range_id: partial(self._read_range, row) for row in [*rows, *self._read_root(task.root)]}
            for change in diff_roots(rows, self._read_root(task.root), lambda id_: loaders[id_]()):
                changed.add(change.path)
                if change.after is None:
                    target.remove(change.path)
        for entry in self._list_entries(task.root):
            if base is not None and entry.path not in changed and self._keep(target, entry):
                self._count(entry, bytes_shared=entry.size)
            elif donor is not None and entry.kind is EntryKind.FILE and target.copy(entry, donor):
                self._count(entry, bytes_copied=entry.size)
            else:
                yield entry

    def _keep(self, target: VolumeTarget, entry: Entry) -> bool:
        if target.looks_untouched(entry):
            return True
        target.prepare([entry])
        return target.is_in_place(entry)

    def _hydrate(self, target: VolumeTarget, entries: Iterator[Entry]) -> None:
        before = HydrationProgress()

        def count(progress: HydrationProgress) -> None:
            nonlocal before
            done, before = before, progress
            self._add(
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
            found = sum(1 for _ in target.list_files())
            if found != task.files:
                raise Conflict(
                    f"The volume has {found} files where the commit has {task.files}: something else writes to it, or "
                    "its file system cannot keep all names apart."
                )
        sync_disk(self._volume)
        return strays

    def _count(self, entry: Entry, *, bytes_shared: int = 0, bytes_copied: int = 0) -> None:
        self._cancellation.check()
        self._add(files_done=1, bytes_done=entry.size, bytes_shared=bytes_shared, bytes_copied=bytes_copied)

    def _add(self, **counts: int) -> None:
        totals = self._reporter.totals
        self._reporter.totals = replace(totals, **{key: getattr(totals, key) + value for key, value in counts.items()})

    def _list_entries(self, root: str) -> Iterator[Entry]:
        """Yield the entries of a tree; one range is in memory at a time."""
        rows = self._read_root(root)
        self._reader.announce([(ObjectKind.RANGE, row.range_id) for row in rows])
        for row in rows:
            yield from self._read_range(row)

    def _read_root(self, root: str) -> Sequence[RootRange]:
        return self._reader.read((ObjectKind.ROOT, root), lambda view: check_root(root, bytes(view)))

    def _read_range(self, row: RootRange) -> RangeEntries:
        return self._reader.read((ObjectKind.RANGE, row.range_id), lambda view: check_range(row, bytes(view)))


def main(arguments: list[str] | None = None) -> int:
    """Do one duty and return the exit code."""
    given = _parse(arguments)
    http = Http(os.environ["NEARLINE_URL"], _read_token(), policy=api_policy())
    routes = CopyRoutes(http)
    try:
        task = routes.get_task()
        with Reporter(routes) as reporter:
            copy = Copy(given.volume, routes, reporter)
            if given.duty == "fill":
                _note({"root": task.root, **asdict(copy.fill(task, given.donor))})
                reporter.send()
            else:
                _note(_describe(task, copy.verify(task, given.part)))
    except (NearlineError, ContentError) as error:
        _note({"error": str(error), "code": error.code, "details": getattr(error, "details", {})})
        return HOPELESS if isinstance(error, ContentError | Conflict | Failed | NotFound) else 1
    except Cancelled:
        # The next pod has a new token, if anybody still wants the copy.
        _note({"error": "The platform does not know this token any more."})
        return 1
    except OSError as error:
        _note({"error": f"'{error.filename}' cannot be written: {error.strerror}.", "errno": error.errno})
        return HOPELESS if error.errno in {errno.ENOSPC, errno.EDQUOT} else 1
    finally:
        http.close()
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m nearline.pod.copies", description="Fill or verify a cached commit.")
    parser.add_argument("duty", choices=["fill", "verify"])
    parser.add_argument("volume", type=Path)
    parser.add_argument("donor", type=Path, nargs="?", help="the files of a copy on another volume")
    parser.add_argument("--part", type=_part, help="read these files only: 3/30 is the fourth of thirty parts")
    return parser.parse_args(arguments)


def _part(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    return int(number), int(count)


def _read_token() -> str:
    return Path(os.environ["NEARLINE_COPY_TOKEN_FILE"]).read_text().strip()


def _describe(task: Task, damage: Sequence[tuple[bytes, str]]) -> Mapping[str, object]:
    named: list[tuple[str, str]] = []
    size = 0
    for path, kind in damage:
        text = to_text(path).encode("utf-8", "backslashreplace").decode()
        size += len(json.dumps([text, kind])) + 2
        if size > _MOST_MESSAGE:
            break
        named.append((text, kind))
    return {"root": task.root, "damaged": len(damage), "files": named}


def _note(facts: Mapping[str, object]) -> None:
    _MESSAGE.write_text(json.dumps(facts))
    sys.stderr.write(f"{json.dumps(facts)}\n")


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
