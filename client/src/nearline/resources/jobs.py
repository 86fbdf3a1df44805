"""Jobs: what compute runs, for a step or submitted by itself."""

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from nearline._http import Http, Json, quoted
from nearline.models import Job, JobUsage
from nearline.resources.connections import Connection, Ticket
from nearline.resources.log_pieces import PIECE_BYTES, Piece, follow

if TYPE_CHECKING:
    from nearline.resources.code_bundle import Code
    from nearline.transfer.progress import OnProgress


@dataclass(frozen=True)
class CommandPiece:
    """Some bytes that a command in a job printed, and on the last piece its exit code."""

    data: bytes = b""
    is_error: bool = False
    exit_code: int | None = None


class JobOptions(TypedDict, total=False):
    """What may be said of a new job besides its command; what is left out is the server's to choose.

    Its size is that of a `template`, or its own: `gpu_milli` (500 is half a GPU), `cpu_millicores`, `memory_bytes`, on
    a `resource` or in `pools`, the best first. `data` names commits; with `start_early` it
    starts once their first files are there. `secrets` are secrets of the project.
    `gpu_memory_bytes` or `mig_profile` asks for a part of one GPU in place of `gpu_milli`; `gpu_limit_milli` lets it
    use more while nobody else does. With `completions` it runs as so many parts, each with its `$NEARLINE_INDEX`, at
    most `parallelism` at once. What fails runs again, `retries` times in all. With `min_replicas` it starts
    with so many of its `replicas`. With a `launcher` one more pod, without GPUs, runs the command, and the replicas run
    `worker_command`; it has `cpu_millicores`, `memory_bytes` and `worker_port` too, all of which may be left out.
    Its nodes have one of `node_labels` (`key=value`), and one value of
    `required_level`, where possible also of `preferred_level`.
    `priority` is a number or a name: `train` (50), `build-preemptible`, `build`, `inference`.
    """

    template: str
    name: str
    image: str
    resource: str
    pool: str
    pools: Sequence[str]
    gpu_milli: int
    cpu_millicores: int
    memory_bytes: int
    env: Mapping[str, str]
    secrets: Sequence[str]
    data: Sequence[str]
    start_early: bool
    ports: Sequence[int]
    jupyter: bool
    volumes: Sequence[str]
    replicas: int
    completions: int
    parallelism: int
    retries: int
    min_replicas: int
    launcher: Mapping[str, Any]
    gpu_memory_bytes: int
    gpu_limit_milli: int
    mig_profile: str
    node_labels: Sequence[str]
    required_level: str
    preferred_level: str
    timeout_s: float
    idle_limit_s: float
    grace_period_s: float
    checkpoints: bool
    simulated_duration_s: float
    is_preemptible: bool
    priority: int | str


