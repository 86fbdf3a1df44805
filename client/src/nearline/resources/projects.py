"""Projects: the teams that own datasets, flows and runs."""

from collections.abc import Iterator

from nearline._http import Http
from nearline.models import Project


class Projects:
    """The projects that the caller is a member of."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> Iterator[Project]:
        """Yield the projects by name."""
        return map(Project.read, self._http.list_items("/projects"))

    def create(self, name: str, *, description: str = "") -> Project:
        """Make a project whose first admin is the caller. Raises Conflict when the name is taken."""
        return Project.read(self._http.post("/projects", {"name": name, "description": description}))
