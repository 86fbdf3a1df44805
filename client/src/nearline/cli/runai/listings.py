"""Run:AI's `list` and `top`."""

from typing import Annotated

import typer

from nearline.cli import formats
from nearline.cli.group import CommandGroup
from nearline.cli.runai.columns import COLUMNS, DELETED, row_of
from nearline.cli.session import Session, session_of
from nearline.errors import InvalidRequest
from nearline.models import Node

app = CommandGroup(help="Run:AI's lists.")

AllProjects = Annotated[bool, typer.Option("--all-projects", "-A", help="Of all of your projects.")]
ProjectName = Annotated[str | None, typer.Option("--project", "-p", help="Project; else the default one.")]
_NEWEST = 500


@app.command("list")
def list_things(
    context: typer.Context,
    what: Annotated[str, typer.Argument(metavar="[jobs|projects|nodes]", help="What to list.")] = "jobs",
    project: ProjectName = None,
    *,
    all_projects: AllProjects = False,
) -> None:
    """List jobs, projects or nodes in Run:AI's columns."""
    session = session_of(context)
    if what in {"jobs", "job"}:
        _list_jobs(session, None if all_projects else session.project(project))
    elif what in {"projects", "project"}:
        _list_projects(session, session.settings(project=project).project)
    elif what in {"nodes", "node"}:
        _list_nodes(session)
    else:
        raise InvalidRequest(
            f"'{what}' cannot be listed.", code="client.argument_refused", hint="Write: jobs, projects or nodes."
        )


@app.command("top")
def top(
    context: typer.Context, what: Annotated[str, typer.Argument(metavar="node", help="Of what: only of nodes.")]
) -> None:
    """Show what is held of each node."""
    session = session_of(context)
    if what not in {"node", "nodes"}:
        raise InvalidRequest(
            f"There is no top of '{what}'.", code="client.argument_refused", hint="Write: top node, or: list jobs -A."
        )
    nodes = list(session.client().compute.list_nodes())
    rows = [
        (
            node.name,
            f"{_held_gpus(node)}/{len(node.gpus)}",
            f"{formats.cpus(node.cpu_held_millicores)}/{formats.cpus(node.cpu_millicores)}",
            f"{formats.memory(node.memory_held_bytes)}/{formats.memory(node.memory_bytes)}",
            f"{100 * _held_milli(node) / (1000 * len(node.gpus)):.0f}%" if node.gpus else "-",
        )
        for node in nodes
    ]
    columns = ("NAME", "GPUs (allocated/total)", "CPU (allocated/total)", "MEMORY (allocated/total)", "GPUs ALLOCATED")
    session.out.table(nodes, columns, rows, empty="There is no node.")


def _list_jobs(session: Session, project: str | None) -> None:
    newest = session.client().jobs.list(project=project, limit=_NEWEST)
    jobs = sorted((job for job in newest if job.state != DELETED), key=lambda job: (job.project or "", job.name))
    session.out.note("Showing jobs for all projects" if project is None else f"Showing jobs for project {project}")
    session.out.table(jobs, COLUMNS, map(row_of, jobs), empty="There is no job.")


def _list_projects(session: Session, default: str | None) -> None:
    queues = sorted(session.client().queues.list(), key=lambda queue: queue.project)
    rows = [
        (
            f"{queue.project} (default)" if queue.project == default else queue.project,
            queue.department or "default",
            f"{queue.gpu_quota_milli / 1000:g}",
            "-" if queue.interactive_run_at_most_s is None else formats.duration(queue.interactive_run_at_most_s),
            ", ".join(queue.interactive_node_labels) or "none",
            ", ".join(queue.training_node_labels) or "none",
        )
        for queue in queues
    ]
    columns = ("PROJECT", "DEPARTMENT", "DESERVED GPUs", "INT LIMIT", "INT AFFINITY", "TRAIN AFFINITY")
    session.out.table(queues, columns, rows, empty="None of your projects has a queue yet.")


def _list_nodes(session: Session) -> None:
    nodes = list(session.client().compute.list_nodes())
    rows = [
        (
            node.name + formats.simulated(node.is_simulated),
            _status_of(node),
            node.resource,
            formats.cpus(node.cpu_millicores),
            formats.memory(node.memory_bytes),
            next((gpu["model"] for gpu in node.gpus), "-"),
            str(len(node.gpus)),
            f"{(1000 * len(node.gpus) - _held_milli(node)) / 1000:g}",
        )
        for node in nodes
    ]
    columns = ("NAME", "STATUS", "RESOURCE", "CPU", "MEMORY", "GPU TYPE", "GPUs", "GPUs FREE")
    session.out.table(nodes, columns, rows, empty="There is no node.")


def _status_of(node: Node) -> str:
    if node.is_drained:
        return "Drained"
    return "Ready" if node.is_ready else "NotReady"


def _held_gpus(node: Node) -> str:
    return f"{_held_milli(node) / 1000:g}"


def _held_milli(node: Node) -> int:
    return sum(int(gpu["held_milli"]) for gpu in node.gpus)