class Jobs:
    """Commands on compute resources."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        *,
        project: str | None = None,
        state: str | None = None,
        cause: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Job]:
        """Yield jobs, newest first; `cause` is why they failed, such as `out_of_memory`."""
        filters = {"project": project, "state": state, "cause": cause}
        return map(Job.read, self._http.list_items("/compute/jobs", **filters, limit=limit))

    def get(self, name: str) -> Job:
        """Return a job. Raises NotFound."""
        return Job.read(self._http.get("/compute/jobs" + quoted(name)))

    def submit(
        self,
        *,
        project: str,
        command: str = "",
        code: "Code | Path | str | None" = None,
        on_progress: "OnProgress | None" = None,
        **options: Unpack[JobOptions],
    ) -> Job:
        """Queue a job and return it. Without a command its image runs what it is made for.

        `code` is a folder, or what `nearline.resources.code_bundle.find_code` found in one; it is sent, and the job
        begins in a copy of it. Raises InvalidRequest for what no resource can run and for a folder without code, and
        Conflict when the name is taken.
        """
        body: Json = {"project": project, "command": command, **options}
        if code is not None:
            from nearline.resources.code_bundle import get_code, send_code  # noqa: PLC0415 (few jobs bring code)

            bundle = get_code(Path(code)) if isinstance(code, str | Path) else code
            body["code"] = send_code(self._http, project, bundle, on_progress)["bundle"]
        return Job.read(self._http.post("/compute/jobs", body))

    def try_out(self, *, project: str, command: str = "", **options: Unpack[JobOptions]) -> Json:
        """Return what would become of a job: `starts_now`, and its `outlook`. Nothing changes."""
        return self._http.post("/compute/jobs/try", {"project": project, "command": command, **options})

    def try_changes(self, name: str) -> Json:
        """Return what would let a waiting job start sooner, as `changes`, and whom each stops. Nothing changes.

        Raises NotFound.
        """
        return self._http.get("/compute/jobs" + quoted(name) + "/changes")

    def cancel(self, name: str, *, reason: str = "") -> Job:
        """Stop a job for good. Without effect on one that has ended. Raises NotFound."""
        return Job.read(self._http.post("/compute/jobs" + quoted(name) + "/cancel", {"reason": reason}))

    def delete(self, name: str) -> None:
        """Stop a job for good and forget it, so that another one can be called so. Raises NotFound."""
        self._http.delete("/compute/jobs" + quoted(name))

    def suspend(self, name: str) -> Job:
        """Stop a job and keep it out of the queue until it is resumed. Raises NotFound."""
        return Job.read(self._http.post("/compute/jobs" + quoted(name) + "/suspend", {}))

    def resume(self, name: str) -> Job:
        """Queue a suspended job again, or once it has stopped; it starts anew.

        Raises NotFound, and Conflict for one that nobody suspended.
        """
        return Job.read(self._http.post("/compute/jobs" + quoted(name) + "/resume", {}))

    def list_usage(self, name: str) -> Iterator[JobUsage]:
        """Yield what a job used, about once a second, oldest first; on a cluster its GPUs alone. Raises NotFound."""
        return map(JobUsage.read, self._http.list_items("/compute/jobs" + quoted(name) + "/usage"))

    def keep(self, name: str) -> Job:
        """Count a job as used now, so that its idle time begins anew.

        Raises NotFound, and Conflict for one that does not run or has no idle limit.
        """
        return Job.read(self._http.post("/compute/jobs" + quoted(name) + "/keep", {}))

    def rerun(self, name: str, *, new_name: str = "") -> Job:
        """Submit once more what a job was submitted as, and return the new job. Raises NotFound."""
        return Job.read(self._http.post("/compute/jobs" + quoted(name) + "/rerun", {"name": new_name}))

    def read_log(self, name: str, *, offset: int = 0) -> Json:
        """Return a piece of a job's log: `text`, `next_offset` and whether it `is_complete`."""
        return self._http.get("/compute/jobs" + quoted(name) + "/log", offset=offset, limit=PIECE_BYTES)

    def run_command(
        self, name: str, command: Sequence[str], *, stdin: bytes = b"", replica: int = 0
    ) -> Iterator[CommandPiece]:
        """Run a command in a job that runs, and yield what it prints; the last piece has its exit code.

        Raises Conflict where the job does not run or takes no commands, and Unavailable when the connection breaks:
        the command may still run then.
        """
        body = {"command": list(command), "stdin": base64.b64encode(stdin).decode(), "replica": replica}
        rest = b""
        with self._http.stream("/compute/jobs" + quoted(name) + "/exec", body=body) as pieces:
            for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                yield from (_read_piece(json.loads(line)) for line in lines if line)

    def offer_port(self, name: str, port: int, *, replica: int = 0) -> Ticket:
        """Return a ticket for connections to a TCP port of a job that runs; it is good for some minutes.

        Raises Conflict where the job does not run, or its ports cannot be reached.
        """
        body = {"port": port, "replica": replica}
        return Ticket.read(self._http.post("/compute/jobs" + quoted(name) + "/ports", body, may_repeat=True))

    def offer_terminal(
        self,
        name: str,
        command: Sequence[str],
        *,
        columns: int = 80,
        rows: int = 24,
        kind: str = "xterm",
        replica: int = 0,
    ) -> Ticket:
        """Return a ticket for a command in a terminal of this size in a job that runs.

        Raises Conflict where the job does not run, or has no terminal.
        """
        body = {"command": list(command), "columns": columns, "rows": rows, "kind": kind, "replica": replica}
        return Ticket.read(self._http.post("/compute/jobs" + quoted(name) + "/terminals", body, may_repeat=True))

    def connect(self, ticket: Ticket) -> Connection:
        """Open a connection to a job. What keeps it from being made may also be raised by its `receive`."""
        return Connection(self._http.connect(ticket.url, ticket.ticket))

    def follow_log(
        self, name: str, *, is_following: bool = True, sleep: Callable[[float], None] = time.sleep
    ) -> Iterator[str]:
        """Yield the log's text; when following, until the job has ended and all of it was read."""

        def read(offset: int) -> Piece:
            piece = self.read_log(name, offset=offset)
            return piece["text"], piece["next_offset"], bool(piece["is_complete"])

        return follow(read, is_following=is_following, sleep=sleep)


def _read_piece(line: Mapping[str, Any]) -> CommandPiece:
    is_error = "stderr" in line
    data = base64.b64decode(line.get("stderr" if is_error else "stdout", ""))
    return CommandPiece(data, is_error, line.get("exit_code"))
