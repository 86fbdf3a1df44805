"""Projects: the teams that own datasets, flows and runs; their members, and the secrets that their jobs ask for."""

from collections.abc import Iterator

from nearline._http import Http, quoted
from nearline.models import AuditEntry, DeletedProject, DeletionForecast, Member, Project, ProjectStorage, Secret


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

    def foresee_deletion(self, name: str) -> DeletionForecast:
        """Return what the deletion of a project would do. Raises NotFound and Forbidden."""
        return DeletionForecast.read(self._http.get("/projects" + quoted(name) + "/deletion"))

    def delete(self, name: str, *, for_good: bool = False) -> DeletedProject:
        """Delete a project and have its work stopped; the answer says until when it can be restored."""
        return DeletedProject.read(self._http.delete("/projects" + quoted(name), for_good=for_good or None))

    def list_deleted(self) -> Iterator[DeletedProject]:
        """Yield the deleted projects that you may restore, and those whose removal goes on."""
        return map(DeletedProject.read, self._http.list_items("/deleted-projects"))

    def restore(self, name: str) -> Project:
        """Bring back a deleted project; what was stopped stays stopped. Raises NotFound when its time is over."""
        return Project.read(self._http.post("/deleted-projects" + quoted(name) + "/restore"))

    def delete_for_good(self, name: str) -> None:
        """Delete a project for good that could still be restored. Raises NotFound."""
        self._http.delete("/deleted-projects" + quoted(name))

    def list_audit_entries(self, name: str | None = None, *, limit: int | None = None) -> Iterator[AuditEntry]:
        """Yield who did what, newest first: in one project, or wherever the caller is an admin. Raises Forbidden."""
        path = "/audit" if name is None else "/projects" + quoted(name) + "/audit"
        return map(AuditEntry.read, self._http.list_items(path, limit=limit))

    def set_secret_users(self, name: str, role: str) -> Project:
        """Say which role a person needs to start what uses the project's secrets: `member` or `admin`."""
        return Project.read(self._http.patch("/projects" + quoted(name), {"secret_users": role}))

    def storage(self, name: str) -> ProjectStorage:
        """Return what a project stores, its limit, and what takes most. Raises NotFound."""
        return ProjectStorage.read(self._http.get("/projects" + quoted(name) + "/storage"))

    def limit_storage(self, name: str, limit_bytes: int | None) -> ProjectStorage:
        """Limit what a project stores; None lifts the limit. For site admins. Raises NotFound."""
        answer = self._http.patch("/projects" + quoted(name) + "/storage", {"limit_bytes": limit_bytes})
        return ProjectStorage.read(answer)


class Members:
    """Who may do what in a project. To change it needs its role `admin`."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, project: str) -> Iterator[Member]:
        """Yield the members, oldest first. Raises NotFound."""
        return map(Member.read, self._http.list_items(_members(project)))

    def set(self, project: str, username: str, role: str) -> Member:
        """Give a person a role: `viewer`, `member` or `admin`. Raises NotFound, and Conflict for the last admin."""
        return Member.read(self._http.put(_members(project) + quoted(username), {"role": role}))

    def remove(self, project: str, username: str) -> None:
        """End a person's membership. Raises NotFound, and Conflict for the last admin."""
        self._http.delete(_members(project) + quoted(username))


class Secrets:
    """Values that jobs of a project get as variables. No answer holds one."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, project: str) -> Iterator[Secret]:
        """Yield the names, oldest first. Raises NotFound."""
        return map(Secret.read, self._http.list_items(_secrets(project)))

    def set(self, project: str, name: str, value: str) -> Secret:
        """Store or replace a secret. Raises InvalidRequest for a name that is no variable, and NotFound."""
        return Secret.read(self._http.put(_secrets(project) + quoted(name), {"value": value}))

    def delete(self, project: str, name: str) -> None:
        """Forget a secret. Raises NotFound."""
        self._http.delete(_secrets(project) + quoted(name))


def _members(project: str) -> str:
    return "/projects" + quoted(project) + "/members"


def _secrets(project: str) -> str:
    return "/projects" + quoted(project) + "/secrets"
