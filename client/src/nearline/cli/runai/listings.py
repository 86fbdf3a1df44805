"""Run:AI's `list` and `top`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from nearline._yaml import write_yaml
from nearline.cli import formats
from nearline.cli.foreign_gpus import count_foreign
from nearline.cli.group import CommandGroup
from nearline.cli.runai.columns import COLUMNS, is_deleted, row_of, urls_of
from nearline.cli.session import Session, session_of
from nearline.errors import InvalidRequest, NotFound
from nearline.models import Job, Node

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
    nodes, foreign = _find_nodes(session)
    rows = [
        (
            node.name,
            _held_gpus(node, foreign),
            _held_cpus(node),
            _held_memory(node),
            f"{100 * _held_milli(node, foreign) / (1000 * total):.0f}%" if (total := _gpus(node, foreign)) else "-",
        )
        for node in nodes
    ]
    columns = ("NAME", "GPUs (allocated/total)", "CPU (allocated/total)", "MEMORY (allocated/total)", "GPUs ALLOCATED")
    marked_columns, marked_rows = _mark_simulated(columns, rows, nodes)
    session.out.table(nodes, marked_columns, marked_rows, empty="There is no node.")


def _mark_simulated(
    columns: Sequence[str], rows: Sequence[Sequence[str]], items: Sequence[Job] | Sequence[Node]
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return a table with a last column that marks what is simulated, if anything is. Others keep their places."""
    if not any(item.is_simulated for item in items):
        return columns, rows
    marks = ["simulated" if item.is_simulated else "-" for item in items]
    return [*columns, "SIMULATED"], [[*row, mark] for row, mark in zip(rows, marks, strict=True)]


def show_node(session: Session, name: str, *, as_yaml: bool = False) -> None:
    """Show a node, called NAME or RESOURCE/NAME, and its GPUs. Raises NotFound, and InvalidRequest for several."""
    nodes, foreign = _find_nodes(session, name)
    if not nodes:
        raise NotFound(f"There is no node called '{name}'.", hint="Find them: list nodes.")
    if len(nodes) > 1:
        names = ", ".join(map(_full_name_of, nodes))
        raise InvalidRequest(
            f"{len(nodes)} nodes are called '{name}': {names}.", hint="Write: describe node RESOURCE/NAME."
        )
    [node] = nodes
    if as_yaml:
        session.out.line(write_yaml(node.to_json()).rstrip())
        return
    fields = (
        *(("NAME", node.name + formats.simulated(node.is_simulated)), ("RESOURCE", node.resource)),
        *(("STATUS", _status_of(node)), ("LABELS", [f"{key}={value}" for key, value in node.raw["labels"].items()])),
        ("CPU (allocated/total)", _held_cpus(node)),
        ("MEMORY (allocated/total)", _held_memory(node)),
        ("GPUs (allocated/total)", _held_gpus(node, foreign)),
    )
    session.out.record(node, fields)
    if session.out.is_json or session.out.is_quiet:
        return
    session.out.line("\nGPUs:")
    rows = [
        (str(gpu["index"]), gpu["model"], formats.memory(gpu["memory_bytes"]), f"{gpu['held_milli'] / 1000:g}")
        for gpu in node.gpus
    ]
    session.out.table([], ("GPU", "TYPE", "MEMORY", "ALLOCATED"), rows, empty="It has no GPU.")
    if others := foreign.get(node.id):
        session.out.line(f"and {formats.count(others, 'GPU')} that pods of others hold.")


def _list_jobs(session: Session, project: str | None) -> None:
    newest = session.client().jobs.list(project=project, limit=_NEWEST)
    jobs = sorted((job for job in newest if not is_deleted(job)), key=lambda job: (job.project or "", job.name))
    session.out.note("Showing jobs for all projects" if project is None else f"Showing jobs for project {project}")
    columns, rows = _mark_simulated(COLUMNS, [row_of(job, urls_of(job, session.settings().url)) for job in jobs], jobs)
    session.out.table(jobs, columns, rows, empty="There is no job.")


def _list_projects(session: Session, default: str | None) -> None:
    client = session.client()
    # Those of the default pool come first: what differs between pools is told of that.
    queues = sorted(
        (queue for pool in client.pools.list() for queue in client.queues.list(pool=pool.name)),
        key=lambda queue: queue.project,
    )
    deserved: Counter[str] = Counter()
    for queue in queues:
        deserved[queue.project] += queue.gpu_quota_milli
    first_queues = {queue.project: queue for queue in reversed(queues)}
    rows = [
        (
            f"{queue.project} (default)" if queue.project == default else queue.project,
            queue.department or "default",
            f"{deserved[queue.project] / 1000:g}",
            "-" if queue.interactive_run_at_most_s is None else formats.duration(queue.interactive_run_at_most_s),
            ", ".join(queue.interactive_node_labels) or "none",
            ", ".join(queue.training_node_labels) or "none",
        )
        for queue in sorted(first_queues.values(), key=lambda queue: queue.project)
    ]
    columns = ("PROJECT", "DEPARTMENT", "DESERVED GPUs", "INT LIMIT", "INT AFFINITY", "TRAIN AFFINITY")
    session.out.table(queues, columns, rows, empty="None of your projects has a queue yet.")


def _list_nodes(session: Session) -> None:
    nodes, foreign = _find_nodes(session)
    rows = [
        (
            node.name + formats.simulated(node.is_simulated),
            _status_of(node),
            node.resource,
            formats.cpus(node.cpu_millicores),
            formats.memory(node.memory_bytes),
            next((gpu["model"] for gpu in node.gpus), "-"),
            str(_gpus(node, foreign)),
            f"{_gpus(node, foreign) - _held_milli(node, foreign) / 1000:g}",
        )
        for node in nodes
    ]
    columns = ("NAME", "STATUS", "RESOURCE", "CPU", "MEMORY", "GPU TYPE", "GPUs", "GPUs FREE")
    session.out.table(nodes, columns, rows, empty="There is no node.")


def _status_of(node: Node) -> str:
    if node.is_drained:
        return "Drained"
    return "Ready" if node.is_ready else "NotReady"


def _full_name_of(node: Node) -> str:
    return f"{node.resource}/{node.name}"


def _find_nodes(session: Session, name: str | None = None) -> tuple[list[Node], Mapping[str, int]]:
    """Return the nodes, or those of a name, and how many GPUs of each pods of others hold."""
    client = session.client()
    nodes = [node for node in client.compute.list_nodes() if name in {None, node.name, _full_name_of(node)}]
    return nodes, count_foreign(client, nodes)


def _gpus(node: Node, foreign: Mapping[str, int]) -> int:
    return len(node.gpus) + foreign.get(node.id, 0)


def _held_gpus(node: Node, foreign: Mapping[str, int]) -> str:
    return f"{_held_milli(node, foreign) / 1000:g}/{_gpus(node, foreign)}"


def _held_cpus(node: Node) -> str:
    return f"{formats.cpus(node.cpu_held_millicores)}/{formats.cpus(node.cpu_millicores)}"


def _held_memory(node: Node) -> str:
    return f"{formats.memory(node.memory_held_bytes)}/{formats.memory(node.memory_bytes)}"


def _held_milli(node: Node, foreign: Mapping[str, int]) -> int:
    return sum(int(gpu["held_milli"]) for gpu in node.gpus) + 1000 * foreign.get(node.id, 0)
