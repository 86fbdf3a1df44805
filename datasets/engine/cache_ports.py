"""What caching asks of a cache site, in two ports.

`CacheSiteDriver` is the site as the rest of the product sees it: it may be remote, and may take hours. `CopyFolder` is
a POSIX folder that holds copies: what a driver is built on where this host, or the host that runs it, has one.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from nearline.content.manifest import Entry

EARLY_FOLDER: Final = ".early"
"""In the folder of a site: links to its copies by their ids, which are read there also before they are complete."""


class Sharing(StrEnum):
    """How copies can have a file in common: as files over the same blocks, as one file with many names, not at all.

    Through a hard link a write to one copy is a write to the other; scrubbing finds that.
    """

    REFLINK = "reflink"
    HARD_LINK = "hard link"
    NONE = "none"


@dataclass(frozen=True)
class SiteUsage:
    """The size of the storage behind a site and what is free in it, whoever uses it.

    One that is not measured, as nobody can say now, is the capacity of the site less what its copies take.
    """

    total_bytes: int
    free_bytes: int
    is_measured: bool = True


class DamageKind(StrEnum):
    """How a copy can differ from its commit."""

    MISSING = "missing"
    CHANGED = "changed"
    STRAY = "stray"


@dataclass(frozen=True)
class Damage:
    """One path of a copy that is not as the commit says. `file_key` identifies the damaged file across copies.

    `also` are other copies, by id, and the paths in them that are the very same file.
    """

    path: bytes
    kind: DamageKind
    file_key: int | None = None
    also: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class Findings:
    """What was damaged in a copy and is healed: how many paths, and those of them that are named."""

    count: int
    named: Sequence[Damage] = ()


class Staging(Protocol):
    """A copy in the making, invisible until it is published. Belongs to one token; a later token takes it away.

    Methods raise StagingLost once a later token has the copy, CacheSiteFull when the disk is full and
    CacheSiteUnavailable when it fails.
    """

    @property
    def folder(self) -> Path:
        """Where the files are written. It holds what an earlier token has made, whole files only."""

    def share(self, entry: Entry, *, base: str, base_path: bytes) -> bool:
        """Make the entry out of the same file of the published copy at `base`; False when that cannot be done.

        A base file whose size, time or mode shows that someone wrote to it is never shared.
        """

    def copy(self, entry: Entry, source: Path) -> bool:
        """Make the entry out of the file at `source`, which lies anywhere on this host, as an independent file.

        Every byte is read and compared with the entry's hash. False, and nothing is left, when the file is not there or
        is not the entry's.
        """

    def publish(self, path: str, *, files: int) -> None:
        """Make the copy, which must have so many files, read-only and durable, then visible at `path` in one step.

        Publishing again what is published is no error. Raises CacheSiteUnavailable and discards what is staged when
        the number is another: something else was written there, or the file system cannot keep all names apart.
        """


@dataclass(frozen=True)
class Fetched:
    """What `fetch` has brought so far, the bytes that were read from the store for it, and what it waits for."""

    files: int = 0
    size_bytes: int = 0
    bytes_moved: int = 0
    waits_for: str = ""


Fetch = Callable[[Iterable[Entry], Path, Callable[[Fetched], None]], None]
"""Writes entries of a commit under a folder from the store, each file verified, and reports running totals.

