"""The shell around every page: the rail, the numbers of the top bar, and the project that a person works in.

Each app adds its own entries when it starts, so that the shell knows no product noun.

The address says of which project a list shows things (`?project=team-a`; `?project=` for all), so that it can be shared
and reloaded. The session only remembers the last choice: it leads from the bare address of a list to that of the chosen
project.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils.deprecation import MiddlewareMixin

from accounts.permissions import Actor
from accounts.selectors import list_projects
from core.leases import find_standstill
from core.outages import optional_write
from core.pagination import Page, paginate_by

_PROJECT = "project"
_MOST_PROJECTS = 200


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


def chosen_project(request: HttpRequest) -> str:
    """Return the project that lists are limited to; an empty text: all."""
    if is_list(request) and request.GET:
        return request.GET.get(_PROJECT, "").strip()
    return str(request.session.get(_PROJECT, ""))


def is_list(request: HttpRequest) -> bool:
    """Whether the address is that of a list that can be limited to one project."""
    return any(request.path == entry.url for entry in entries() if entry.lists_by_project)


def list_url(path: str) -> str:
    """Return the list that the choice of a project leads to from a page: that of its section, or else the overview."""
    current = find_current(path)
    return current.url if current and current.lists_by_project else "/"


def find_projects(actor: Actor, part: str = "", cursor: str | None = None) -> Page[Any]:
    """Return the projects to choose from, by name; `part` is in it."""
    visible = list_projects(actor=actor, part=part)
    return paginate_by(visible, field="name", descending=False, cursor=cursor, limit=_MOST_PROJECTS)


class ProjectChoiceMiddleware(MiddlewareMixin):
    """Leads to the chosen project, and remembers a new choice once a list has shown it."""

    def process_view(
        self, request: HttpRequest, _view: Callable[..., HttpResponseBase], _args: object, _kwargs: object
    ) -> HttpResponse | None:
        """Send a bare address of a list on to the chosen project."""
        if request.method != "GET" or request.GET or not request.user.is_authenticated or not is_list(request):
            return None
        name = request.session.get(_PROJECT)
        return redirect(f"{request.path}?{urlencode({_PROJECT: name})}") if name else None

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Remember the project of a list that was shown; forget one that is no more."""
        name = request.GET.get(_PROJECT)
        if name is None or request.method != "GET" or not hasattr(request, "session") or not is_list(request):
            return response
        known = request.session.get(_PROJECT, "")
        if response.status_code == HTTPStatus.OK and known != name.strip():
            request.session[_PROJECT] = name.strip()
        elif response.status_code == HTTPStatus.NOT_FOUND and known == name.strip():
            request.session.pop(_PROJECT, None)
        if request.session.modified and request.session.session_key:
            # Saved here, as the middleware of sessions would answer a full disk by an error instead of the list.
            with optional_write():
                request.session.save()
            request.session.modified = False
        return response


def frame(request: HttpRequest) -> dict[str, object]:
    """Return the shell's values. A part of a page, which htmx asked for, has no shell and needs none."""
    actor: Actor | None = getattr(request, "actor", None)
    if actor is None or getattr(request, "htmx", False):
        return {}
    rail = entries()
    current = find_current(request.path)
    return {
        "frame": {
            "actor": actor,
            "entries": [
                {
                    "entry": entry,
                    "is_current": entry is current,
                    "count": entry.count(actor) if entry.count else "",
                    "starts_group": position > 0 and entry.group != rail[position - 1].group,
                }
                for position, entry in enumerate(rail)
            ],
            "section_url": list_url(request.path),
            "activity": activity(actor),
            "standstill": find_standstill(),
            "project": chosen_project(request),
            "projects": find_projects(actor),
        }
    }


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
