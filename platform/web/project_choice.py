"""The project that a person works in, kept from page to page.

The address says what a list shows (`?project=team-a`; `?project=` for all), so that it can be shared and reloaded. The
session only remembers the last choice: it leads from the bare address of a list to that of the chosen project.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils.deprecation import MiddlewareMixin

from accounts.actor import Actor
from accounts.selectors import list_projects
from core.pagination import Page, paginate_by
from core.storage import optional_write
from web import navigation

_KEY = "project"
_MOST = 200


def chosen_project(request: HttpRequest) -> str:
    """Return the project that lists are limited to; an empty text: all."""
    if is_list(request) and request.GET:
        return request.GET.get(_KEY, "").strip()
    return str(request.session.get(_KEY, ""))


def is_list(request: HttpRequest) -> bool:
    """Whether the address is that of a list that can be limited to one project."""
    return any(request.path == entry.url for entry in navigation.entries() if entry.lists_by_project)


def list_url(path: str) -> str:
    """Return the list that the choice of a project leads to from a page: that of its section, or else the overview."""
    current = navigation.find_current(path)
    return current.url if current and current.lists_by_project else "/"


def find_projects(actor: Actor, part: str = "", cursor: str | None = None) -> Page[Any]:
    """Return the projects to choose from, by name; `part` is in it."""
    visible = list_projects(actor=actor, part=part)
    return paginate_by(visible, field="name", descending=False, cursor=cursor, limit=_MOST)


class ProjectChoiceMiddleware(MiddlewareMixin):
    """Leads to the chosen project, and remembers a new choice once a list has shown it."""

    def process_view(
        self, request: HttpRequest, _view: Callable[..., HttpResponseBase], _args: object, _kwargs: object
    ) -> HttpResponse | None:
        """Send a bare address of a list on to the chosen project."""
        if request.method != "GET" or request.GET or not request.user.is_authenticated or not is_list(request):
            return None
        name = request.session.get(_KEY)
        return redirect(f"{request.path}?{urlencode({_KEY: name})}") if name else None

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Remember the project of a list that was shown; forget one that is no more."""
        name = request.GET.get(_KEY)
        if name is None or request.method != "GET" or not hasattr(request, "session") or not is_list(request):
            return response
        known = request.session.get(_KEY, "")
        if response.status_code == HTTPStatus.OK and known != name.strip():
            request.session[_KEY] = name.strip()
        elif response.status_code == HTTPStatus.NOT_FOUND and known == name.strip():
            request.session.pop(_KEY, None)
        if request.session.modified and request.session.session_key:
            # Saved here, as the middleware of sessions would answer a full disk by an error instead of the list.
            with optional_write():
                request.session.save()
            request.session.modified = False
        return response
