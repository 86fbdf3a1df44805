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
    return an empty text; it runs on every page and so costs one cheap query at most. The page of an entry that
    `lists_by_project` shows one project's things for `?project=`. `words`: what else the search box finds it by.
    """

    label: str
    url: str
    icon: str
    group: Group
    position: int
    prefixes: tuple[str, ...] = ()
    count: Callable[[Actor], int | str] | None = None
    lists_by_project: bool = True
    words: str = ""

    def is_current(self, path: str) -> bool:
        """Whether a page at `path` belongs to this entry."""
        return path == self.url or path.startswith(self.prefixes)


@dataclass(frozen=True)
class Tab:
    """One of the pages that stand together as settings. `site_admin_only`: nobody else gets to see it.

    `words`: what else the search box finds it by. `prefixes` are further paths whose pages show it as the current one,
    such as those to which its forms are sent.
    """

    label: str
    url: str
    position: int
    site_admin_only: bool = False
    words: str = ""
    prefixes: tuple[str, ...] = ()

    def is_current(self, path: str) -> bool:
        """Whether a page at `path` belongs to this tab."""
        return path.startswith((self.url, *self.prefixes))


@dataclass(frozen=True)
class Activity:
    """How much runs and how much waits at this moment."""

    running: int
    waiting: int


_entries: dict[str, Entry] = {}
_tabs: dict[str, Tab] = {}
_activity: list[Callable[[Actor], Activity]] = []


def add_entry(entry: Entry) -> None:
    """Put an entry into the rail. One with the same label is replaced."""
    _entries[entry.label] = entry


def entries() -> list[Entry]:
    """Return the entries from top to bottom."""
    return sorted(_entries.values(), key=lambda entry: (entry.group, entry.position))


def find_current(path: str) -> Entry | None:
    """Return the entry that a page at `path` belongs to; None where it belongs to none."""
    return next((entry for entry in entries() if entry.is_current(path)), None)


def add_tab(tab: Tab) -> None:
    """Put a page among the settings. One with the same label is replaced."""
    _tabs[tab.label] = tab


def tabs(actor: Actor) -> list[Tab]:
    """Return the settings that the actor may see, from left to right."""
    seen = [tab for tab in _tabs.values() if actor.is_site_admin or not tab.site_admin_only]
    return sorted(seen, key=lambda tab: tab.position)


def show_activity(count: Callable[[Actor], Activity]) -> None:
    """Choose what counts the top bar's numbers."""
    _activity[:] = [count]


def activity(actor: Actor) -> Activity | None:
    """Return the top bar's numbers; None when no app counts any."""
    return _activity[0](actor) if _activity else None


add_entry(Entry("Settings", "/settings/profile/", "settings", Group.SITE, 90, ("/settings/",), lists_by_project=False))
add_tab(Tab("Profile", "/settings/profile/", 10, words="password sessions", prefixes=("/accounts/password/",)))
add_tab(Tab("Access tokens", "/settings/tokens/", 20, words="api cli"))
add_tab(
    Tab(
        "Projects and members", "/settings/members/", 30, words="roles teams secrets", prefixes=("/settings/projects/",)
    )
)
add_tab(Tab("People", "/settings/people/", 40, site_admin_only=True, words="users accounts sign-in links"))
add_tab(Tab("Audit log", "/settings/audit/", 60, words="history events"))
