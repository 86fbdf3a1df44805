"""Flows: check a file, store it as a version, run it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nearline._http import Http, Json, quoted
from nearline.flow import Flow as FlowBuilder
from nearline.models import Flow, FlowVersion, Problem, Run
from nearline.resources.code_bundle import Code, send_code

if TYPE_CHECKING:
    from nearline.transfer.progress import OnProgress


class Flows:
    """Pipelines of the projects that the caller is a member of."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def validate(self, project: str, flow: str | FlowBuilder) -> tuple[Problem, ...]:
        """Return everything that is wrong with a flow, given as YAML or built; nothing is stored."""
        answer = self._http.post("/flows/validate", _source(project, flow), may_repeat=True)
        return tuple(Problem.read(problem) for problem in answer["problems"])

    def push(
        self,
        project: str,
        flow: str | FlowBuilder,
        *,
        code: Code | bytes | None = None,
        on_progress: "OnProgress | None" = None,
    ) -> FlowVersion:
        """Store a flow and return its version; the same content gives the same version.

        `code` are the files that its commands use (see `nearline.resources.code_bundle.find_code`), or for one release
        more a tar.gz of them. Raises InvalidRequest with all problems in `details`.
        """
        body = _source(project, flow)
        if isinstance(code, Code):
            body["bundle"] = send_code(self._http, project, code, on_progress)["bundle"]
        elif code is not None:
            body["bundle"] = self._http.post_bytes("/flows/bundles", code, project=project)["bundle"]
        return FlowVersion.read(self._http.post("/flows", body, may_repeat=True))

    def run(
        self,
        project: str,
        name: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        version: str | None = None,
        code: Mapping[str, Any] | None = None,
        data: Mapping[str, str] | None = None,
    ) -> Run:
        """Start a run of a stored flow. `code` says which version of the code it came from.

        `data` names other commits for dataset references of the flow: `{"demo/digits@main": "3d468961"}`.
        """
        body: Json = {"parameters": dict(parameters or {})}
        if data:
            body["data"] = dict(data)
        if version is not None:
            body["version"] = version
        if code is not None:
            body["code"] = dict(code)
        return Run.read(self._http.post("/flows" + quoted(project, name) + "/runs", body))

    def get(self, project: str, name: str, *, version: str | None = None) -> Flow:
        """Return a flow with its newest version, or with another one by its hash or number. Raises NotFound."""
        return Flow.read(self._http.get("/flows" + quoted(project, name), version=version))

    def foresee_deletion(self, project: str, name: str) -> Sequence[str]:
        """Return, as sentences, what its deletion would mean. Raises NotFound, Denied and Conflict as `delete` does."""
        effects: Sequence[str] = self._http.get("/flows" + quoted(project, name) + "/deletion")["effects"]
        return effects

    def delete(self, project: str, name: str) -> None:
        """Delete a flow none of whose runs goes on, with its versions and runs. It cannot be restored.

        Raises NotFound, Denied and Conflict.
        """
        self._http.delete("/flows" + quoted(project, name))

    def list_versions(self, project: str, name: str) -> Iterator[FlowVersion]:
        """Yield the versions of a flow, newest first."""
        return map(FlowVersion.read, self._http.list_items("/flows" + quoted(project, name) + "/versions"))

    def list(self, *, project: str | None = None) -> Iterator[Flow]:
        """Yield the flows."""
        return map(Flow.read, self._http.list_items("/flows", project=project))


def _source(project: str, flow: str | FlowBuilder) -> Json:
    text = flow if isinstance(flow, str) else flow.to_yaml()
    return {"project": project, "text": text, "format": "yaml"}
