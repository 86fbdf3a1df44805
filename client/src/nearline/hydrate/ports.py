"""What hydration asks of the place that packs come from, and of the place that files go to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from nearline.content.entries import Entry
from nearline.content.hashing import Buffer


@dataclass(frozen=True)
class HydrationProgress:
    """What is in place: files, their bytes, and the bytes that were read from the source for them."""

    files: int = 0
    size_bytes: int = 0
    bytes_moved: int = 0


OnProgress = Callable[[HydrationProgress], None]


def ignore_progress(_: HydrationProgress) -> None:
    """Report no progress."""


class PackSource(Protocol):
    """Where packs are read from. Safe to use from several threads. Packs are named by their SHA-256 in hexadecimal."""

    def announce(self, packs: Sequence[str]) -> None:
        """Learn which packs are read next, in this order, so that permission for many can be asked for at once."""

    def read(self, pack: str, offset: int, size: int) -> Buffer:
        """Make one attempt at reading a part of a pack. The engine repeats it by its retry policy.

        The bytes are not verified, and are valid until the same thread reads again.
        """

    def damage_error(self, path: bytes, pack: str | None) -> Exception:
        """Return the error that ends the hydration: what a file needs of a pack stays damaged after all reads.

        Reports the pack as damaged where that leads to its repair. `pack` is None when every piece of the file is right
        and the whole is not.
        """


class Target(Protocol):
    """Where files become visible, each at once and complete.

    `prepare`, `is_in_place`, `write_link` and `finish` are called by one thread; the others by several at once.
    """

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Make what the next entries need: their folders."""

    def is_in_place(self, entry: Entry) -> bool:
        """Return whether the entry is there already and need not be written."""

    def write_file(self, entry: Entry, content: Buffer) -> None:
        """Make a file visible."""

    def write_piece(self, entry: Entry, offset: int, content: Buffer) -> None:
        """Write a piece of a large file, which stays invisible."""

    def publish(self, entry: Entry) -> bool:
        """Make a large file visible if the whole has the hash of its entry. Return False if it has not."""

    def discard(self, entry: Entry) -> None:
        """Remove the pieces of a large file; there may be none."""

    def write_link(self, entry: Entry) -> None:
        """Make a symbolic link."""

    def finish(self) -> None:
        """End the work after the last entry."""
