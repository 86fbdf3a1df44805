"""The machine of another host, as this one sees it: its own controller drives it, and answers what its jobs print."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO, NoReturn

from compute.adapters.local import questions
from compute.engine.job_spec import HostFolder, SourceKind
from compute.engine.ports import JobReport, Launch, LogChunk, NodeFacts, OutputFile, UsageSample
from compute.errors import ResourceUnreachable
from compute.models import Resource
from core import hosts
from core.hosts import HostAway


@dataclass(frozen=True)
class ElsewhereOutput:
    """An output in a folder of another host."""

    driver: "ElsewhereDriver"
    name: str
    source: HostFolder | None = None

    def list_files(self) -> Iterator[OutputFile]:
        """Refuse."""
        self.driver.refuse()

    def open(self, path: str) -> BinaryIO:  # noqa: ARG002 (none can be opened)
        """Refuse."""
        self.driver.refuse()


class ElsewhereDriver:
    """Stands for the driver of a resource of kind `local` in processes of other hosts."""

    mountable = frozenset({SourceKind.HOST_FOLDER, SourceKind.TREE})

    def __init__(self, resource: Resource) -> None:
        self._resource = resource

    def refuse(self) -> NoReturn:
        """Say on which host the resource is. Raises ResourceUnreachable."""
        host = hosts.name_of(self._resource.host)
        raise ResourceUnreachable(f"{self._resource.name} is on the host {host}, whose controller alone drives it.")

    def _ask(self, question: str, **facts: Any) -> dict[str, Any]:
        host = hosts.list_hosts().get(self._resource.host)
        if host is None or host.is_away:
            self.refuse()
        try:
            return hosts.ask(host.id, question, resource_id=self._resource.pk, **facts)
        except HostAway as error:
            raise ResourceUnreachable(error.message) from error

    def probe(self) -> Sequence[NodeFacts]:
        """Refuse."""
        self.refuse()

    def start(self, launch: Launch) -> None:  # noqa: ARG002
        """Refuse."""
        self.refuse()

    def list_jobs(self) -> Sequence[JobReport]:
        """Refuse."""
        self.refuse()

    def stop(self, name: str, grace_s: float) -> None:  # noqa: ARG002
        """Refuse."""
        self.refuse()

    def read_log(self, name: str, offset: int, limit: int) -> LogChunk:
        """Ask its host."""
        return questions.chunk_from_json(self._ask(questions.READ_LOG, name=name, offset=offset, limit=limit))

    def read_usage(self, name: str, after: datetime | None) -> Sequence[UsageSample]:
        """Ask its host."""
        moment = None if after is None else after.isoformat()
        return questions.samples_from_json(self._ask(questions.READ_USAGE, name=name, after=moment))

    def open_output(self, name: str) -> ElsewhereOutput:
        """Return an output that is not on this host."""
        return ElsewhereOutput(self, name)

    def forget(self, name: str) -> None:  # noqa: ARG002
        """Refuse."""
        self.refuse()

    def delete(self, name: str) -> None:  # noqa: ARG002
        """Refuse."""
        self.refuse()

    def wait_for_news(self, timeout_s: float) -> bool:  # noqa: ARG002
        """Refuse."""
        self.refuse()
