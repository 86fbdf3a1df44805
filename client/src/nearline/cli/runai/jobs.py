"""Run:AI's commands about jobs that were submitted."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Annotated

import typer

from nearline._yaml import write_yaml
from nearline.cli import formats
from nearline.cli.commands.jobs import for_each, forward_ports, run_in_job, run_in_terminal, run_shell
from nearline.cli.group import CommandGroup, refuses
from nearline.cli.output import write_log
from nearline.cli.runai.columns import age_of, duration_of, gpus_of, held_of, name_of, status_of, type_of, urls_of
from nearline.cli.runai.listings import AllProjects, ProjectName, show_node
from nearline.cli.session import Session, session_of
from nearline.errors import Conflict, InvalidRequest, NotFound
from nearline.models import Job

app = CommandGroup(help="Run:AI's commands about jobs.")
_PENDING = frozenset({"pending", "starting"})
_NO_TIMES = "Logs keep no times of their lines. Read it all, or its end: --tail 100."
_OF_OTHERS = re.compile(r"\[[1-9][0-9]*\] ")
_RUNNING = frozenset({"running", "leaving", "suspending", "stopping"})

Words = Annotated[list[str], typer.Argument(metavar="[job|node] NAME", help="The job, or a node.")]
Several = Annotated[list[str], typer.Argument(metavar="[job] NAME...", help="The jobs.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The job.")]
Format = Annotated[str, typer.Option("--output", "-o", metavar="json|yaml|wide", help="How to print it.")]


@app.command("get")
def get(context: typer.Context, words: Words, project: ProjectName = None, output: Format = "wide") -> None:
    """Show a job, its pods and its events; or a node and its GPUs."""
    _show(session_of(context), words, project, output)


@app.command("describe")
def describe(context: typer.Context, words: Words, project: ProjectName = None, output: Format = "wide") -> None:
    """Show a job, its pods and its events; or a node and its GPUs."""
    _show(session_of(context), words, project, output)


@app.command("logs")
@refuses(
    {
        "--since=": _NO_TIMES,
        "--since-time=": _NO_TIMES,
        "--timestamps": _NO_TIMES,
    }
)
def logs(
    context: typer.Context,
    name: Name,
    project: ProjectName = None,
    tail: Annotated[int | None, typer.Option("--tail", "-t", min=0, help="Only so many lines of its end.")] = None,
    pod: Annotated[str, typer.Option("--pod", help="Of this one of its pods, as `describe job` shows them.")] = "",
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the end.")] = False,
) -> None:
    """Print what a job has written."""
    session = session_of(context)
    job = _require(session, name, project)
    if tail is not None and follow:
        raise InvalidRequest("--tail and --follow do not go together.", hint="Leave one of them out.")
    named, rank = _find_pod(job, pod) if pod else (name, None)
    pieces = session.client().jobs.follow_log(named, is_following=follow)
    if rank is not None:
        pieces = _of_replica(pieces, rank)
    if tail is None and not session.out.is_json:
        for piece in pieces:
            write_log(piece)
        return
    lines = "".join(pieces).splitlines(keepends=True)
    text = "".join(lines if tail is None else lines[len(lines) - min(tail, len(lines)) :])
    if session.out.is_json:
        session.out.json({"text": text})
    else:
        write_log(text)


@app.command("bash")
def bash(context: typer.Context, name: Name, project: ProjectName = None) -> None:
    """Open a shell in a job, or run what is piped without a terminal."""
    session = session_of(context)
    _require(session, name, project)
    raise typer.Exit(run_shell(session, name))


@app.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run_command(
    context: typer.Context,
    name: Name,
    command: Annotated[list[str], typer.Argument(metavar="[-it] COMMAND...", help="What to run there.")],
    project: ProjectName = None,
) -> None:
    """Run a command in a job. Its exit code becomes that of this command."""
    session = session_of(context)
    flags, words = set(), list(command)
    while words and words[0] in {"-i", "-t", "-it", "-ti", "--stdin", "--tty", "--"}:
        flags.add(words.pop(0))
    if not words:
        raise InvalidRequest("No command is named.", hint="Write: exec JOB ls -l.")
    _require(session, name, project)
    if flags & {"-t", "-it", "-ti", "--tty"}:
        raise typer.Exit(run_in_terminal(session, name, words))
    stdin = sys.stdin.buffer.read() if flags & {"-i", "--stdin"} else b""
    raise typer.Exit(run_in_job(session, name, words, stdin=stdin))


@app.command("port-forward")
def port_forward(
    context: typer.Context,
    name: Name,
    ports: Annotated[list[str], typer.Option("--port", metavar="[LOCAL:]PORT", help="As 8888, or 9000:8888.")],
    project: ProjectName = None,
) -> None:
    """Reach ports of a job from this machine, until Ctrl-C or its end."""
    session = session_of(context)
    _require(session, name, project)
    forward_ports(session, name, ports)


@app.command("delete")
def delete(
    context: typer.Context, words: Several, project: ProjectName = None, *, all_projects: AllProjects = False
) -> None:
    """Stop jobs for good and forget them, without asking. Their names are free again."""

    def act(session: Session, name: str) -> str:
        session.client().jobs.delete(name)
        return f"Job {name} deleted successfully."

    _for_each(context, words, None if all_projects else project, act)


@app.command("suspend")
def suspend(
    context: typer.Context, words: Several, project: ProjectName = None, *, all_projects: AllProjects = False
) -> None:
    """Stop jobs and give their GPUs back until they are resumed."""

    def act(session: Session, name: str) -> str:
        job = session.client().jobs.suspend(name)
        if job.state not in {"suspending", "suspended"}:
            raise Conflict(f"The job {name} was not suspended: it is {job.state}.")
        return f"Job {name} suspended successfully."

    _for_each(context, words, None if all_projects else project, act)


@app.command("resume")
def resume(
    context: typer.Context, words: Several, project: ProjectName = None, *, all_projects: AllProjects = False
) -> None:
    """Queue suspended jobs again. They start anew."""

    def act(session: Session, name: str) -> str:
        session.client().jobs.resume(name)
        return f"Job {name} resumed successfully."

    _for_each(context, words, None if all_projects else project, act)


def _show(session: Session, words: Sequence[str], project: str | None, output: str) -> None:
    if output not in {"wide", "json", "yaml"}:
        raise InvalidRequest(
            f"-o {output} is not supported.", code="client.flag_refused", hint="Write -o json, -o yaml or -o wide."
        )
    kind, name, *more = words if len(words) > 1 else ("job", *words)
    if kind not in {"job", "node"}:
        raise InvalidRequest(
            f"'{kind}' cannot be shown.", code="client.argument_refused", hint="Write: job NAME, or node NAME."
        )
    if more:
        raise InvalidRequest(f"Only one {kind} can be shown: '{more[0]}' is one too many.")
    session.out.is_json |= output == "json"
    as_yaml = output == "yaml" and not session.out.is_json
    if kind == "node":
        show_node(session, name, as_yaml=as_yaml)
    elif as_yaml:
        session.out.line(write_yaml(_require(session, name, project).to_json()).rstrip())
    else:
        _show_job(session, _require(session, name, project))


def _show_job(session: Session, job: Job) -> None:
    if session.out.is_json:
        session.out.json(job)
        return
    is_held = job.state in {"starting", "running", "leaving", "suspending", "stopping"}
    pods = job.parts or job.replicas or ({"node": job.node, "state": job.state},)
    held = [pod["state"] or job.state for pod in pods] if is_held or job.parts else []
    running = sum(state in _RUNNING for state in held)
    fields = (
        *(("NAME", name_of(job)), ("PROJECT", job.project), ("TYPE", type_of(job))),
        ("STATUS", status_of(job) + formats.simulated(job.is_simulated)),
        *(("TRAINING DURATION", duration_of(job)), ("GPUS", f"{job.gpu_milli / 1000:g}")),
        *(("TOTAL REQUESTED GPUS", gpus_of(job)), ("ALLOCATED GPUS", held_of(job) if is_held else "0")),
        *(("RUNNING PODS", str(running)), ("PENDING PODS", str(_pending_pods(job, running)))),
        *(("PARALLELISM", str(job.parallelism)), ("COMPLETIONS", str(job.completions))),
        *(
            ("SUCCEEDED PODS", str(_ended_pods(job, "succeeded"))),
            ("FAILED PODS", str(_ended_pods(job, "failed", "lost"))),
        ),
        *(("IS DISTRIBUTED WORKLOAD", str(job.pod_count > 1).lower()), ("USER", job.submitted_by)),
        *(("IMAGE", job.image), ("PORTS", ", ".join(map(str, job.ports))), ("VOLUMES", ", ".join(job.volumes))),
        ("SERVICE URL(S)", ", ".join(urls_of(job, session.settings().url))),
        *(("COMMAND LINE", job.command), ("REASON", job.reason)),
    )
    session.out.record(job, fields)
    if session.out.is_quiet:
        return
    session.out.line("\nPods:")
    numbers = enumerate(pods) if is_held or job.parts else ()
    rows = [
        (
            pod.get("name") or f"{name_of(job)}-{rank}",
            formats.state(pod.get("state") or job.state),
            age_of(datetime.fromisoformat(at) if (at := pod.get("started_at")) else job.started_at),
            pod["node"] or "-",
        )
        for rank, pod in numbers
    ]
    session.out.table([], ("POD", "STATUS", "AGE", "NODE"), rows, empty="It has no pod.")
    session.out.line("\nEvents:")
    session.out.table([], ("STATE", "AT", "MESSAGE"), _events_of(job), empty="It has no event.")


def _find_pod(job: Job, pod: str) -> tuple[str, int | None]:
    """Return the name of the job whose log has that of a pod, and the pod's rank where others are in it too."""
    if any(part["name"] == pod for part in job.parts):
        return pod, None
    label, _, rank = pod.rpartition("-")
    is_rank = rank.isascii() and rank.isdecimal() and int(rank) < job.pod_count
    if not job.parts and label in {name_of(job), job.name} and is_rank:
        return job.name, int(rank) if job.pod_count > 1 else None
    raise NotFound(f"The job {name_of(job)} has no pod called '{pod}'.", hint=f"See: describe job {name_of(job)}.")


