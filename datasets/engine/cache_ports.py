"""What caching asks of the place where copies lie, with the guarantees that the rest relies on."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from nearline.content.manifest import Entry


class Sharing(StrEnum):
    """How copies can have a file in common: as files over the same blocks, as one file with many names, not at all.

    Through a hard link a write to one copy is a write to the other; scrubbing finds that.
    """

    REFLINK = "reflink"
    HARD_LINK = "hard link"
    NONE = "none"


@dataclass(frozen=True)
class SiteUsage:
    """The size of the file system behind a site and what is free in it, whoever uses it."""

    total_bytes: int
    free_bytes: int


class DamageKind(StrEnum):
    """How a copy can differ from its commit."""

    MISSING = "missing"
    CHANGED = "changed"
    STRAY = "stray"


@dataclass(frozen=True)
class Damage:
    """One path of a copy that is not as the commit says. `file_key` identifies the damaged file across copies."""

    path: bytes
    kind: DamageKind
    file_key: int | None = None


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

    def publish(self, path: str, *, files: int) -> None:
        """Make the copy, which must have so many files, read-only and durable, then visible at `path` in one step.

        Publishing again what is published is no error. Raises CacheSiteUnavailable and discards what is staged when
        the number is another: something else was written there, or the file system cannot keep all names apart.
        """


class CopyFolder(Protocol):
    """Holds copies under paths such as `project/dataset/commit`, each complete and read-only, or not there at all."""

    @property
    def sharing(self) -> Sharing:
        """How copies on this volume share files."""

    def usage(self) -> SiteUsage:
        """Return the size of the volume and what is free. Raises CacheSiteUnavailable."""

    def now_ns(self) -> int:
        """Return the present by the volume's own clock, by which it dates changes of files."""

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
        """Put the file `good`, which lies on this volume, in the place of each target, never writing into a target.

        A target is a copy's path and a path in it. They share the new file as copies on this volume share files. A
        target whose copy is hidden is skipped.
        """

    def discard(self, path: str, stray: bytes, copy_id: str) -> None:
        """Take something that is not part of the commit out of a published copy."""
