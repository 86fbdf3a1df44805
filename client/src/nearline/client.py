"""The way into the SDK: one object that holds the connection and hands out the resources."""

from collections.abc import Callable
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from nearline._http import Http, api_policy
from nearline.content.retry import Waiting, ignore_waiting
from nearline.resources.analytics import Analytics
from nearline.resources.caches import Caches
from nearline.resources.compute import Compute
from nearline.resources.experiments import Experiments
from nearline.resources.flows import Flows
from nearline.resources.jobs import Jobs
from nearline.resources.pools import Pools
from nearline.resources.projects import Members, Projects, Secrets
from nearline.resources.queues import Queues
from nearline.resources.runs import Runs
from nearline.resources.sources import Sources
from nearline.resources.users import Tokens, Users
from nearline.settings import read_settings

if TYPE_CHECKING:
    from nearline.resources.datasets import Datasets
    from nearline.resources.folders import Folders


class Client:
    """A connection to a Nearline server, as one person. Without arguments it uses the settings that the CLI uses."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        http: Http | None = None,
        on_wait: Callable[[Waiting], None] = ignore_waiting,
    ) -> None:
        """Use a server; `on_wait` is told whenever it is away and is waited for."""
        settings = read_settings(url=url, token=token)
        self._http = http or Http(settings.url, settings.token, policy=api_policy(on_wait))
        self.url = self._http.url

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop the open connections."""
        self._http.close()

    def whoami(self) -> dict[str, Any]:
        """Return who the token belongs to. Raises NotSignedIn when it is worthless."""
        return self._http.get("/me")

    @cached_property
    def datasets(self) -> "Datasets":
        """Versioned file trees."""
        from nearline.resources.datasets import Datasets  # noqa: PLC0415 (brings what only transfers need)

        return Datasets(self._http)

    @cached_property
    def folders(self) -> "Folders":
        """Folders on this machine that are linked to datasets."""
        from nearline.resources.folders import Folders  # noqa: PLC0415 (brings what only transfers need)

        return Folders(self._http)

    @cached_property
    def caches(self) -> Caches:
        """Cache sites and the commits on them."""
        return Caches(self._http)

    @cached_property
    def flows(self) -> Flows:
        """Pipelines."""
        return Flows(self._http)

    @cached_property
    def runs(self) -> Runs:
        """Executions of pipelines."""
        return Runs(self._http)

    @cached_property
    def jobs(self) -> Jobs:
        """Jobs on compute resources."""
        return Jobs(self._http)

    @cached_property
    def experiments(self) -> Experiments:
        """What steps recorded."""
        return Experiments(self._http)

    @cached_property
    def compute(self) -> Compute:
        """Where steps run."""
        return Compute(self._http)

    @cached_property
    def analytics(self) -> Analytics:
        """What happened on the clusters."""
        return Analytics(self._http)

    @cached_property
    def pools(self) -> Pools:
        """Pools of nodes."""
        return Pools(self._http)

    @cached_property
    def queues(self) -> Queues:
        """Quotas, limits and rules of projects and departments."""
        return Queues(self._http)

    @cached_property
    def projects(self) -> Projects:
        """Teams."""
        return Projects(self._http)

    @cached_property
    def members(self) -> Members:
        """Who may do what in a project."""
        return Members(self._http)

    @cached_property
    def secrets(self) -> Secrets:
        """Values that jobs of a project get as variables."""
        return Secrets(self._http)

    @cached_property
    def sources(self) -> Sources:
        """Where files are imported from in place."""
        return Sources(self._http)

    @cached_property
    def tokens(self) -> Tokens:
        """Personal access tokens."""
        return Tokens(self._http)

    @cached_property
    def users(self) -> Users:
        """People, for site admins."""
        return Users(self._http)