def _of_replica(pieces: Iterable[str], rank: int) -> Iterator[str]:
    """Yield the lines of one replica: those of the others begin with their rank, as in `[1] `."""
    mark = f"[{rank}] "
    for line in _lines(pieces):
        if rank and line.startswith(mark):
            yield line.removeprefix(mark)
        elif not rank and not _OF_OTHERS.match(line):
            yield line


def _lines(pieces: Iterable[str]) -> Iterator[str]:
    rest = ""
    for piece in pieces:
        *lines, rest = (rest + piece).split("\n")
        yield from (f"{line}\n" for line in lines)
    if rest:
        yield rest


def _ended_pods(job: Job, *states: str) -> int:
    return sum(pod["state"] in states for pod in job.parts) or int(not job.parts and job.state in states)


def _pending_pods(job: Job, running: int) -> int:
    """Count the pods that wait or are being made, as a cluster does."""
    if job.completions > 1 or job.parts:
        return sum(part["state"] in _PENDING for part in job.parts)
    if job.state in _PENDING:
        return job.pod_count - running
    return sum(pod["state"] in _PENDING for pod in job.replicas)


def _events_of(job: Job) -> list[tuple[str, str, str]]:
    return [(event["state"], event["at"][:19], event["message"]) for event in job.raw.get("events") or ()]


def _for_each(
    context: typer.Context, words: Sequence[str], project: str | None, act: Callable[[Session, str], str]
) -> None:
    """Do something to each job that is named and belongs to the project, and print what it says."""
    session = session_of(context)

    def require_and_act(name: str) -> None:
        _require(session, name, project)
        session.out.line(act(session, name))

    for_each(session, _names(words), require_and_act)


def _require(session: Session, name: str, project: str | None) -> Job:
    """Return a job of a project, or of any where none is named. Raises NotFound."""
    job = session.client().jobs.get(name)
    if project is not None and job.project != project:
        raise NotFound(f"The job {name} does not exist in project {project}.")
    return job


def _names(words: Sequence[str]) -> Sequence[str]:
    return words[1:] if len(words) > 1 and words[0] == "job" else words
