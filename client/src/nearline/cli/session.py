"""What a command works with: its settings, the connection, and the way it speaks. Made once per call of the program."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from nearline.cli.output import Output
from nearline.errors import InvalidRequest, NotSignedIn
from nearline.settings import Settings, read_settings

if TYPE_CHECKING:
    from nearline.client import Client


@dataclass
class Session:
    """The state of one call. Tests put their own in place."""

    url: str | None = None
    token: str | None = None
    is_cnvrg: bool = False
    """Whether commands mean what they mean in cnvrg, where both differ."""
    out: Output = field(default_factory=Output)
    _client: "Client | None" = None

    def settings(self, *, project: str | None = None) -> Settings:
        """Return the settings in force."""
        return read_settings(url=self.url, token=self.token, project=project)

    def client(self) -> "Client":
        """Return the connection. Raises NotSignedIn where there is no token to use."""
        from nearline.cli.progress import OutageNotice  # noqa: PLC0415 (with what follows)
        from nearline.client import Client  # noqa: PLC0415 (brings the HTTP library, which --help must not wait for)

        if self._client is None:
            settings = self.settings()
            if settings.token is None:
                raise NotSignedIn(f"You are not signed in to {settings.url}.")
            self._client = Client(settings.url, settings.token, on_wait=OutageNotice(self.out))
        return self._client

    def project(self, given: str | None = None) -> str:
        """Return the project to work in: the one that is named, or the caller's only one. Raises InvalidRequest."""
        return given or self.settings().project or self._only_project()

    def _only_project(self) -> str:
        names = [str(project["name"]) for project in self.client().whoami().get("projects", [])]
        if len(names) == 1:
            return names[0]
        if not names:
            raise InvalidRequest(
                "No project is named, and you are a member of none.",
                hint="Ask an admin of a project for a role, or make one: `nearline project create NAME`.",
            )
        raise InvalidRequest(
            f"No project is named, and you are a member of {len(names)}: {', '.join(names)}.",
            hint="Add --project NAME, or choose one for all commands: `nearline project set NAME`.",
        )


class Context(Protocol):
    """What the running command knows about itself, as far as it matters here."""

    def ensure_object(self, object_type: type[Session], /) -> Session:
        """Return the object of the call, made when it is missing."""
        ...


def session_of(context: Context) -> Session:
    """Return the session of the running command."""
    return context.ensure_object(Session)
