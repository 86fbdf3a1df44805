"""The secrets of projects, which jobs ask for by name."""

from collections.abc import Iterator

from nearline._http import Http, quoted
from nearline.models import Secret


class Secrets:
    """Values that jobs of a project get as variables. No answer holds one."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, project: str) -> Iterator[Secret]:
        """Yield the names, oldest first. Raises NotFound."""
        return map(Secret.read, self._http.list_items(_route(project)))

    def set(self, project: str, name: str, value: str) -> Secret:
        """Store or replace a secret. Raises InvalidRequest for a name that is no variable, and NotFound."""
        return Secret.read(self._http.put(_route(project) + quoted(name), {"value": value}))

    def delete(self, project: str, name: str) -> None:
        """Forget a secret. Raises NotFound."""
        self._http.delete(_route(project) + quoted(name))


def _route(project: str) -> str:
    return "/projects" + quoted(project) + "/secrets"
