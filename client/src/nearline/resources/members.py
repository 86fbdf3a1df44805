"""The members of projects and their roles."""

from collections.abc import Iterator

from nearline._http import Http, quoted
from nearline.models import Member


class Members:
    """Who may do what in a project. To change it needs its role `admin`."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, project: str) -> Iterator[Member]:
        """Yield the members, oldest first. Raises NotFound."""
        return map(Member.read, self._http.list_items(_route(project)))

    def set(self, project: str, username: str, role: str) -> Member:
        """Give a person a role: `viewer`, `member` or `admin`. Raises NotFound, and Conflict for the last admin."""
        return Member.read(self._http.put(_route(project) + quoted(username), {"role": role}))

    def remove(self, project: str, username: str) -> None:
        """End a person's membership. Raises NotFound, and Conflict for the last admin."""
        self._http.delete(_route(project) + quoted(username))


def _route(project: str) -> str:
    return "/projects" + quoted(project) + "/members"