What is there with the right bytes is kept. Raises what `hydrate` raises.
"""


@dataclass(frozen=True)
class ProbeStep:
    """A step of the trial of a storage class, and how long it took. `refusal`: why it did not work; empty: it did."""

    name: str
    seconds: float
    refusal: str = ""


@dataclass(frozen=True)
class CopyProgress:
    """How far a copy is, and where its bytes came from.

    `bytes_shared` are in a base on the same site, `bytes_copied` came from another site, `bytes_moved` from the store.
    `waits_for` says what holds it up at the moment. `rate_bytes_s` is what the site knows of its speed; None: measure.
    """

    files_done: int = 0
    bytes_done: int = 0
    bytes_shared: int = 0
    bytes_copied: int = 0
    bytes_moved: int = 0
    rate_bytes_s: float | None = None
    waits_for: str = ""
    is_ready: bool = False


@dataclass(frozen=True)
class CloneBase:
    """A ready copy on the same site, from which a new one is cloned.

    `find_path` returns the path at which the base holds the same file; None when it has no such file.
    """

    location: str
    find_path: Callable[[Entry], bytes | None]


@dataclass(frozen=True)
class Donor:
    """A copy of the same commit on another site that the driver can read: ready, or being filled while `is_coming`.

    One that is being filled is only given where the kind of its site lets others read it then. `doubt` is called once a
    file that should be there cannot be taken: the copy is then compared with its commit.
    """

    site: "CacheSiteDriver"
    id: str
    location: str
    is_coming: Callable[[], bool] = lambda: False
    doubt: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class CopyRequest:
    """The copy that shall be on a site.

    `token` is a fence: work under an earlier token can change nothing any more. `location` is relative to the site.
    `bytes_shared` is what the plan shares with `base`. `started_at` is when the filling began. `list_entries` reads the
    tree and can be called again.
    """

    id: str
    token: str
    location: str
    files: int
    size_bytes: int
    bytes_shared: int
    started_at: datetime
    list_entries: Callable[[], Iterator[Entry]]
    fetch: Fetch
    base: CloneBase | None = None
    donor: Donor | None = None


class CopyLease(Protocol):
    """The right to work on one copy."""

    @property
    def is_lost(self) -> bool:
        """Whether the work must stop."""

    def confirm(self) -> None:
        """Renew the lease now. Raises StagingLost when it is no longer ours."""

    def report(self, progress: CopyProgress) -> None:
        """Note how far the copy is. Cheap: it is written now and then."""


class Verifier(Protocol):
    """Compares copies with their commits and heals them where no host has the folder."""

    def verify(self, copy_id: str, *, part: tuple[int, int] | None) -> Findings | None:
        """Return what was damaged in a ready copy and is healed by now, also in the other copies that have the file.

        None while that is being found out: ask again.

        Of `part`, the number of a part and how many there are, every file is read; of the others only those whose size,
        time or mode shows that someone wrote to them. None: all are read. Raises what reading the store raises, and
        CacheSiteUnavailable.
        """


@runtime_checkable
class StopsFilling(Protocol):
    """A site that works alone and can be told to fill a copy no longer."""

    def stop(self, copy_id: str) -> bool:
        """Fill a copy no longer, and say whether that is so; one that is about to be ready is let get ready.

        What is there of it stays, and `ensure` goes on with that. Stopping again is no error. False also where the site
        does not answer. Raises CacheSiteUnavailable where it refuses.
        """


class CacheSiteDriver(Protocol):
    """Keeps copies of commits on one site. Level-triggered: a call says what shall be, and can be repeated at will.

    Methods raise CacheSiteUnavailable when the site cannot be reached or does not work.
    """

    @property
    def sharing(self) -> Sharing:
        """How copies on this site share files."""

    @property
    def folder(self) -> "CopyFolder | None":
        """The folder through which this host reads and repairs the copies; None when it has none."""

    @property
    def verifier(self) -> Verifier | None:
        """What looks after copies that no host has in a folder; None: the folder is read, or there is nothing."""

    def usage(self) -> SiteUsage:
        """Return the size of the storage behind the site and what is free in it."""

    def now_ns(self) -> int:
        """Return the present by the site's own clock, by which it dates changes of files."""

    def can_read(self, other: "CacheSiteDriver") -> bool:
        """Say whether copies on another site can be read from here, which is nearer than the store."""

    def ensure(self, copy: CopyRequest, lease: CopyLease) -> CopyProgress:
        """Bring a copy as far as this call gets it, and return how far it is.

        It is cloned from `base` and `donor` as far as they have its files; the store gives the rest. Once it is ready,
        it is complete, verified, read-only and visible at its location. Until then only jobs that start early see it,
        each file whole. A site that does not work alone returns only when it is ready. Raises StagingLost,
        CacheSiteFull and what `fetch` raises.
        """

    def delete(
        self,
        copy_id: str,
        *,
        location: str,
        token: str,
        settle: Callable[[int], None] | None,
        keep_going: Callable[[], bool],
    ) -> bool:
        """Take a copy, ready or unfinished, out of sight at once and then off the site; say whether all of it is gone.

        `settle` gets, before anything is removed, the bytes that the removal frees: those that no other copy shares.
        Stops when `keep_going`, asked now and then, says no; then call again later. Deleting what is gone is no error.
        """

    def list(self) -> Mapping[str, str]:
        """Return by id every copy of which anything lies on the site, with its location; empty: it is not published."""


class CopyFolder(Protocol):
    """Holds copies under paths such as `project/dataset/commit`, each complete and read-only, or not there at all."""

    @property
    def sharing(self) -> Sharing:
        """How copies in this folder share files."""

    def usage(self) -> SiteUsage:
        """Return the size of the file system and what is free. Raises CacheSiteUnavailable."""

    def now_ns(self) -> int:
        """Return the present by the file system's own clock, by which it dates changes of files."""

    def path_of(self, path: str) -> Path:
        """Return the folder of a published copy."""

    def early_path_of(self, copy_id: str) -> Path:
        """Return a path that leads to a copy while it is being filled, and when it is published."""

    def stage(self, copy_id: str, token: str) -> Staging:
        """Begin or take over the making of a copy for `token`, keeping what an earlier token has made of it."""

    def is_published(self, path: str, copy_id: str) -> bool:
        """Say whether the copy at `path` is complete and is the one with this id."""

    def hide(self, path: str, copy_id: str) -> None:
        """Make a published copy invisible in one step, at once; another copy at that path is left alone."""

    def weigh(self, copy_id: str) -> int:
        """Return how many bytes of a hidden or staged copy no other copy shares: what its removal frees."""

    def remove(self, copy_id: str, *, keep_going: Callable[[], bool]) -> bool:
        """Remove what is hidden or staged of a copy; say whether all of it is gone.

        Stops when `keep_going`, asked now and then, says no; then call again later.
        """

    def list_leftovers(self) -> set[str]:
        """Return the ids of the copies of which something is staged or hidden."""

    def list_published(self) -> Mapping[str, str]:
        """Return the path of every published copy by its id."""

    def inspect(
        self, path: str, entries: Iterable[Entry], *, quiet_since_ns: int | None, must_read: Callable[[Entry], bool]
    ) -> Iterator[Damage]:
        """Compare a published copy with its entries and yield what differs.

        A file is read when `must_read` says so, or when its size, time or mode shows that someone wrote to it, or when
        it was changed after `quiet_since_ns`. What is intact but looks touched is made to look untouched again.
        """

    def find_sharers(self, paths: Collection[str], file_keys: Collection[int]) -> Mapping[int, list[tuple[str, bytes]]]:
        """Return for each file key the copies (of `paths`) and the paths in them that are this very file."""

    def replace(self, targets: Iterable[tuple[str, bytes]], entry: Entry, *, good: Path) -> None:
        """Put the file `good`, which lies in this folder, in the place of each target, never writing into a target.

        A target is a copy's path and a path in it. They share the new file as copies in this folder share files. A
        target whose copy is hidden is skipped.
        """

    def discard(self, path: str, stray: bytes, copy_id: str) -> None:
        """Take something that is not part of the commit out of a published copy."""
