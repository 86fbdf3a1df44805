"""What the shell shows on every page: the entries of the rail and the numbers of the top bar.

Each app adds its own entries when it starts, so that the shell knows no product noun.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from accounts.actor import Actor


class Group(IntEnum):
    """The three parts of the rail, from top to bottom."""

    WORK = 1
    PLACES = 2
    SITE = 3


@dataclass(frozen=True)
class Entry:
    """One line of the rail.

    `prefixes` are the paths below which the entry is the current one. `count` says what stands at its right, and may
    return an empty text; it runs on every page and so costs one cheap query at most.
    """

    label: str
    url: str
    icon: str
    group: Group
    position: int
    prefixes: tuple[str, ...] = ()
    count: Callable[[Actor], int | str] | None = None

    def is_current(self, path: str) -> bool:
        """Whether a page at `path` belongs to this entry."""
        return path == self.url or path.startswith(self.prefixes)


@dataclass(frozen=True)
class Activity:
    """How much runs and how much waits at this moment."""

    running: int
    waiting: int


_entries: dict[str, Entry] = {}
_activity: list[Callable[[Actor], Activity]] = []


def add_entry(entry: Entry) -> None:
    """Put an entry into the rail. One with the same label is replaced."""
    _entries[entry.label] = entry


def entries() -> list[Entry]:
    """Return the entries from top to bottom."""
    return sorted(_entries.values(), key=lambda entry: (entry.group, entry.position))


def show_activity(count: Callable[[Actor], Activity]) -> None:
    """Choose what counts the top bar's numbers."""
    _activity[:] = [count]


def activity(actor: Actor) -> Activity | None:
    """Return the top bar's numbers; None when no app counts any."""
    return _activity[0](actor) if _activity else None


add_entry(Entry("Settings", "/settings/tokens/", "settings", Group.SITE, 90, ("/settings/",)))
