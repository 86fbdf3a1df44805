"""Projects: the teams that own datasets, flows and runs."""

from collections.abc import Iterator

from nearline._http import Http, quoted
from nearline.models import Project, ProjectStorage


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

    def storage(self, name: str) -> ProjectStorage:
        """Return what a project stores, its limit, and what takes most. Raises NotFound."""
        return ProjectStorage.read(self._http.get("/projects" + quoted(name) + "/storage"))

    def limit_storage(self, name: str, limit_bytes: int | None) -> ProjectStorage:
        """Limit what a project stores; None lifts the limit. For site admins. Raises NotFound."""
        answer = self._http.patch("/projects" + quoted(name) + "/storage", {"limit_bytes": limit_bytes})
        return ProjectStorage.read(answer)
